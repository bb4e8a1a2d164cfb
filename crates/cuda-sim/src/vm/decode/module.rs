//! Modules: checks, layouts and kernels.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::form::Ty;
use super::function::{self, FunctionDecoder};
use super::pressure;
use super::symbols::{initial_values, symbols};
use crate::vm::code::MAX_WORDS;
use crate::vm::fault::LoadError;
use crate::vm::lanes::wide_cpu;
use crate::vm::program::{GlobalSpace, Kernel, Param, Program, TargetInfo};
use cuda_ptx::Variable;

/// The output and the state of decoding.
pub(super) struct Output {
    pub(super) program: Program,
    pub(super) index32: HashMap<u32, u32>,
    pub(super) index64: HashMap<u64, u32>,
    pub(super) strict: bool,
    pub(super) wide: bool,
    /// The limit of registers of a thread, if the program gives one.
    max_registers: Option<u32>,
    /// Whether accesses are observed.
    pub(super) checked: bool,
    /// The references of each function.
    pub(super) uses: Vec<Uses>,
    /// The size and alignment of the shared variables that several kernels may use.
    pub(super) shared: Vec<(u64, u64)>,
    /// The number of places of those variables in all kernels.
    places: usize,
}

/// The references of a function, for the layout of kernels.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    /// The numbers of shared variables; a kernel lays out its own immediately.
    pub(super) shared: BTreeSet<usize>,
    pub(super) indirect: bool,
    /// Whether it asks for the address of reserved shared memory.
    pub(super) reserved_shared: bool,
    /// The alignment that it requires of dynamic shared memory.
    pub(super) dynamic_align: u64,
    pub(super) callees: Vec<usize>,
    /// The largest number of register words that are live at once.
    pub(super) peak: u32,
    /// The line and the message of the first instruction that is not implemented.
    pub(super) unsupported: Option<(u32, String)>,
}

/// The layout of a kernel's shared variables.
#[derive(Debug, Default)]
pub(super) struct SharedLayout {
    end: u64,
    /// The offsets of the variables that other kernels may use too.
    offsets: BTreeMap<usize, u32>,
}

impl SharedLayout {
    /// Reserves space for a variable; `None` if the variables are far too large.
    pub(super) fn place(&mut self, (size, align): (u64, u64)) -> Option<u32> {
        let start = self.end.next_multiple_of(align);
        self.end = start.saturating_add(size).min(1 << 40);
        (self.end <= 1 << 30).then_some(start as u32)
    }

    /// The offset of variable number `variable` of `all`, which gets its space on first use.
    pub(super) fn common(&mut self, variable: usize, all: &[(u64, u64)]) -> Option<u32> {
        if let Some(&start) = self.offsets.get(&variable) {
            return Some(start);
        }
        let start = self.place(*all.get(variable)?)?;
        self.offsets.insert(variable, start);
        Some(start)
    }
}

/// The size and alignment of a variable.
pub(super) fn layout(variable: &Variable<'_>) -> (u64, u64) {
    let element = match Ty::parse(variable.ty) {
        Some(ty) => u64::from(ty.width().max(8) / 8),
        // A texture, sampler or surface reference.
        None => 8,
    };
    let element = element * u64::from(variable.vector);
    let size = element.saturating_mul(variable.count.unwrap_or(0));
    (size, variable.align.unwrap_or(element).max(1))
}

pub(super) fn invalid_at(line: u32, message: &str) -> LoadError {
    LoadError::InvalidPtx(format!(
        "ptxas application ptx input, line {line}; error   : {message}"
    ))
}

/// The largest shared memory of any device, in bytes.
const MAX_SHARED: u64 = 227 << 10;

/// The limit of places of shared variables in all kernels together.
const MAX_PLACES: usize = 1 << 22;

/// The limit of constants, in bytes.
const MAX_CONSTANT: u64 = 64 << 10;

/// The architectures in the PTX manual.
const TARGETS: [u32; 30] = [
    10, 11, 12, 13, 20, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 88, 89, 90,
    100, 101, 103, 110, 120, 121,
];

/// The newest architecture in the manual. All numbers from it on are accepted, because newer
/// architectures may exist by now.
const NEWEST: u32 = 121;

