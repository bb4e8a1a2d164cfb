//! Counts how many accesses of the kernels in folders of PTX files are proven:
//! `shares NAME=FOLDER...`. `cargo xtask full shares` compiles the kernels of several projects and
//! runs this program.
//!
//! Every buffer has 1 GiB, so an index that was loaded from memory is not proven. A parameter that
//! the kernel uses as a texture or a surface gets one that fits. The file
//! `launches.txt` in a folder has the other values of a launch, one line for the kernels whose
//! names begin with a text; the first line that fits counts:
//!
//! ```text
//! <beginning of the name, or *> <key>=<values>...
//!     grid=8,1,1 block=128,1,1 shared=0    the configuration
//!     numbers=1000,3                       the parameters that are no pointers; the last repeats
//!     null=0                               pointers that are null, counted without the numbers
//! ```

use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use cuda_ptx::analysis::{
    AccessReport, Analysis, Argument, Buffer, Contract, LaunchValues, Outcome, Reason, Root,
    Verdict,
};
use cuda_ptx::instrument::{Check, instrument};
use cuda_ptx::{Base, Function, Instruction, Module, Operand, Space, Statement, parse};

/// The size of a buffer.
const BYTES: u64 = 1 << 30;

/// A line of `launches.txt`.
#[derive(Clone, Debug)]
struct Rule {
    beginning: String,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    numbers: Vec<u64>,
    null: Vec<u64>,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            beginning: String::new(),
            grid: [8, 1, 1],
            block: [128, 1, 1],
            shared: 32 << 10,
            numbers: vec![1000],
            null: Vec::new(),
        }
    }
}

impl Rule {
    fn parse(line: &str) -> Result<Self, Box<dyn Error>> {
        let mut words = line.split_whitespace();
        let beginning = words.next().unwrap_or_default().trim_end_matches('*');
        let mut rule = Self {
            beginning: beginning.to_owned(),
            ..Self::default()
        };
        for word in words {
            let (key, values) = word.split_once('=').ok_or(format!("{line}: no `=`"))?;
            let values = values.split(',').map(str::parse);
            let values: Vec<u64> = values.collect::<Result<_, _>>()?;
            let sizes = || -> Result<[u32; 3], Box<dyn Error>> {
                let mut sizes = [1; 3];
                for (size, value) in sizes.iter_mut().zip(&values) {
                    *size = u32::try_from(*value)?;
                }
                Ok(sizes)
            };
            match key {
                "grid" => rule.grid = sizes()?,
                "block" => rule.block = sizes()?,
                "shared" => rule.shared = sizes()?[0],
                "numbers" => rule.numbers = values,
                "null" => rule.null = values,
                _ => return Err(format!("{line}: unknown key {key}").into()),
            }
        }
        Ok(rule)
    }
}

/// Whether a parameter of 8 bytes is an address: the kernel converts it to a global address, or its
/// declaration says so.
fn is_pointer(function: &Function<'_>, name: &str) -> bool {
    let instructions = function.body.iter().flatten().filter_map(|it| match it {
        Statement::Instruction(one) => Some(one),
        _ => None,
    });
    let loaded: Vec<&str> = instructions
        .clone()
        .filter(|one| one.opcode == "ld" && one.has("param"))
        .filter_map(|one| match one.operands.as_slice() {
            [Operand::Name(to), Operand::Address(Base::Name(it), 0)] if *it == name => Some(*to),
            _ => None,
        })
        .collect();
    instructions.filter(|one| one.opcode == "cvta").any(
        |one| matches!(one.operands.get(1), Some(Operand::Name(from)) if loaded.contains(from)),
    )
}

/// The values of a launch, and the buffers among its arguments.
fn launch(
    function: &Function<'_>,
    text: &str,
    rule: &Rule,
    analysis: &Analysis,
) -> (LaunchValues, Vec<Option<Root>>) {
    let objects = analysis.objects();
    let buffer = Buffer {
        bytes: BYTES,
        align: 256,
        is_writable: true,
    };
    let (mut numbers, mut pointers) = (rule.numbers.iter().copied(), 0);
    let (mut last, mut roots) = (0, Vec::new());
    let arguments = (0..).zip(&function.params).map(|(parameter, param)| {
        let bits = param.ty.trim_start_matches(char::is_alphabetic).parse();
        let bits: u64 = bits.unwrap_or(64);
        let bytes = bits / 8 * u64::from(param.vector) * param.count.unwrap_or(1);
        let is_declared = text.contains(&format!(".ptr .global .align 1 {}", param.name))
            || text.contains(&format!(".ptr .global .align 16 {}", param.name));
        if let Some((_, object)) = objects.iter().find(|object| object.0 == parameter) {
            return Argument::object(*object);
        }
        if bytes == 8 && (is_declared || is_pointer(function, param.name)) {
            pointers += 1;
            return match rule.null.contains(&(pointers - 1)) {
                true => Argument::scalar([0; 8]),
                false => {
                    let offset = 0;
                    roots.push(Some(Root::Buffer { parameter, offset }));
                    Argument::buffer(buffer)
                }
            };
        }
        if param.ty.starts_with('f') {
            return Argument::scalar(vec![0; bytes as usize]);
        }
        last = numbers.next().unwrap_or(last);
        match bytes {
            // A struct: its words are the same number.
            9.. => {
                let word = (last as u32).to_le_bytes().into_iter().cycle();
                Argument::scalar(word.take(bytes as usize).collect::<Vec<_>>())
            }
            _ => Argument::scalar(&last.to_le_bytes()[..bytes as usize]),
        }
    });
    let values = LaunchValues {
        arguments: arguments.collect(),
        grid: rule.grid,
        block: rule.block,
        dynamic_shared: rule.shared,
    };
    (values, roots)
}

