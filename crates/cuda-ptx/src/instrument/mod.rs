//! Rewrites a kernel so that accesses which are not proven are checked when they run.
//!
//! ```text
//!    mod      the rewriting of one kernel
//!    region   the parts of a body whose accesses are checked together
//!    group    accesses of a region whose addresses differ by constants
//!    version  the code around a region
//!    site     the code around one instruction
//!    record   the first violation of a thread, and the code that writes it to the record
//!    surface  the code around an access to a surface
//!    zero     the zeros in place of what was not loaded
//!    range    the code that compares an address with the ranges that it may be in
//!    local    zeros in local variables
//!    slice    the loads that checked addresses depend on
//!    room     the room for the parameters of a copy
//! ```
//!
//! A checked access compares its address with the byte range of its argument or variable. Outside
//! of it, a load returns 0, and a store, a reduction or an atomic operation does nothing. A thread
//! keeps its first violation in registers, and writes it to the record when it ends, unless another
//! thread has done so. `trap` and `brkpt` become violations too, after which the thread ends.
//!
//! Accesses of a part of the body are checked together where that is possible. Only if this check
//! fails does the thread execute a slow version of the part, in which each access has its own
//! check. So the effect is that of checks for each access.
//!
//! The address that is compared is in the register that the access uses, or is computed once more
//! from the same registers. A load whose result an address depends on becomes volatile: the
//! assembler must not load it once for the check and again for the access, because another thread
//! may change it in between.

mod group;
mod local;
mod range;
mod record;
mod region;
#[cfg(test)]
mod region_tests;
mod room;
mod site;
mod slice;
mod surface;
#[cfg(test)]
mod tests;
mod version;
mod zero;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::analysis::{Analysis, Refusal, Root};
use crate::ast::{Function, Module, Statement};
use crate::edit::Edits;
use crate::flow::{Kernel, Op, Source};

use local::Locals;
use region::Regions;
use room::expect_room;
use site::Writer;
use slice::Slice;

/// The version of the layout of the record: see [`Record`].
pub const RECORD_VERSION: u32 = 1;

/// The number of 32-bit words of a record.
pub const RECORD_WORDS: usize = 16;

/// An access that is to be checked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Check {
    /// The index of the access in [`Contract::accesses`](crate::analysis::Contract::accesses).
    pub access: usize,
    /// The root in which it has to stay. If it is not known, each buffer and each variable that the
    /// access can use is permitted.
    pub root: Option<Root>,
    /// Whether its address is known to be a multiple of the access size. If it is not, the
    /// alignment is checked, too.
    pub is_aligned: bool,
}

/// A parameter that the rewriting appends to those of the kernel. Each has 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ExtraParameter {
    /// The address of the record, whose words the caller has set to 0: see [`Record`].
    Record,
    /// The address of the memory with this index.
    Base(usize),
    /// The address of the memory with this index, plus an offset.
    Start {
        /// The index of the memory.
        memory: usize,
        /// The offset, which is added modulo 2⁶⁴.
        offset: i64,
    },
    /// The number of offsets in the memory with this index at which an access of `size` bytes stays
    /// inside: max(0, bytes + 1 - size). It is also 0 if `is_write` is set and the kernel may only
    /// read the memory.
    Limit {
        /// The index of the memory.
        memory: usize,
        /// The size of the access in bytes.
        size: u32,
        /// Whether the access writes.
        is_write: bool,
    },
    /// The number of coordinates, counted from 0, at which an access stays inside the surface that
    /// a parameter refers to.
    Surface {
        /// The number of the parameter.
        parameter: u32,
        /// 0 for the coordinate in bytes, 1 for the row, 2 for the plane or the layer.
        axis: u32,
        /// The size of the access in this direction.
        size: u32,
    },
    /// The number of offsets in dynamic shared memory at which an access of `size` bytes stays
    /// inside.
    DynamicShared {
        /// The size of the access in bytes.
        size: u32,
    },
}

impl ExtraParameter {
    /// The value of a limit for this number of bytes.
    pub fn limit(bytes: u64, size: u32) -> u64 {
        bytes.saturating_add(1).saturating_sub(u64::from(size))
    }
}