fn check_target(module: &cuda_ptx::Module<'_>, target: &TargetInfo) -> Result<(), LoadError> {
    if module.version > target.max_ptx {
        return Err(LoadError::UnsupportedVersion {
            found: module.version,
            supported: target.max_ptx,
        });
    }
    let sm = module.target.sm;
    if sm == 0 {
        return Err(invalid_at(1, "Missing .target directive"));
    }
    if module.address_size != 64 {
        return Err(invalid_at(1, "Only '.address_size 64' is supported"));
    }
    if sm < NEWEST && !TARGETS.contains(&sm) {
        return Err(invalid_at(1, &format!("Unknown target 'sm_{sm}'")));
    }
    let (major, minor) = target.compute_capability;
    let device = major * 10 + minor;
    let runs = match module.target.suffix {
        "a" => sm == device,
        "f" => sm / 10 == major && sm <= device,
        _ => sm <= device,
    };
    if runs {
        return Ok(());
    }
    Err(LoadError::OtherTarget {
        target: format!("sm_{sm}{}", module.target.suffix),
        device: format!("sm_{device}"),
    })
}

impl Program {
    /// Decodes `modules`, which may refer to each other's symbols as the JIT linker allows.
    ///
    /// # Errors
    ///
    /// [`LoadError`] for texts that the driver rejects with 218, 222 or 209, and for unresolved
    /// symbols.
    pub fn load(modules: &[cuda_ptx::Module<'_>], target: &TargetInfo) -> Result<Self, LoadError> {
        program(modules, target)
    }
}

/// Decodes and links `modules`.
fn program(modules: &[cuda_ptx::Module<'_>], target: &TargetInfo) -> Result<Program, LoadError> {
    for module in modules {
        check_target(module, target)?;
    }
    let mut out = Output {
        program: Program::default(),
        index32: HashMap::new(),
        index64: HashMap::new(),
        strict: target.strict,
        wide: wide_cpu(),
        max_registers: target.max_registers,
        checked: target.checked,
        uses: Vec::new(),
        shared: Vec::new(),
        places: 0,
    };
    let names = symbols(modules, &mut out)?;
    for (module, names) in modules.iter().zip(&names) {
        initial_values(module, names, &mut out)?;
    }
    let mut entries = Vec::new();
    for (module, names) in modules.iter().zip(&names) {
        let files: Vec<u32> = module.files.iter().map(|&(number, _)| number).collect();
        let paths = module.files.iter().map(|&(_, path)| path);
        let first_file = out.program.lines.add_files(paths);
        for &(number, index) in &names.bodies {
            let function = &module.functions[number];
            let Some(body) = &function.body else {
                continue;
            };
            let mut decoder = FunctionDecoder::new(&mut out, names, function, index);
            decoder.files(first_file, &files);
            let shared = decoder.run(body)?;
            out.uses[index].peak = pressure::peak(function);
            if function.entry {
                entries.push((function, index, shared));
            }
        }
    }
    // An indirect call may reach any of these.
    let callable = modules.iter().zip(&names).flat_map(|(module, names)| {
        let bodies = names.bodies.iter();
        bodies.filter_map(|&(number, index)| (!module.functions[number].entry).then_some(index))
    });
    let callable: BTreeSet<usize> = callable.collect();
    let kernels: BTreeSet<usize> = entries.iter().map(|&(_, index, _)| index).collect();
    for (uses, caller) in out.uses.iter().zip(&out.program.functions) {
        if let Some(&callee) = uses.callees.iter().find(|&it| kernels.contains(it)) {
            let callee = &out.program.functions[callee].name;
            let message = format!("'{callee}' cannot be called by '{}'", caller.name);
            return Err(invalid_at(1, &message));
        }
    }
    for (function, index, shared) in entries {
        kernel(&mut out, function, index, shared, &callable)?;
    }
    Ok(out.program)
}

/// The parameters at their offsets, and the size of the buffer.
pub(super) fn param_layout(params: &[Variable<'_>]) -> (Vec<Param>, u32) {
    let mut end = 0u64;
    let mut list = Vec::new();
    for variable in params {
        let (size, align) = layout(variable);
        end = end.next_multiple_of(align);
        list.push(Param {
            offset: end as u32,
            size: size as u32,
            align: align as u32,
        });
        end = end.saturating_add(size).min(1 << 30);
    }
    (list, end as u32)
}

/// The functions that a kernel can reach by calls. An indirect call reaches all of `callable`.
fn reached(uses: &[Uses], kernel: usize, callable: &BTreeSet<usize>) -> BTreeSet<usize> {
    let mut reached = BTreeSet::from([kernel]);
    let mut open = vec![kernel];
    while let Some(next) = open.pop() {
        let uses = &uses[next];
        let everything = callable.iter().filter(|_| uses.indirect);
        for &callee in uses.callees.iter().chain(everything) {
            if reached.insert(callee) {
                open.push(callee);
            }
        }
    }
    reached
}

fn kernel(
    out: &mut Output,
    function: &cuda_ptx::Function<'_>,
    index: usize,
    mut shared: SharedLayout,
    callable: &BTreeSet<usize>,
) -> Result<(), LoadError> {
    // An indirect call reaches all functions.
    let reached = reached(&out.uses, index, callable);
    // But it does not call all of them, so only direct calls make a function part of the kernel.
    let called = self::reached(&out.uses, index, &BTreeSet::new()).into_iter();
    let mut unsupported = called.filter_map(|index| out.uses[index].unsupported.as_ref());
    let unsupported = unsupported
        .next()
        .map(|(line, message)| (*line, message.clone()));
    let peak = reached.iter().map(|&index| out.uses[index].peak);
    let peak = peak.max().unwrap_or(0);
    let mut variables = reached.iter().flat_map(|&index| &out.uses[index].shared);
    let fits = variables.all(|&variable| shared.common(variable, &out.shared).is_some());
    let reserved_shared = reached.iter().any(|&index| out.uses[index].reserved_shared);
    let dynamic_align = reached.iter().map(|&index| out.uses[index].dynamic_align);
    let dynamic_align = dynamic_align.max().unwrap_or(0).max(16);
    let fits = fits && dynamic_align <= MAX_SHARED;
    out.places += shared.offsets.len();
    if !fits || shared.end > MAX_SHARED || out.places > MAX_PLACES {
        let message = format!(
            "Entry function '{}' uses too much shared data",
            function.name
        );
        return Err(invalid_at(function.line, &message));
    }
    let three = |name: &str| {
        let found = function.directives.iter().find(|(other, _)| *other == name);
        found.map(|(_, values)| {
            std::array::from_fn(|axis| {
                values
                    .get(axis)
                    .map_or(1, |&value| u32::try_from(value).unwrap_or(u32::MAX))
            })
        })
    };
    if three("blocksareclusters").is_some() {
        let message = "the software device does not implement `.blocksareclusters`";
        return Err(invalid_at(function.line, message));
    }
    let (params, param_bytes) = param_layout(&function.params);
    if param_bytes > function::MAX_PARAMS {
        return Err(invalid_at(
            function.line,
            "Formal parameter space overflowed",
        ));
    }
    let constants = out.program.globals.iter();
    let constants = constants.filter(|global| global.space == GlobalSpace::Const);
    let const_bytes = constants.fold(0, |all: u64, global| all.saturating_add(global.size));
    if const_bytes > MAX_CONSTANT {
        return Err(invalid_at(1, "File uses too much global constant data"));
    }
    let code = &out.program.functions[index];
    if code.words() > MAX_WORDS {
        let message = format!(
            "'{}' needs more registers than the software device has for a thread",
            function.name
        );
        return Err(invalid_at(function.line, &message));
    }
    out.program.kernels.push(Kernel {
        name: function.name.to_owned(),
        params,
        param_bytes,
        static_shared: shared.end as u32,
        dynamic_align: dynamic_align as u32,
        reserved_shared,
        local_bytes: code.frame,
        const_bytes: const_bytes as u32,
        max_threads: three("maxntid"),
        required_threads: three("reqntid"),
        cluster: three("reqnctapercluster"),
        max_cluster: three("maxclusterrank").map(|[most, ..]| most),
        registers: pressure::registers(function, peak, out.max_registers),
        unsupported,
    });
    out.program.entries.push(index);
    out.program.shared.push(shared.offsets);
    Ok(())
}
