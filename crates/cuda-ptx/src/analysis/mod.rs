//! Proves for one launch that the accesses of a kernel stay in their buffers.
//!
//! ```text
//!    mod          Analysis: rounds until the loops are settled, then all accesses
//!    family       proofs for all numbers in a range
//!    report       the contract of the findings
//!    access       one access: root, bounds, alignment
//!    handle       one use of a texture or a surface
//!    loops        steps of phis, assumptions at loop headers and their proof by induction
//!    transfer     the value of one operation as a form
//!    compare      the condition of a comparison
//!    source       special registers, parameters, addresses of variables
//!    counted      comparisons of counters, which an assembler may compute beforehand
//!    ends         loops that end, and what the other loops make uncertain
//!    unstable     values that may differ from use to use
//!    round        one walk over the kernel: values, facts, reachability
//!    known        what is known about values and loops
//!    condition    predicates and the facts that follow from them
//!    bound        bounds of forms under facts
//!    extremes     cases of a choice that bound it
//!    symbols, ranges    the unknown integers, and the ranges of forms over them
//!    form         affine forms
//!    verdict, launch    results and inputs
//! ```
//!
//! A module uses only modules below it, except that `transfer`, `compare`, `source`, `counted`,
//! `ends`, `unstable` and `round` are parts of one type.

mod access;
mod bound;
mod compare;
mod condition;
mod counted;
mod ends;
mod extremes;
mod family;
mod form;
mod handle;
mod known;
mod launch;
mod loops;
mod ranges;
mod report;
mod round;
mod source;
mod symbols;
#[cfg(test)]
mod tests;
mod transfer;
mod unstable;
mod verdict;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ast::{Function, Module};
use crate::calls::{self, Expanded};
use crate::flow::{Kernel, Refused, lower};
pub use crate::flow::{Object, ObjectKind, ObjectShape};

use access::{Finding, judge};
use bound::{DEPTH, DEPTH_OF_ACCESS};
pub use family::{Need, NumberRange, OpenNumber};
use form::Form;
use handle::judge_object;
use known::Assumptions;
use launch::mismatch;
pub use launch::{Argument, Buffer, LaunchValues};
use report::{report, sizes};
use round::Round;
use symbols::Symbols;
pub use verdict::{
    AccessKind, AccessReport, Contract, ObjectCondition, Outcome, Precondition, Reason, Refusal,
    Root, VariableSize, Verdict,
};

/// The number of steps of one evaluation after which the analysis gives up.
const MAX_STEPS: u64 = 200_000;
/// The number of rounds (walks over the kernel) in which the assumptions of one pass must reach a
/// fixed point.
const MAX_ROUNDS: u32 = 10;
/// The number of assumptions about all loops. If none of them is right, nothing is assumed.
const MAX_ATTEMPTS: u32 = 4;
/// The number of passes. Each makes new assumptions, with what the passes before it have proven.
const PASSES: u32 = 3;
/// The number of steps after which the analysis starts no further pass.
const PASS_STEPS: u64 = 300;

/// The analysis of a kernel, for all its launches.
///
/// ```
/// use cuda_ptx::analysis::{Analysis, Argument, Buffer, LaunchValues};
///
/// let text = "
/// .version 8.0
/// .target sm_80
/// .address_size 64
/// .visible .entry fill(.param .u64 x, .param .u32 n) {
///     .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<4>;
///     ld.param.u64 %rd1, [x];
///     ld.param.u32 %r1, [n];
///     mov.u32 %r2, %ctaid.x;
///     mov.u32 %r3, %ntid.x;
///     mov.u32 %r4, %tid.x;
///     mad.lo.s32 %r5, %r2, %r3, %r4;
///     setp.ge.u32 %p1, %r5, %r1;
///     @%p1 ret;
///     mul.wide.u32 %rd2, %r5, 4;
///     add.s64 %rd3, %rd1, %rd2;
///     st.global.u32 [%rd3], %r5;
///     ret;
/// }";
/// let module = cuda_ptx::parse(text)?;
/// let analysis = Analysis::of(&module, &module.functions[0]);
/// let launch = |bytes| LaunchValues {
///     cluster: None,
///     grid: [4, 1, 1],
///     block: [256, 1, 1],
///     dynamic_shared: 0,
///     arguments: vec![
///         Argument::buffer(Buffer { bytes, align: 256, is_writable: true }),
///         Argument::scalar(1000u32.to_le_bytes()),
///     ],
/// };
/// let verdict = analysis.evaluate(&launch(4000));
/// assert!(verdict.is_proven());
/// assert!(verdict.to_string().contains("4·n ≤ bytes(x)"));
/// assert!(!analysis.evaluate(&launch(3999)).is_proven());
/// # Ok::<(), cuda_ptx::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Analysis {
    name: String,
    kernel: Result<Kernel, Refused>,
    /// The body without calls, if the kernel has some.
    expanded: Option<Expanded>,
    headers: Vec<u32>,
    files: Arc<[(u32, String)]>,
}