/// The instruction that a violation number in the record refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The line in the PTX text.
    pub line: u32,
    /// The access, by its index in the contract; `None` for a `trap` or `brkpt`.
    pub access: Option<usize>,
    /// The root in which the access had to stay, if it was known.
    pub root: Option<Root>,
}

/// A rewritten kernel.
#[derive(Clone, Debug)]
pub struct Instrumented {
    /// The text of the module. The kernel has its own name. The bodies of other functions are
    /// empty.
    pub text: String,
    /// The parameters after those of the kernel.
    pub parameters: Vec<ExtraParameter>,
    /// The checked accesses and traps. The number in a record is the index plus 1.
    pub sites: Vec<Site>,
}

/// A violation as a rewritten kernel records it.
///
/// The record is an array of [`RECORD_WORDS`] words of 32 bits. Version 1: word 0 is the number of
/// the site, 0 if there was no violation; word 1 counts the threads with a violation; word 2 is the
/// version; words 4 and 5 are the address, low half first, or the first two coordinates in a
/// surface; words 6 to 8 the block and words 9 to 11 the thread; word 12 is the third coordinate in
/// a surface. Words 2 to 12 belong to the first thread that wrote the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The index in [`Instrumented::sites`].
    pub site: usize,
    /// The number of threads with a violation.
    pub threads: u32,
    /// The address of the access. For a surface, the low half is the coordinate in bytes, and the
    /// high half the second coordinate.
    pub address: u64,
    /// The third coordinate in a surface, or 0.
    pub third: u32,
    /// The coordinates of the block.
    pub block: [u32; 3],
    /// The coordinates of the thread.
    pub thread: [u32; 3],
}

impl Record {
    /// Reads a record. Returns `None` if there was no violation, or if the version is unknown.
    pub fn read(words: &[u32; RECORD_WORDS]) -> Option<Self> {
        let site = words[0].checked_sub(1)? as usize;
        (words[2] == RECORD_VERSION).then_some(Self {
            site,
            threads: words[1],
            address: u64::from(words[4]) | u64::from(words[5]) << 32,
            third: words[12],
            block: [words[6], words[7], words[8]],
            thread: [words[9], words[10], words[11]],
        })
    }
}

/// The checks of each statement, with the index of the operand that each of them is for.
type ChecksByStatement<'c> = BTreeMap<usize, Vec<(usize, &'c Check)>>;

/// The reason for which a kernel cannot be rewritten.
fn refuse<T>(kernel: &str, line: u32, reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal {
        kernel: kernel.to_owned(),
        line,
        access: None,
        reason: reason.into(),
    })
}

/// Rewrites `function` of `module`, whose text is `text`, so that the accesses in `checks` are
/// checked. `analysis` is that of the function.
///
/// `memories` are the buffers that the kernel may access. For a buffer whose address is in a
/// parameter it is the root; for other memory it is `None`. [`ExtraParameter`] refers to them by
/// index.
///
/// The rewritten kernel does for its checked accesses what the [module](self) describes. An access
/// that is not in `checks` is unchanged; the caller must have proven it.
///
/// # Errors
///
/// The reason and the line, if an access cannot be checked.
///
/// ```
/// use cuda_ptx::analysis::{Analysis, Root};
/// use cuda_ptx::instrument::{Check, instrument};
///
/// let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
///     .visible .entry k(.param .u64 x, .param .u64 at) {\n\
///     .reg .b32 %r<2>; .reg .b64 %d<4>;\n\
///     ld.param.u64 %d1, [x]; ld.param.u64 %d2, [at];\n\
///     add.s64 %d3, %d1, %d2;\n\
///     ld.global.u32 %r1, [%d3];\n\
///     ret; }";
/// let module = cuda_ptx::parse(text)?;
/// let analysis = Analysis::of(&module, &module.functions[0]);
/// let x = Root::Buffer { parameter: 0, offset: 0 };
/// let check = Check { access: 0, root: Some(x.clone()), is_aligned: false };
/// let new = instrument(text, &module, &module.functions[0], &analysis, &[check], &[Some(x)])?;
/// assert_eq!(new.sites[0].line, 8);
/// assert_eq!(new.parameters.len(), 3);
/// assert!(cuda_ptx::parse(&new.text).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn instrument<'a>(
    text: &'a str,
    module: &'a Module<'a>,
    function: &'a Function<'a>,
    analysis: &Analysis,
    checks: &[Check],
    memories: &[Option<Root>],
) -> Result<Instrumented, Refusal> {
    let name = function.name;
    let kernel = match analysis.kernel() {
        Ok(kernel) => kernel,
        Err(refused) => return refuse(name, refused.line, refused.reason.clone()),
    };
    let Some(expanded) = analysis.expanded() else {
        return rewrite(text, module, function, kernel, checks, memories);
    };
    // The kernel has calls: their bodies take their places first.
    let syntax = || {
        refuse(
            name,
            function.line,
            "the text cannot be parsed after its calls were expanded",
        )
    };
    let Some(span) = function.body_span else {
        return syntax();
    };
    let mut edits = Edits::new(text);
    edits.replace(span, expanded.body.as_str());
    let first = text
        .get(..span.start)
        .unwrap_or_default()
        .matches('\n')
        .count()
        + 1;
    let Some(text) = edits.apply() else {
        return syntax();
    };
    let Ok(module) = crate::parse(&text) else {
        return syntax();
    };
    let mut functions = module.functions.iter();
    let found = functions.find(|it| it.name == name && it.body.is_some());
    let Some(mut function) = found.cloned() else {
        return syntax();
    };
    if let Some(body) = &mut function.body {
        expanded.restore_lines(body, first as u32);
    }
    rewrite(&text, &module, &function, kernel, checks, memories)
}

