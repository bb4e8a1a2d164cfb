//! An estimate of the registers that a compiler would allocate for a kernel.
//!
//! The estimate is used for figures only (the register count of a function, occupancy). A compiler
//! may need half as many or fewer, so no launch is rejected because of it.
//!
//! PTX uses any number of virtual registers; a compiler needs about as many as are live at the same
//! time. A register counts as live from the first to the last place that names it, extended to the
//! end of each loop that it enters with a value.

use std::collections::HashMap;

use super::form::Ty;
use crate::vm::program::{PART_REGISTERS, PARTS};
use cuda_ptx::{Base, Operand, Statement};

/// The registers that a thread needs in addition, for its stack pointer and addresses that the text
/// does not show.
const OVERHEAD: u32 = 4;
/// The maximum number of loops that are analysed, because a text may contain any number.
const LOOPS: usize = 1000;
/// The minimum and maximum registers of a thread.
const RANGE: (u32, u32) = (8, 255);

/// The live range of a register: the first and the last statement, and its size in words.
#[derive(Clone, Copy, Debug)]
struct Interval {
    first: usize,
    last: usize,
    words: u32,
}

/// The 32-bit registers per thread of a kernel, from its [`peak`] and those of the functions that
/// it calls.
///
/// `limit` is that of the program for all kernels; `.maxnreg` of a kernel overrides it.
pub(super) fn registers(kernel: &cuda_ptx::Function<'_>, peak: u32, limit: Option<u32>) -> u32 {
    let wanted = peak.saturating_add(OVERHEAD);
    let is_own = kernel.directives.iter().any(|(name, _)| *name == "maxnreg");
    let limit = limit.filter(|_| !is_own).unwrap_or(u32::MAX);
    wanted.min(bound(kernel)).min(limit).clamp(RANGE.0, RANGE.1)
}

/// The largest number of words that are live at once in one function.
pub(super) fn peak(function: &cuda_ptx::Function<'_>) -> u32 {
    let body = function.body.as_deref().unwrap_or_default();
    let mut intervals = intervals(body);
    let loops = loops(body);
    // Loops are in the order of their ends, inner ones first: an interval that is extended to the
    // end of an inner loop may then be extended to the end of an outer one.
    for (start, end) in loops.into_iter().take(LOOPS) {
        for interval in intervals.values_mut() {
            if interval.first < start && (start..end).contains(&interval.last) {
                interval.last = end;
            }
        }
    }
    let mut changes = vec![0i64; body.len() + 1];
    for interval in intervals.values() {
        changes[interval.first] += i64::from(interval.words);
        // A register may be reused by the instruction that reads it last.
        changes[interval.last.max(interval.first + 1)] -= i64::from(interval.words);
    }
    let live = changes.iter().scan(0, |live, change| {
        *live += change;
        Some(*live)
    });
    live.max()
        .and_then(|most| u32::try_from(most).ok())
        .unwrap_or(0)
}

/// The register limit of a thread that the kernel's directives imply.
fn bound(kernel: &cuda_ptx::Function<'_>) -> u32 {
    let directive = |name: &str| {
        let found = kernel.directives.iter().find(|(other, _)| *other == name);
        found.map(|(_, values)| {
            values
                .iter()
                .fold(1, |all: u64, &n| all.saturating_mul(n))
                .clamp(1, 1 << 32)
        })
    };
    let threads = directive("reqntid").or(directive("maxntid"));
    let blocks = directive("minnctapersm").unwrap_or(1);
    let shared = threads.map_or(u64::from(RANGE.1), |threads| {
        let warps = threads.div_ceil(32).saturating_mul(blocks);
        let warps = warps.div_ceil(PARTS.into());
        // Registers are allocated to a warp in units of 8 per thread.
        u64::from(PART_REGISTERS) / warps / 32 / 8 * 8
    });
    let most = directive("maxnreg").map_or(shared, |most| most.min(shared));
    u32::try_from(most).unwrap_or(u32::MAX)
}

fn intervals<'a>(body: &'a [Statement<'a>]) -> HashMap<&'a str, Interval> {
    let mut types: HashMap<&str, u32> = HashMap::new();
    let mut all: HashMap<&str, Interval> = HashMap::new();
    for (at, statement) in body.iter().enumerate() {
        match statement {
            Statement::Register(register) => {
                let bits = Ty::parse(register.ty).map_or(0, Ty::width);
                // Predicates have their own registers.
                let words = if bits == 1 { 0 } else { bits.div_ceil(32) };
                types.insert(register.name, words * register.vector);
            }
            Statement::Instruction(instruction) => {
                let mut note = |name: &'a str| {
                    let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
                    let Some(&words) = types.get(name).or_else(|| types.get(prefix)) else {
                        return;
                    };
                    all.entry(name)
                        .and_modify(|interval| interval.last = at)
                        .or_insert(Interval {
                            first: at,
                            last: at,
                            words,
                        });
                };
                for operand in &instruction.operands {
                    names(operand, &mut note);
                }
            }
            _ => {}
        }
    }
    all
}

