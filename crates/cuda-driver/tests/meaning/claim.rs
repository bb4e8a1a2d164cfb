//! What the analysis says about the results of an instruction.
//!
//! The instruction is put into a small kernel that uses its results, and its sources, as offsets of
//! accesses to an empty buffer. So the analysis reports the range of each offset.

use std::fmt::Write;

use cuda_ptx::Space;
use cuda_ptx::analysis::{
    AccessKind, AccessReport, Analysis, Argument, Buffer, LaunchValues, Outcome, Reason,
};

use crate::item::{Item, Place, Plan, Register};
use crate::values::{BLOCK, Knowledge, Set, low_bits, signed};

/// The registers that instructions use.
pub(crate) const REGISTERS: &str = ".reg .pred %p<100>; .reg .b8 %b<100>; .reg .b16 %h<100>; \
    .reg .b32 %r<100>, %s<100>; .reg .b64 %d<100>, %a<100>; .reg .f32 %f<100>; .reg .f64 %g<100>;";

/// A number that the kernel uses as an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    /// A result or a source, extended by zeros.
    Zero(Operand),
    /// Extended by its sign.
    Sign(Operand),
    /// The difference of two numbers that are extended by zeros, or by their sign.
    Difference(Operand, Operand, bool),
}

/// A result or a source by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    Result(usize),
    Source(usize),
}

/// An access that the kernel makes with an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) term: Term,
    /// The result that guards the access, and whether it must be false.
    pub(crate) guard: Option<(usize, bool)>,
}

/// What the analysis says about an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Nothing.
    Any,
    /// The access is never made.
    Never,
    /// The lowest and the highest number.
    Range(i128, i128),
}

/// The values of the operands in one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'a> {
    pub(crate) sources: &'a [u64],
    pub(crate) results: &'a [u64],
}

/// A kernel with one instruction, analysed for one case.
#[derive(Debug)]
pub(crate) struct Claims<'i> {
    item: &'i Item,
    analysis: Analysis,
    pub(crate) probes: Vec<Probe>,
    /// The number of blocks of the launch on the device.
    blocks: u32,
}

impl<'i> Claims<'i> {
    /// Analyses the instruction for sources of which this is known.
    pub(crate) fn new(item: &'i Item, known: &[Knowledge], blocks: u32) -> Result<Self, String> {
        let probes = probes(item);
        let text = text(item, known, &probes);
        let module = cuda_ptx::parse(&text).map_err(|error| format!("{error}\n{text}"))?;
        let function = module.functions.last().ok_or("no kernel")?;
        let analysis = Analysis::of(&module, function);
        if let Some(refusal) = analysis.refusal() {
            return Err(refusal.to_string());
        }
        Ok(Self {
            item,
            analysis,
            probes,
            blocks,
        })
    }

    /// Returns the accesses of the instruction, and a claim for each probe, if the numbers among
    /// the sources are those of `set` and the parameter holds `parameter`.
    pub(crate) fn evaluate(
        &self,
        set: Option<&Set>,
        parameter: &[u8],
    ) -> Result<(Vec<AccessReport>, Vec<Claim>), String> {
        let buffer = |bytes| {
            Argument::buffer(Buffer {
                bytes,
                align: 256,
                is_writable: true,
            })
        };
        let mut arguments = vec![buffer(0), buffer(1 << 20), Argument::scalar(parameter)];
        let mut slot = 0;
        for source in &self.item.sources {
            let word = set.map_or(0, |set| set.words[slot]);
            slot += source.slots();
            arguments.push(Argument::scalar(word.to_le_bytes()));
        }
        let verdict = self.analysis.evaluate(&LaunchValues {
            grid: [self.blocks, 1, 1],
            block: [BLOCK as u32, 1, 1],
            cluster: None,
            dynamic_shared: 0,
            arguments,
        });
        let contract = match (verdict.contract(), verdict.refusal()) {
            (Some(contract), _) => contract,
            (_, Some(refusal)) => return Err(refusal.to_string()),
            _ => return Err("no verdict".to_owned()),
        };
        let all = &contract.accesses;
        let first = all.len().saturating_sub(self.probes.len());
        let claims = all[first..].iter().map(claim);
        // The loads of sources come first, from the second buffer.
        let own = all[..first].iter().skip(self.loads(set));
        Ok((own.cloned().collect(), claims.collect()))
    }

