//! The text that the assembler gets for a safe launch: printed from the tree, in one form.
//!
//! ```text
//!    mod         the text of a module, and that of each kernel
//!    kernel      one kernel without calls, with names of its own
//!    names       what the names of the module are to all of its kernels
//!    operand     what its operands refer to
//!    variable    variables of the module
//!    special     the special registers
//!    out         lines, and where they come from
//! ```
//!
//! A parser and an assembler can read the same text in two ways. For example, an assembler takes
//! `%r02` as another name of `%r2`, lets a program declare a register `%laneid`, and multiplies the
//! number in `g[8]` by the size of an element. So the text of a program is not what is launched:
//! its kernels are printed again, with everything that two readers could understand differently
//! written out.
//!
//! - Each register and each label has a new name. No name is declared twice, and there is one
//!   scope.
//! - The functions that a kernel calls are part of the kernel, as in the analysis.
//! - State spaces, alignments and lengths are explicit, and numbers and offsets are computed.
//! - A mask of a warp has the lane of the thread.
//! - Only directives and pragmas whose meaning is known are printed (`kernel::DIRECTIVES`). What
//!   the text promises about the target of a pointer (`.ptr`) is not printed, so that the assembler
//!   cannot rely on it. Sections with debug information are not printed either.
//!
//! A name that refers to nothing, or something that is not modelled, refuses the kernel. A refused
//! kernel is not in the text.

mod kernel;
mod names;
mod operand;
mod out;
mod special;
pub(crate) use special::is_special;
#[cfg(test)]
mod tests;
mod variable;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use crate::analysis::Refusal;
use crate::ast::{Module, Statement};
use crate::calls::Inliner;
use crate::error::Error;
use crate::flow::Refused;

use names::ModuleNames;
use out::{Out, Part};
use variable::Variables;

/// The text of a module in the form that is analysed and assembled.
///
/// ```
/// use cuda_ptx::canonical::Canonical;
///
/// // `%r02` is `%r2` for the assembler.
/// let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
///     .visible .entry k(.param .u64 x) {\n\
///     .reg .b32 %r<9>; .reg .b64 %d<2>;\n\
///     ld.param.u64 %d1, [x];\n\
///     mov.u32 %r02, 7;\n\
///     st.global.u32 [%d1], %r2;\n\
///     ret; }";
/// let module = cuda_ptx::parse(text)?;
/// let canonical = Canonical::new(&module)?;
/// assert!(canonical.text().contains("mov.u32 %b32_0, 7;"));
/// assert!(canonical.text().contains("st.global.u32 [%b64_0], %b32_0;"));
/// # Ok::<(), cuda_ptx::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Canonical {
    /// The lines before the variables.
    header: Range<Part>,
    /// The lines of each variable that is in the text.
    variables: BTreeMap<usize, Range<Part>>,
    kernels: HashMap<String, Kernel>,
    refusals: HashMap<String, Refusal>,
    /// The names of the constant tables.
    tables: Arc<HashSet<String>>,
    out: Out,
}

/// A printed kernel.
#[derive(Clone, Debug)]
struct Kernel {
    part: Range<Part>,
    /// The variables of the module that it uses.
    uses: BTreeSet<usize>,
}

/// The text of one kernel: a module that has this kernel and the variables that the kernel uses.
/// Its lines are also lines of [`Canonical::text`].
#[derive(Clone, Debug)]
pub struct KernelText {
    text: String,
    lines: Vec<u32>,
    tables: Arc<HashSet<String>>,
}

impl Canonical {
    /// Prints a module.
    ///
    /// # Errors
    ///
    /// Fails if something that is not modelled concerns all kernels, such as an option of the
    /// target. What concerns one kernel is its [`refusal`](Self::refusal).
    pub fn new(module: &Module<'_>) -> Result<Self, Error> {
        let mut out = Out::default();
        out.lines(&header(module)?, 0);
        let header = Part::default()..out.end();
        let declared = Variables::new(module);
        let mut variables = BTreeMap::new();
        for (index, text) in declared.printed() {
            let start = out.end();
            out.append(text);
            variables.insert(index, start..out.end());
        }
        let (mut kernels, mut refusals) = (HashMap::new(), HashMap::new());
        let functions = module.functions.iter();
        let mut inliner = Inliner::new(module);
        let known = ModuleNames::new(module, &declared);
        for function in functions.filter(|it| it.entry && it.body.is_some()) {
            match kernel::print(&known, &mut inliner, function) {
                Ok((printed, uses)) => {
                    let start = out.end();
                    out.append(&printed);
                    let part = start..out.end();
                    kernels.insert(function.name.to_owned(), Kernel { part, uses });
                }
                Err(Refused { line, reason }) => {
                    let kernel = function.name.to_owned();
                    let refusal = Refusal {
                        kernel: kernel.clone(),
                        line,
                        access: None,
                        reason,
                    };
                    refusals.insert(kernel, refusal);
                }
            }
        }
        let tables = module.variables.iter().filter(|it| it.constant);
        let tables = tables.map(|variable| variable.name.to_owned()).collect();
        Ok(Self {
            header,
            variables,
            kernels,
            refusals,
            tables: Arc::new(tables),
            out,
        })
    }