impl Analysis {
    /// Analyses a kernel of `module`, as far as that does not depend on the launch.
    pub fn of(module: &Module<'_>, function: &Function<'_>) -> Self {
        let (kernel, expanded) = match lowered(module, function) {
            Ok((kernel, expanded)) => (Ok(kernel), expanded),
            Err(refused) => (Err(refused), None),
        };
        let headers = kernel.as_ref().map(loops::headers).unwrap_or_default();
        let files = module.files.iter();
        let files = files.map(|(number, name)| (*number, (*name).to_owned()));
        Self {
            name: function.name.to_owned(),
            kernel,
            expanded,
            headers,
            files: files.collect(),
        }
    }

    /// The body without calls, if the kernel has some.
    pub(crate) fn expanded(&self) -> Option<&Expanded> {
        self.expanded.as_ref()
    }

    /// Decides which accesses stay in their buffers if the kernel is launched with these values.
    ///
    /// The result depends on nothing else, and the work is bounded.
    pub fn evaluate(&self, launch: &LaunchValues) -> Verdict {
        let refused = |line, reason: &str| {
            Verdict::Refused(Refusal {
                kernel: self.name.clone(),
                line,
                access: None,
                reason: reason.to_owned(),
            })
        };
        let kernel = match &self.kernel {
            Ok(kernel) => kernel,
            Err(refusal) => return refused(refusal.line, &refusal.reason),
        };
        if let Some(reason) = mismatch(kernel, launch) {
            return refused(kernel.line, &reason);
        }
        let mut symbols = Symbols::default();
        let work = Cell::new(MAX_STEPS);
        let (findings, wild_jump) = self.findings(kernel, launch, &mut symbols, &work);
        if let Some(line) = wild_jump {
            return refused(line, "the index of a jump may be outside of its table");
        }
        let all = kernel.accesses.iter().zip(&findings);
        for (access, finding) in all {
            if let Some(reason) = finding.as_ref().and_then(|it| it.refusal.as_ref()) {
                return refused(access.line, reason);
            }
        }
        let mut contract = report(kernel, &symbols, findings, work.get() == 0);
        contract.files = Arc::clone(&self.files);
        contract.sizes = sizes(kernel, launch);
        let is_checked = |access: &AccessReport| matches!(access.outcome, Outcome::Checked { .. });
        match contract.accesses.iter().any(is_checked) {
            true => Verdict::Checked(contract),
            false => Verdict::Proven(contract),
        }
    }

    /// The name of the kernel.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kernel, unless it is refused for every launch.
    pub(crate) fn kernel(&self) -> Result<&Kernel, &Refused> {
        self.kernel.as_ref()
    }

    /// The reason for which the kernel is refused for every launch.
    pub fn refusal(&self) -> Option<Refusal> {
        let refused = self.kernel.as_ref().err()?;
        Some(Refusal {
            kernel: self.name.clone(),
            line: refused.line,
            access: None,
            reason: refused.reason.clone(),
        })
    }