/// The counts of one set.
#[derive(Debug, Default)]
struct Counts {
    kernels: u32,
    proven_kernels: u32,
    refused: u32,
    accesses: u32,
    proven: u32,
    /// Accesses to global memory, or with addresses of any space.
    global: u32,
    global_proven: u32,
    /// Accesses to global memory that are not proven, and whose address is computed from a value
    /// that was loaded from memory.
    global_loaded: u32,
    /// Uses of textures and surfaces.
    objects: u32,
    objects_proven: u32,
    /// Accesses whose root is not known.
    unknown: u32,
    reasons: BTreeMap<String, u32>,
    refusals: BTreeMap<String, u32>,
}

fn reason(reason: &Reason) -> String {
    match reason {
        Reason::OutOfRange { bytes, .. } if *bytes < BYTES => {
            "out of range of a variable".to_owned()
        }
        Reason::OutOfRange { .. } => "out of range of a buffer".to_owned(),
        other => other.to_string(),
    }
}

fn instructions<'m, 'a>(
    function: &'m Function<'a>,
) -> impl Iterator<Item = &'m Instruction<'a>> + Clone {
    let body = function.body.iter().flatten();
    body.filter_map(|statement| match statement {
        Statement::Instruction(one) => Some(one),
        _ => None,
    })
}

/// Calls `f` with each name in an operand.
fn names<'a>(operand: &Operand<'a>, f: &mut impl FnMut(&'a str)) {
    match operand {
        Operand::Name(name) | Operand::Member(name, _) | Operand::Offset(name, _) => f(name),
        Operand::Not(name) | Operand::Address(Base::Name(name), _) => f(name),
        Operand::Literal(_) | Operand::Sink | Operand::Address(Base::Absolute, _) => {}
        Operand::Pair(pair) => {
            names(&pair.0, f);
            names(&pair.1, f);
        }
        Operand::Vector(list) | Operand::Bracket(list) | Operand::List(list) => {
            list.iter().for_each(|operand| names(operand, f));
        }
    }
}

/// Whether the address of an access is computed from a value that was loaded from memory. It
/// follows the registers by their names, and the predicates of instructions, but no branches.
fn is_loaded(module: &Module<'_>, kernel: &Function<'_>, access: &AccessReport) -> bool {
    let is_access =
        |one: &&Instruction<'_>| one.line == access.line && one.mnemonic() == access.mnemonic;
    // The body of a function that is called has its own lines.
    let functions = std::iter::once(kernel).chain(&module.functions);
    let mut found = functions.filter_map(|function| {
        let instruction = instructions(function).find(is_access)?;
        Some((function, instruction))
    });
    let Some((function, instruction)) = found.next() else {
        return false;
    };
    let addresses = instruction.operands.iter();
    let mut addresses = addresses.filter(|operand| matches!(operand, Operand::Address(..)));
    // The source of an asynchronous copy is the global address.
    let address = match instruction.opcode {
        "cp" => addresses.nth(1),
        _ => addresses.next(),
    };
    let mut open = Vec::new();
    if let Some(address) = address {
        names(address, &mut |name| open.push(name));
    }
    let mut seen: HashSet<&str> = open.iter().copied().collect();
    while let Some(name) = open.pop() {
        for setter in instructions(function) {
            let Some((target, sources)) = setter.operands.split_first() else {
                continue;
            };
            let mut is_setter = false;
            if !matches!(setter.opcode, "st" | "red" | "sust" | "sured" | "bra") {
                names(target, &mut |other| is_setter |= other == name);
            }
            if !is_setter {
                continue;
            }
            let is_load = matches!(
                setter.opcode,
                "ld" | "ldu" | "atom" | "tex" | "tld4" | "suld" | "ldmatrix" | "wmma"
            );
            if is_load && !setter.has("param") {
                return true;
            }
            let mut add = |name| {
                if seen.insert(name) {
                    open.push(name);
                }
            };
            sources.iter().for_each(|source| names(source, &mut add));
            setter.predicate.iter().for_each(|it| add(it.name));
        }
    }
    false
}

/// The accesses that a launch would check.
fn checks(contract: &Contract) -> Vec<Check> {
    let accesses = contract.accesses.iter().enumerate();
    let checks = accesses.filter_map(|(access, report)| match &report.outcome {
        Outcome::Checked { root, .. } => Some(Check {
            access,
            root: root.clone(),
            is_aligned: false,
        }),
        _ => None,
    });
    checks.collect()
}