/// The loops of a body in the order in which they end; a loop is a label and a jump back to it.
fn loops(body: &[Statement<'_>]) -> Vec<(usize, usize)> {
    let mut labels = HashMap::new();
    let mut all = Vec::new();
    for (at, statement) in body.iter().enumerate() {
        match statement {
            Statement::Label(name, _) => {
                labels.insert(*name, at);
            }
            Statement::Instruction(instruction) if instruction.opcode == "bra" => {
                if let Some(Operand::Name(target)) = instruction.operands.first()
                    && let Some(&start) = labels.get(target)
                {
                    all.push((start, at));
                }
            }
            _ => {}
        }
    }
    all
}

/// Calls `note` with each name in an operand.
fn names<'a>(operand: &'a Operand<'a>, note: &mut impl FnMut(&'a str)) {
    match operand {
        Operand::Name(name)
        | Operand::Member(name, _)
        | Operand::Offset(name, _)
        | Operand::Element(name, _)
        | Operand::Not(name)
        | Operand::Address(Base::Name(name), _) => note(name),
        Operand::Pair(pair) => {
            names(&pair.0, note);
            names(&pair.1, note);
        }
        Operand::Vector(all) | Operand::Bracket(all) | Operand::List(all) => {
            for operand in all {
                names(operand, note);
            }
        }
        Operand::Literal(_) | Operand::Sink | Operand::Address(Base::Absolute, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{peak, registers};

    fn text(directives: &str, body: &str) -> String {
        format!(".version 7.0\n.target sm_75\n.visible .entry k() {directives} {{ {body} ret; }}")
    }

    fn peak_of(body: &str) -> u32 {
        let text = text("", body);
        peak(&cuda_ptx::parse(&text).unwrap().functions[0])
    }

    #[test]
    fn values_that_are_not_live_together_share_registers() {
        let chain: String = (1..200).fold(String::new(), |body, number| {
            body + &format!("add.u32 %r{number}, %r{}, 1; ", number - 1)
        });
        let declared = format!(".reg .b32 %r<200>; mov.u32 %r0, 0; {chain}");
        assert_eq!(peak_of(&declared), 1);
        // Each of these is used at the end.
        let sum: String = (0..100).fold(String::new(), |body, number| {
            body + &format!("mov.u32 %r{number}, {number}; ")
        });
        let uses: String = (1..100).fold(String::new(), |body, number| {
            body + &format!("add.u32 %r0, %r0, %r{number}; ")
        });
        assert_eq!(peak_of(&format!(".reg .b32 %r<100>; {sum} {uses}")), 100);
    }

    #[test]
    fn a_value_from_before_a_loop_lives_through_it() {
        let body = "
            .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .pred %p<2>;
            mov.u64 %rd1, 0; mov.u32 %r1, 0;
            again: add.u64 %rd2, %rd1, 8; add.u32 %r1, %r1, 1;
            mov.u64 %rd3, 1; mov.u64 %rd4, 2; add.u64 %rd3, %rd3, %rd4;
            setp.lt.u32 %p1, %r1, 10; @%p1 bra again;";
        // %rd1, %r1, %rd3 and %rd4; %rd1 is named only before the others.
        assert_eq!(peak_of(body), 2 + 1 + 2 + 2);
    }

    #[test]
    fn directives_bound_the_registers() {
        let many: String = (0..200).fold(String::new(), |body, number| {
            body + &format!("mov.u32 %r{number}, {number}; ")
        });
        let uses: String = (1..200).fold(String::new(), |body, number| {
            body + &format!("add.u32 %r0, %r0, %r{number}; ")
        });
        let body = format!(".reg .b32 %r<200>; {many} {uses}");
        for (directives, expected) in [
            ("", 204),
            (".maxntid 1024, 1, 1", 64),
            (".reqntid 512, 1, 1", 128),
            (".maxntid 256, 1, 1 .minnctapersm 4", 64),
            // 19 warps put at most 5 on one of 4 partitions of 16384 registers, which leaves 102
            // per thread, rounded down to units of 8.
            (".maxntid 608, 1, 1", 96),
            (".maxnreg 32", 32),
        ] {
            let text = text(directives, &body);
            let kernel = cuda_ptx::parse(&text).unwrap();
            let kernel = &kernel.functions[0];
            assert_eq!(
                registers(kernel, peak(kernel), None),
                expected,
                "{directives}"
            );
        }
    }
}