/// The refusal of a launch that needs a copy of the kernel, which would have its own `variable`
/// instead of that of the module.
pub fn needs_variable(analysis: &Analysis, variable: &str, checks: &[Check]) -> Refusal {
    match analysis.kernel() {
        Ok(kernel) => refuse_variable(kernel, variable, kernel.line, checks),
        Err(refused) => Refusal {
            kernel: analysis.name().to_owned(),
            line: refused.line,
            access: None,
            reason: refused.reason.clone(),
        },
    }
}

fn refuse_variable(kernel: &Kernel, variable: &str, line: u32, checks: &[Check]) -> Refusal {
    let own = format!("would have its own variable {variable} instead of that of the module");
    let access = checks.first().map(|check| check.access);
    let at = access.and_then(|access| kernel.accesses.get(access));
    let (line, reason) = match (at, kernel.traps.first()) {
        (Some(at), _) => (
            at.line,
            format!("this access cannot be checked, because the checked copy of the kernel {own}"),
        ),
        (None, Some(&trap)) => (
            trap,
            format!("this trap cannot be reported, because the copy that reports it {own}"),
        ),
        (None, None) => (line, format!("a copy of the kernel {own}")),
    };
    Refusal {
        kernel: kernel.name.clone(),
        line,
        access,
        reason,
    }
}

/// Does the work of [`instrument`] for a kernel without calls.
fn rewrite<'a>(
    text: &'a str,
    module: &'a Module<'a>,
    function: &'a Function<'a>,
    kernel: &Kernel,
    checks: &[Check],
    memories: &[Option<Root>],
) -> Result<Instrumented, Refusal> {
    let name = function.name;
    let (Some(body), Some(span), Some(params)) =
        (&function.body, function.body_span, function.params_span)
    else {
        return refuse(name, function.line, "a kernel without parameters or body");
    };
    if let Some(variable) = kernel.used_variables().first() {
        return Err(refuse_variable(kernel, variable, function.line, checks));
    }
    expect_distinct(kernel)?;
    let by_statement = by_statement(kernel, checks)?;
    let slice = slice::loads(kernel, body, checks)?;
    let mut writer = Writer::new(text, module, kernel, memories);
    let mut edits = Edits::new(text);
    writer.open_body(function);
    let names = function.params.iter().map(|param| param.name);
    let regions = Regions::new(body, kernel, &by_statement, names.collect());
    check_body(
        body,
        regions,
        &by_statement,
        &slice,
        &mut writer,
        &mut edits,
    )?;
    edits.insert(span.start + 1, writer.declarations());
    edits.insert(span.end.saturating_sub(1), writer.end());
    expect_room(module, function, writer.extra.len() as u64)?;
    let comma = if function.params.is_empty() { "" } else { ", " };
    let declared = writer.parameters();
    edits.insert(params.end.saturating_sub(1), format!("{comma}{declared}"));
    for other in &module.functions {
        if let Some(span) = other.body_span.filter(|other| *other != span) {
            edits.replace(span, "{ ret; }");
        }
    }
    let Some(text) = edits.apply() else {
        return refuse(name, function.line, "functions that overlap in the text");
    };
    Ok(Instrumented {
        text,
        parameters: writer.extra,
        sites: writer.sites,
    })
}