    /// The number of accesses before the instruction. Only the first case has none.
    fn loads(&self, set: Option<&Set>) -> usize {
        match set {
            Some(set) if set.case == 0 => 0,
            _ => usize::MAX,
        }
    }
}

fn claim(report: &AccessReport) -> Claim {
    match &report.outcome {
        Outcome::Unreached => Claim::Never,
        Outcome::Checked {
            reason: Reason::OutOfRange { low, high, .. },
            ..
        // The analysis reports numbers beyond 64 bits as the next ones.
        } if *low > -(1 << 64) && *high < 1 << 64 => Claim::Range(*low, high - 1),
        _ => Claim::Any,
    }
}

/// The offsets that the kernel uses.
fn probes(item: &Item) -> Vec<Probe> {
    let mut all = Vec::new();
    let is_small = |register: &Register| register.bits <= 64;
    for (number, result) in item.results.iter().enumerate() {
        if !is_small(result) {
            continue;
        }
        let result_operand = Operand::Result(number);
        let mut add = |term, guard| all.push(Probe { term, guard });
        add(Term::Zero(result_operand), None);
        let sources = item.sources.iter().enumerate();
        let mut sources = sources.filter(|(_, source)| is_small(source) && source.bits > 1);
        if result.bits == 1 {
            for (at, _) in sources.take(2) {
                for guard in [(number, false), (number, true)] {
                    add(Term::Zero(Operand::Source(at)), Some(guard));
                    add(Term::Sign(Operand::Source(at)), Some(guard));
                }
            }
            continue;
        }
        add(Term::Sign(result_operand), None);
        if number == 0 && !item.is_aligned() {
            for (at, _) in sources.by_ref().take(3) {
                let source = Operand::Source(at);
                add(Term::Difference(result_operand, source, false), None);
                add(Term::Difference(result_operand, source, true), None);
            }
        }
    }
    all
}

impl Probe {
    /// Whether the thread makes the access.
    fn is_made(&self, values: Values<'_>) -> bool {
        self.guard
            .is_none_or(|(result, negated)| (values.results[result] != 0) != negated)
    }

    /// The value of the offset in a thread, modulo 2^64.
    fn value(&self, item: &Item, values: Values<'_>) -> u64 {
        let get = |operand: Operand| match operand {
            Operand::Result(at) => (values.results[at], item.results[at].bits),
            Operand::Source(at) => (values.sources[at], item.sources[at].bits),
        };
        let extended = |operand, is_signed| {
            let (value, bits) = get(operand);
            match is_signed {
                true => signed(value, bits),
                false => low_bits(value, bits),
            }
        };
        match self.term {
            Term::Zero(operand) => extended(operand, false),
            Term::Sign(operand) => extended(operand, true),
            Term::Difference(a, b, is_signed) => {
                extended(a, is_signed).wrapping_sub(extended(b, is_signed))
            }
        }
    }

    /// The lowest and highest number that the offset can be without any knowledge.
    fn natural(&self, item: &Item) -> (i128, i128) {
        let bits = |operand| match operand {
            Operand::Result(at) => item.results[at].bits,
            Operand::Source(at) => item.sources[at].bits,
        };
        let range = |operand, is_signed| {
            let bits = bits(operand);
            match is_signed {
                true => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
                false => (0, (1_i128 << bits) - 1),
            }
        };
        match self.term {
            Term::Zero(operand) => range(operand, false),
            Term::Sign(operand) => range(operand, true),
            Term::Difference(a, b, is_signed) => {
                let (a, b) = (range(a, is_signed), range(b, is_signed));
                (a.0 - b.1, a.1 - b.0)
            }
        }
    }