    /// The statements of the kernel, without its calls, whose loads have to be volatile in the text
    /// that is launched: otherwise an assembler may repeat them, and an address or a branch that
    /// depends on one of them may see two values.
    pub fn volatile_loads(&self) -> &[u32] {
        let kernel = self.kernel.as_ref();
        kernel
            .map(|kernel| kernel.volatile.as_slice())
            .unwrap_or(&[])
    }

    /// The bytes of the parameters that a verdict depends on: the parameter, the offset and the
    /// size. All other bytes of scalars may change without changing it.
    pub fn relevant(&self) -> Vec<(u32, u64, u32)> {
        let kernel = self.kernel.as_ref();
        kernel.map(Kernel::needed_params).unwrap_or_default()
    }

    /// The sizes of the parameters in bytes.
    pub fn parameters(&self) -> Vec<u64> {
        let kernel = self.kernel.iter();
        kernel
            .flat_map(|kernel| &kernel.params)
            .map(|param| param.size)
            .collect()
    }

    /// Whether the kernel uses textures or surfaces.
    pub fn uses_objects(&self) -> bool {
        let kernel = self.kernel.as_ref();
        kernel.is_ok_and(|kernel| kernel.accesses.iter().any(|access| access.object.is_some()))
    }

    /// The parameters that are used as textures and surfaces, and for each an object with which
    /// the kernel can be launched. Only parameters whose values are used without any computation
    /// are found.
    pub fn objects(&self) -> Vec<(u32, Object)> {
        self.kernel.as_ref().map(handle::needed).unwrap_or_default()
    }

    /// The names of the variables of the module that the kernel uses, without constant tables.
    pub fn variables(&self) -> Vec<String> {
        let kernel = self.kernel.as_ref();
        kernel.map(Kernel::used_variables).unwrap_or_default()
    }

    /// The names of the constant tables of the module that the kernel uses
    /// ([`Variable::constant`](crate::Variable::constant)). The kernel may read them like variables
    /// of its own.
    pub fn tables(&self) -> Vec<String> {
        let kernel = self.kernel.as_ref();
        kernel.map(Kernel::used_tables).unwrap_or_default()
    }

    /// The lines of `trap` and `brkpt` instructions and of failed asserts, which cause a fault on
    /// the device.
    pub fn traps(&self) -> &[u32] {
        let kernel = self.kernel.as_ref();
        kernel.map(|kernel| kernel.traps.as_slice()).unwrap_or(&[])
    }

    /// Judges all accesses. Also returns the line of a jump whose index may be outside of its
    /// table.
    fn findings(
        &self,
        kernel: &Kernel,
        launch: &LaunchValues,
        symbols: &mut Symbols,
        work: &Cell<u64>,
    ) -> (Vec<Option<Finding>>, Option<u32>) {
        // The number of the last round.
        let mut number = 0;
        let assumptions = match self.headers.is_empty() {
            true => Assumptions::default(),
            false => self.assumptions(kernel, launch, symbols, work, &mut number),
        };
        let mut findings: Vec<Option<Finding>> = vec![None; kernel.accesses.len()];
        let mut round = Round::new(kernel, launch, symbols, work, &assumptions, number + 1);
        round.run(Some(&mut |round, number, address, facts| {
            let access = &kernel.accesses[number as usize];
            let [address, second] = address;
            round.depth = DEPTH_OF_ACCESS;
            findings[number as usize] = Some(match access.object {
                Some(object) => judge_object(round, access, object, address, second),
                None => judge(round, access, address, second.as_ref(), facts),
            });
            round.depth = DEPTH;
        }));
        let wild_jump = round.wild_jump;
        (findings, wild_jump)
    }