/// The kind of a refusal, without the name of the function or the instruction.
fn refused(reason: &str) -> String {
    let kind = reason.split(':').next().unwrap_or(reason);
    let kind = match kind.split_once(" of _") {
        Some((kind, _)) => kind,
        None => kind,
    };
    kind.to_owned()
}

fn count(text: &str, path: &Path, rules: &[Rule], list: bool, counts: &mut Counts) {
    let module = match parse(text) {
        Ok(module) => module,
        Err(error) => {
            println!("{}: {error}", path.display());
            return;
        }
    };
    for function in module.functions.iter() {
        if !function.entry || function.body.is_none() {
            continue;
        }
        let rule = rules
            .iter()
            .find(|rule| function.name.starts_with(&rule.beginning));
        let rule = rule.cloned().unwrap_or_default();
        let analysis = Analysis::of(&module, function);
        let (values, roots) = launch(function, text, &rule, &analysis);
        let verdict = analysis.evaluate(&values);
        counts.kernels += 1;
        counts.proven_kernels += u32::from(verdict.is_proven());
        let rewritten = match &verdict {
            Verdict::Checked(contract) => {
                let checks = checks(contract);
                instrument(text, &module, function, &analysis, &checks, &roots).map(drop)
            }
            _ => Ok(()),
        };
        let contract = match &verdict {
            Verdict::Proven(contract) => contract,
            Verdict::Checked(contract) if rewritten.is_ok() => contract,
            _ => {
                let Some(refusal) = verdict.refusal().or(rewritten.as_ref().err()) else {
                    continue;
                };
                counts.refused += 1;
                *counts.refusals.entry(refused(&refusal.reason)).or_default() += 1;
                if list {
                    println!("{}: {refusal}", path.display());
                }
                continue;
            }
        };
        for access in &contract.accesses {
            if access.is_object {
                let is_checked = matches!(access.outcome, Outcome::Checked { .. });
                counts.objects += 1;
                counts.objects_proven += u32::from(!is_checked);
                continue;
            }
            counts.accesses += 1;
            let is_global = u32::from(matches!(access.space, None | Some(Space::Global)));
            counts.global += is_global;
            let Outcome::Checked { root, reason: why } = &access.outcome else {
                counts.proven += 1;
                counts.global_proven += is_global;
                continue;
            };
            counts.unknown += u32::from(root.is_none());
            let is_loaded = is_global == 1 && is_loaded(&module, function, access);
            counts.global_loaded += u32::from(is_loaded);
            *counts.reasons.entry(reason(why)).or_default() += 1;
            if list {
                let (name, line) = (function.name, access.line);
                let address = if is_loaded { " (loaded address)" } else { "" };
                println!(
                    "{}: {name}: line {line}: {}: {why}{address}",
                    path.display(),
                    access.mnemonic
                );
            }
        }
    }
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(self::files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args: Vec<String> = env::args().skip(1).collect();
    let list = args.iter().any(|arg| arg == "--list");
    args.retain(|arg| arg != "--list");
    let percent = |part: u32, whole: u32| 100.0 * f64::from(part) / f64::from(whole.max(1));
    for arg in &args {
        let (name, folder) = arg
            .split_once('=')
            .ok_or("shares [--list] NAME=FOLDER...")?;
        let folder = Path::new(folder);
        let rules = fs::read_to_string(folder.join("launches.txt")).unwrap_or_default();
        let rules = rules
            .lines()
            .filter(|it| !it.is_empty() && !it.starts_with('#'));
        let rules: Vec<Rule> = rules.map(Rule::parse).collect::<Result<_, _>>()?;
        let mut counts = Counts::default();
        for path in files(folder)? {
            count(
                &fs::read_to_string(&path)?,
                &path,
                &rules,
                list,
                &mut counts,
            );
        }
        let Counts {
            kernels,
            proven_kernels,
            refused,
            accesses,
            proven,
            global,
            global_proven,
            global_loaded,
            objects,
            objects_proven,
            unknown,
            ..
        } = counts;
        println!(
            "{name}: {kernels} kernels: {proven_kernels} proven, {} checked, {refused} refused \
             ({:.1} %); {accesses} accesses: {proven} proven ({:.2} %), {} checked, {unknown} of \
             them against all arguments; {global} of global memory: {global_proven} proven \
             ({:.2} %), {global_loaded} of the others have an address that depends on a loaded \
             value; {objects} uses of textures and surfaces: {objects_proven} proven",
            kernels - proven_kernels - refused,
            percent(refused, kernels),
            percent(proven, accesses),
            accesses - proven,
            percent(global_proven, global),
        );
        for (what, list) in [("checked", &counts.reasons), ("refused", &counts.refusals)] {
            let mut list: Vec<_> = list.iter().collect();
            list.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            for (reason, count) in list.iter().take(12) {
                println!("    {count:6} {what}: {reason}");
            }
        }
    }
    Ok(())
}