/// Replaces the checked instructions of a kernel, and inserts the code around its regions.
fn check_body<'a, 'k>(
    body: &'a [Statement<'a>],
    mut regions: Regions<'_, 'a, 'k>,
    by_statement: &ChecksByStatement<'_>,
    slice: &Slice,
    writer: &mut Writer<'a, 'k>,
    edits: &mut Edits<'_>,
) -> Result<(), Refusal> {
    // The end of the last region, its accesses with a separate check, and the code after it.
    let (mut region_end, mut separate, mut after) = (0, BTreeSet::new(), String::new());
    let mut locals = Locals::new(slice.reads_unset);
    for (index, statement) in body.iter().enumerate() {
        locals.statement(statement, writer)?;
        let Statement::Instruction(instruction) = statement else {
            writer.statement(statement);
            continue;
        };
        if let Some(zeros) = locals.zeros() {
            edits.insert(instruction.span.start, zeros);
        }
        if index >= region_end
            && let Some(region) = regions.at(index, writer)
        {
            let is_volatile = |index| slice.volatile.contains(&index);
            let versions = writer.versions(&regions, &region, body, by_statement, is_volatile)?;
            edits.insert(instruction.span.start, versions.before);
            (region_end, separate, after) = (region.end, region.separate, versions.after);
        }
        let is_checked = index >= region_end || separate.contains(&index);
        let checks = by_statement.get(&index).filter(|_| is_checked);
        let checks = checks.map_or(&[][..], Vec::as_slice);
        let is_volatile = slice.volatile.contains(&index);
        if let Some(new) = writer.instruction(instruction, checks, is_volatile)? {
            // The lines after it keep their numbers.
            let lines = edits.text(instruction.span).matches('\n').count();
            edits.replace(instruction.span, new + &"\n".repeat(lines));
        }
        if index + 1 == region_end {
            edits.insert(instruction.span.end, std::mem::take(&mut after));
        }
    }
    Ok(())
}

/// Returns the checks of each statement.
fn by_statement<'c>(
    kernel: &Kernel,
    checks: &'c [Check],
) -> Result<ChecksByStatement<'c>, Refusal> {
    let mut by_statement = ChecksByStatement::new();
    let undefined = undefined_accesses(kernel);
    for check in checks {
        let Some(access) = kernel.accesses.get(check.access) else {
            let reason = "a check of an access that does not exist";
            return refuse(&kernel.name, kernel.line, reason);
        };
        if undefined.contains(&(check.access as u32)) {
            let reason = "the address depends on a register that is possibly not set";
            return refuse(&kernel.name, access.line, reason);
        }
        let checks = by_statement.entry(access.statement as usize).or_default();
        checks.push((access.operand as usize, check));
    }
    Ok(by_statement)
}

/// Fails if two variables that the kernel uses have one name, because the check refers to them by
/// name.
fn expect_distinct(kernel: &Kernel) -> Result<(), Refusal> {
    let mut names = HashSet::new();
    for var in &kernel.vars {
        if !names.insert(var.name.as_str()) {
            let reason = format!("two variables are named {}", var.name);
            return refuse(&kernel.name, kernel.line, reason);
        }
    }
    Ok(())
}

/// The accesses whose addresses may come from a register that was not set: each use of it may see
/// another value.
fn undefined_accesses(kernel: &Kernel) -> HashSet<u32> {
    let mut found = HashSet::new();
    let order = kernel.graph.order.iter();
    let blocks = order.map(|&block| &kernel.blocks[block as usize]);
    for ins in blocks.flat_map(|block| &block.ins) {
        let Op::Access(access) = ins.op else {
            continue;
        };
        // The second and third source are coordinates in a surface.
        let is_undefined = ins.sources.iter().any(|source| match source {
            Source::Value(value) => kernel.is_unset[*value as usize],
            _ => false,
        });
        if is_undefined {
            found.insert(access);
        }
    }
    found
}