    /// Returns the text with all kernels that are not refused.
    pub fn text(&self) -> &str {
        &self.out.text
    }

    /// Returns the line of the original text for a line of [`text`](Self::text), from 1. Returns
    /// `None` for a line without an original, such as a brace.
    pub fn original_line(&self, line: u32) -> Option<u32> {
        let index = line.checked_sub(1)? as usize;
        self.out.lines.get(index).copied().filter(|line| *line > 0)
    }

    /// Returns the text of a kernel, or `None` if the module has no kernel of this name, or if the
    /// kernel is refused.
    pub fn kernel(&self, name: &str) -> Option<KernelText> {
        let kernel = self.kernels.get(name)?;
        let used = kernel.uses.iter();
        let used = used.filter_map(|index| self.variables.get(index));
        let mut out = Out::default();
        for part in [&self.header].into_iter().chain(used).chain([&kernel.part]) {
            out.append_part(&self.out, part);
        }
        Some(KernelText {
            text: out.text,
            lines: out.lines,
            tables: Arc::clone(&self.tables),
        })
    }

    /// Returns the reason for which a kernel is not in the text.
    pub fn refusal(&self, name: &str) -> Option<&Refusal> {
        self.refusals.get(name)
    }

    /// Returns the kernels that are not in the text, in no particular order.
    pub fn refusals(&self) -> impl Iterator<Item = &Refusal> {
        self.refusals.values()
    }
}

impl KernelText {
    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Parses the text. Kernels, labels, variables and instructions have their lines in the
    /// original text, and the constant tables are those of the original module.
    ///
    /// # Errors
    ///
    /// Fails if the text cannot be parsed, which would be a defect of this crate.
    pub fn parse(&self) -> Result<Module<'_>, Error> {
        let mut module = crate::parse(&self.text)?;
        let restore = |line: &mut u32| {
            let index = line.saturating_sub(1) as usize;
            *line = self.lines.get(index).copied().unwrap_or(0);
        };
        for variable in &mut module.variables {
            restore(&mut variable.line);
            // Another kernel may write to a variable that this one only reads.
            variable.constant = self.tables.contains(variable.name);
        }
        for function in &mut module.functions {
            restore(&mut function.line);
            for param in &mut function.params {
                restore(&mut param.line);
            }
            for statement in function.body.iter_mut().flatten() {
                match statement {
                    Statement::Label(_, line) => restore(line),
                    Statement::Instruction(instruction) => restore(&mut instruction.line),
                    Statement::Variable(variable) => restore(&mut variable.line),
                    _ => {}
                }
            }
        }
        Ok(module)
    }
}

/// Whether the meaning of a pragma is known. `nounroll` is about the speed of a loop.
fn is_known(pragma: &str) -> bool {
    pragma == "nounroll"
}

/// The directives before the variables.
fn header(module: &Module<'_>) -> Result<String, Error> {
    let fail = |message: String| {
        Err(Error {
            line: 1,
            column: 1,
            message,
        })
    };
    // `debug` says that the text has sections with debug information, which are not printed.
    let mut options = module.target.options.iter();
    if let Some(option) = options.find(|option| **option != "debug") {
        return fail(format!(
            "the target option {option} is not supported for safe launches"
        ));
    }
    if let Some(pragma) = module.pragmas.iter().find(|it| !is_known(it)) {
        return fail(format!(
            "the pragma \"{pragma}\" is not supported for safe launches"
        ));
    }
    if module.address_size != 64 {
        return fail(format!(
            "addresses have {} bits; safe launches require 64",
            module.address_size
        ));
    }
    let (major, minor) = module.version;
    let (sm, suffix) = (module.target.sm, module.target.suffix);
    let mut text = format!(".version {major}.{minor}\n.target sm_{sm}{suffix}\n.address_size 64\n");
    for pragma in &module.pragmas {
        let _ = writeln!(text, ".pragma \"{pragma}\";");
    }
    for (number, name) in &module.files {
        let is_plain = |it: char| it.is_ascii() && !it.is_ascii_control() && it != '"';
        let name: String = name
            .chars()
            .map(|it| if is_plain(it) { it } else { '?' })
            .collect();
        let _ = writeln!(text, ".file {number} \"{name}\"");
    }
    Ok(text)
}