    /// The assumptions about the loops of a kernel.
    ///
    /// First, all loops are assumed to end, and to be repeated as often as the text says. If that
    /// is not shown for some of them, the others are proven again without it. The assumption about
    /// those that remain is right: in the first one that it would be wrong for, all conditions
    /// still mean what the text says, so what was shown holds.
    fn assumptions(
        &self,
        kernel: &Kernel,
        launch: &LaunchValues,
        symbols: &mut Symbols,
        work: &Cell<u64>,
        number: &mut u32,
    ) -> Assumptions {
        let mut about_loops = Assumptions {
            ending: kernel.cycles.quiet(),
            ..Assumptions::default()
        };
        for _ in 0..MAX_ATTEMPTS {
            let start = about_loops.clone();
            let assumptions = self.proven(kernel, launch, symbols, work, start, number);
            *number += 1;
            let mut round = Round::new(kernel, launch, symbols, work, &assumptions, *number);
            round.run(None);
            let ending = round.ending();
            let is_right = about_loops.ending.is_subset(&ending)
                && round.wrapping.is_subset(&about_loops.wrapping);
            if is_right {
                return assumptions;
            }
            about_loops.ending.retain(|index| ending.contains(index));
            about_loops.wrapping.extend(&round.wrapping);
        }
        let nothing = Assumptions {
            wrapping: (0..kernel.cycles.loops.len() as u32).collect(),
            ..Assumptions::default()
        };
        self.proven(kernel, launch, symbols, work, nothing, number)
    }

    /// The assumptions at headers that prove each other, together with those about loops.
    fn proven(
        &self,
        kernel: &Kernel,
        launch: &LaunchValues,
        symbols: &mut Symbols,
        work: &Cell<u64>,
        mut assumptions: Assumptions,
        number: &mut u32,
    ) -> Assumptions {
        let start = work.get();
        *number += 1;
        let mut round = Round::new(kernel, launch, symbols, work, &assumptions, *number);
        round.run(None);
        assumptions.steps = loops::steps(&mut round, &self.headers);
        *number += 1;
        let mut round = Round::new(kernel, launch, symbols, work, &assumptions, *number);
        round.run(None);
        let mut new = loops::new_assumptions(&mut round, &self.headers);
        // The assumptions of one pass may follow only from what an earlier pass has proven.
        for pass in 0..PASSES {
            if pass > 0 && start - work.get() > PASS_STEPS {
                break;
            }
            let Some(more) = assumptions.with(new) else {
                break;
            };
            let is_last = pass + 1 == PASSES;
            let settled = self.settle(kernel, launch, symbols, work, more, number, is_last);
            let Some((proven, next)) = settled else {
                break;
            };
            (assumptions, new) = (proven, next);
        }
        assumptions
    }

    /// Drops assumptions until those that remain prove each other. Returns them and, unless this is
    /// the last pass, those of the next one. Returns `None` if that takes too long.
    #[allow(clippy::too_many_arguments, reason = "the state of an evaluation")]
    fn settle(
        &self,
        kernel: &Kernel,
        launch: &LaunchValues,
        symbols: &mut Symbols,
        work: &Cell<u64>,
        mut assumptions: Assumptions,
        number: &mut u32,
        is_last: bool,
    ) -> Option<(Assumptions, BTreeMap<u32, Vec<Form>>)> {
        for _ in 0..MAX_ROUNDS {
            *number += 1;
            let mut round = Round::new(kernel, launch, symbols, work, &assumptions, *number);
            round.run(None);
            if let Some(kept) = loops::verify(&mut round, &assumptions) {
                assumptions = kept;
                continue;
            }
            let next = match is_last {
                true => BTreeMap::new(),
                false => loops::new_assumptions(&mut round, &self.headers),
            };
            return Some((assumptions, next));
        }
        None
    }
}

/// The kernel, and its body without calls if it has some.
fn lowered(
    module: &Module<'_>,
    function: &Function<'_>,
) -> Result<(Kernel, Option<Expanded>), Refused> {
    if module.address_size != 64 {
        let bits = module.address_size;
        let reason = format!("addresses have {bits} bits; only 64 are supported");
        return Refused::new(function.line, reason);
    }
    let Some(expanded) = calls::Inliner::new(module).expand(function)? else {
        return Ok((lower(&module.variables, function)?, None));
    };
    let text = expanded.text();
    let body = expanded.statements(&text);
    let body = body.or_else(|error| Refused::new(function.line, error.to_string()))?;
    let function = Function {
        body: Some(body),
        ..function.clone()
    };
    Ok((lower(&module.variables, &function)?, Some(expanded)))
}