    /// Whether the claim says more than the types of the registers.
    pub(crate) fn is_informative(&self, item: &Item, claim: Claim) -> bool {
        match claim {
            Claim::Any => false,
            Claim::Never => true,
            Claim::Range(low, high) => {
                let (least, most) = self.natural(item);
                let is_all = high - low >= (1_i128 << 64) - 1;
                !is_all && (low > least || high < most)
            }
        }
    }

    /// Whether a claim holds in a thread.
    pub(crate) fn holds(&self, item: &Item, claim: Claim, values: Values<'_>) -> bool {
        if !self.is_made(values) {
            return true;
        }
        match claim {
            Claim::Any => true,
            Claim::Never => false,
            Claim::Range(low, high) => {
                let size = high - low;
                let value = self.value(item, values);
                let above = value.wrapping_sub(low as u64);
                size >= 0 && i128::from(above) <= size
            }
        }
    }
}

/// Returns the kernel.
fn text(item: &Item, known: &[Knowledge], probes: &[Probe]) -> String {
    let mut text = String::from(
        ".version 9.2\n.target sm_100a\n.address_size 64\n.const .align 256 .b8 zconst[65536];\n\
         .visible .entry k(.param .u64 x, .param .u64 t, .param .align 16 .b8 n[64]",
    );
    for at in 0..item.sources.len() {
        let _ = write!(text, ", .param .b64 s{at}");
    }
    let _ = write!(
        text,
        ") {{\n{REGISTERS} .reg .b64 %z<9>; .reg .b32 %y<9>; .reg .b16 %x<9>;\n\
         .shared .align 256 .b8 zsh[8192]; .local .align 256 .b8 zlo[8192];\n\
         ld.param.u64 %z0, [x];\nld.param.u64 %z1, [t];\n"
    );
    if item.text.contains("%q") {
        text += ".reg .b128 %q<100>;\n";
    }
    text += setup(item);
    for (at, source) in item.sources.iter().enumerate() {
        set_source(&mut text, at, source, known[at]);
    }
    for address in &item.addresses {
        let name = &address.register.name;
        let _ = match (address.space, address.register.bits) {
            (Some(Place::Shared), bits) => writeln!(text, "mov.u{bits} {name}, zsh;"),
            (Some(Place::Local), bits) => writeln!(text, "mov.u{bits} {name}, zlo;"),
            (Some(Place::Const), bits) => writeln!(text, "mov.u{bits} {name}, zconst;"),
            _ => writeln!(text, "mov.u64 {name}, %z1;"),
        };
    }
    text += &item.text;
    text.push('\n');
    for probe in probes {
        let mut load = |operand, is_signed, to| {
            let register = match operand {
                Operand::Result(at) => &item.results[at],
                Operand::Source(at) => &item.sources[at],
            };
            extend(&mut text, register, is_signed, to);
        };
        match probe.term {
            Term::Zero(operand) => load(operand, false, "%z2"),
            Term::Sign(operand) => load(operand, true, "%z2"),
            Term::Difference(a, b, is_signed) => {
                load(a, is_signed, "%z2");
                load(b, is_signed, "%z3");
                text += "sub.s64 %z2, %z2, %z3;\n";
            }
        }
        let guard = probe.guard.map_or_else(String::new, |(result, negated)| {
            let name = &item.results[result].name;
            format!("@{}{name} ", if negated { "!" } else { "" })
        });
        let _ = write!(
            text,
            "add.s64 %z2, %z0, %z2;\n{guard}ld.global.b8 %x8, [%z2];\n"
        );
    }
    if item.plan == Plan::Control {
        text += "L:\n";
    }
    text + "ret; }\n"
}

/// The instructions that make a cache policy.
pub(crate) fn setup(item: &Item) -> &'static str {
    match item.text.contains("%d99") {
        true => "createpolicy.fractional.L2::evict_first.b64 %d99, 1.0;\n",
        false => "",
    }
}

/// Sets a source to the parameter with its number, or to what a load returns.
fn set_source(text: &mut String, at: usize, source: &Register, known: Knowledge) {
    let (name, bits, ty) = (&source.name, source.bits, source.bits_type());
    let _ = match (known, bits) {
        (Knowledge::Number, 1) => {
            writeln!(
                text,
                "ld.param.u32 %y0, [s{at}]; setp.ne.u32 {name}, %y0, 0;"
            )
        }
        (_, 1) => writeln!(
            text,
            "ld.global.u32 %y0, [%z1]; setp.ne.u32 {name}, %y0, 0;"
        ),
        (Knowledge::Number, 128) => writeln!(
            text,
            "ld.param.b64 %z2, [s{at}]; mov.b128 {name}, {{%z2, %z2}};"
        ),
        (_, 128) => writeln!(
            text,
            "ld.global.b64 %z2, [%z1]; mov.b128 {name}, {{%z2, %z2}};"
        ),
        (Knowledge::Number, _) => writeln!(text, "ld.param.{ty} {name}, [s{at}];"),
        (Knowledge::Load(full), _) if full.starts_with('b') => {
            writeln!(text, "ld.global.{ty} {name}, [%z1];")
        }
        (Knowledge::Load(load), _) => {
            let (register, is_moved) = match (source.is_float(), bits) {
                (true, 32) => ("%y0", true),
                (true, _) => ("%z2", true),
                _ => (name.as_str(), false),
            };
            let _ = writeln!(text, "ld.global.{load} {register}, [%z1];");
            match is_moved {
                true => writeln!(text, "mov.b{bits} {name}, {register};"),
                false => Ok(()),
            }
        }
        (Knowledge::Scaled(load, shift, plus), _) => {
            let register = if bits == 32 { "%y0" } else { "%z2" };
            writeln!(
                text,
                "ld.global.{load} {register}, [%z1]; shl.b{bits} {register}, {register}, {shift}; \
                 add.u{bits} {register}, {register}, {plus}; mov.b{bits} {name}, {register};"
            )
        }
    };
}

/// Extends a register to 64 bits.
fn extend(text: &mut String, register: &Register, is_signed: bool, to: &str) {
    let (name, sign) = (&register.name, if is_signed { 's' } else { 'u' });
    let _ = match (register.bits, register.is_float()) {
        (1, _) => writeln!(text, "selp.u64 {to}, 1, 0, {name};"),
        (64, _) => writeln!(text, "mov.b64 {to}, {name};"),
        (32, true) => writeln!(
            text,
            "mov.b32 %y1, {name}; cvt.{sign}64.{sign}32 {to}, %y1;"
        ),
        (bits, _) => writeln!(text, "cvt.{sign}64.{sign}{bits} {to}, {name};"),
    };
}

/// A difference between an access of the instruction, as the analysis has it, and its row.
pub(crate) fn access_fault(item: &Item, accesses: &[AccessReport]) -> Option<String> {
    if accesses.len() != item.addresses.len() {
        let (found, expected) = (accesses.len(), item.addresses.len());
        return Some(format!("{found} accesses for {expected} addresses"));
    }
    for (found, address) in accesses.iter().zip(&item.addresses) {
        let space = match found.space {
            None => None,
            Some(Space::Global) => Some(Place::Global),
            Some(Space::Shared) => Some(Place::Shared),
            Some(Space::Local) => Some(Place::Local),
            Some(Space::Const) => Some(Place::Const),
            Some(other) => return Some(format!("an access in space {other:?}")),
        };
        if space != address.space {
            return Some(format!("space {space:?} instead of {:?}", address.space));
        }
        if address.bytes.is_some_and(|bytes| bytes != found.size) {
            let bytes = address.bytes;
            return Some(format!("{} bytes instead of {bytes:?}", found.size));
        }
        let is_write = |kind| kind != AccessKind::Read;
        if is_write(found.kind) != is_write(address.kind) {
            return Some(format!("{:?} instead of {:?}", found.kind, address.kind));
        }
    }
    None
}
