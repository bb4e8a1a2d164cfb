//! Counts how many accesses of the kernels in folders of PTX files are proven: `shares
//! NAME=FOLDER...`. `cargo xtask full shares` compiles the kernels of several projects and runs
//! this program. With `--list` it prints each access that is not proven, and with `--times` how
//! long the evaluation for one launch takes. `--states=FILE` writes the state of each kernel to a
//! file, and `--compare=FILE` prints which kernels differ from those in such a file, with the
//! rules.
//!
//! Files in a folder say with which values its kernels are launched. A line is for one kernel
//! of one file:
//!
//! ```text
//! recorded.txt: the values of a launch by a test or an example, which the software device recorded
//! <file>.<kernel> grid=8,1,1 block=128,1,1 shared=0 arguments=[4096/256],[4096/256],1000:4
//!     [4096/256]   an address: the bytes from there on, and the alignment
//!     1000:4       a number of 4 bytes
//!     [4096/256]+1000:8
//!                  a struct, in words of 8 bytes
//!
//! launched.txt: the same as recorded.txt, and kernels that it does not have are not counted
//!
//! defects.txt: kernels that leave their buffers on purpose, which are counted apart
//! <file>.<kernel> <reason>
//!
//! launches.txt: assumed values for all other kernels whose names fit a pattern; the first line that
//! fits counts
//! <beginning of the name*other parts*> <key>=<values>...
//!     grid=8,1,1 block=128,1,1 shared=0    the configuration
//!     numbers=1000,3                       the parameters that are no pointers; the last repeats
//!     null=0                               pointers that are null, counted without the numbers
//!     pointers=0,1                         parameters that are pointers, although the kernel does
//!                                          not convert them
//! ```
//!
//! A kernel with several recorded launches counts as in the one for which the most accesses are not
//! proven, or for which it is refused.
//!
//! An assumed buffer has 1 GiB, so an index that was loaded from memory is not proven. A parameter
//! that the kernel uses as a texture or a surface gets one that fits.
//!
//! The program also prints the instructions of every text, and fails if the printed text does not
//! parse to the same tree.

mod launches;
mod loaded;
mod printed;
mod states;
mod times;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use cuda_ptx::analysis::{Analysis, Contract, LaunchValues, Outcome, Reason, Root, Verdict};
use cuda_ptx::canonical::Canonical;
use cuda_ptx::instrument::{Check, instrument};
use cuda_ptx::{Function, Module, Space, parse};

use launches::{Folder, launch, roots};
use loaded::is_loaded;
use states::{State, States};
use times::Times;

/// The counts of one set.
#[derive(Debug, Default)]
struct Counts {
    kernels: u32,
    /// Kernels with the values of recorded launches, and the number of these launches.
    recorded: u32,
    launches: u32,
    /// Kernels that are not counted, because they are not launched.
    not_launched: u32,
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

fn reason(root: Option<&Root>, reason: &Reason) -> String {
    match (root, reason) {
        (Some(Root::Variable(_)), Reason::OutOfRange { .. }) => {
            "out of range of a variable".to_owned()
        }
        (_, Reason::OutOfRange { .. }) => "out of range of a buffer".to_owned(),
        (_, other) => other.to_string(),
    }
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

/// The verdict on a launch. A kernel that cannot be rewritten for it counts as refused.
fn judge(
    text: &str,
    module: &Module<'_>,
    function: &Function<'_>,
    analysis: &Analysis,
    values: &LaunchValues,
) -> Verdict {
    let verdict = analysis.evaluate(values);
    let Verdict::Checked(contract) = &verdict else {
        return verdict;
    };
    let checks = checks(contract);
    match instrument(text, module, function, analysis, &checks, &roots(values)) {
        Ok(_) => verdict,
        Err(refusal) => Verdict::Refused(refusal),
    }
}

/// The number of accesses that are not proven. A refusal is above all numbers.
fn not_proven(verdict: &Verdict) -> usize {
    match verdict {
        Verdict::Proven(_) => 0,
        Verdict::Checked(contract) => checks(contract).len(),
        Verdict::Refused(_) => usize::MAX,
    }
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

/// The output in addition to the counts.
#[derive(Debug)]
struct Options {
    list: bool,
    times: Option<Times>,
    states: States,
}

/// Counts the kernels of a file: those with a defect in the second place.
fn count(
    set: &str,
    text: &str,
    path: &Path,
    folder: &Folder,
    options: &mut Options,
    [all, defects]: &mut [Counts; 2],
) -> Result<(), Box<dyn Error>> {
    let list = options.list;
    let in_file = |error: cuda_ptx::Error| format!("{}: {error}", path.display());
    let module = parse(text).map_err(in_file)?;
    let canonical = Canonical::new(&module).map_err(in_file)?;
    for function in module.functions.iter() {
        if !function.entry || function.body.is_none() {
            continue;
        }
        let stem = path.file_stem().unwrap_or_default().display();
        let name = format!("{stem}.{}", function.name);
        let is_defect = folder.defects.contains(&name);
        let counts = if is_defect { &mut *defects } else { &mut *all };
        let recorded = folder.recorded.get(&name);
        if recorded.is_none() && folder.is_of_launched {
            counts.not_launched += 1;
            continue;
        }
        counts.kernels += 1;
        counts.recorded += u32::from(recorded.is_some());
        counts.launches += recorded.map_or(0, |it| it.len() as u32);
        // What is launched is the text that is printed.
        let Some(printed) = canonical.kernel(function.name) else {
            let Some(refusal) = canonical.refusal(function.name) else {
                return Err(format!("{}: {name} was not printed", path.display()).into());
            };
            counts.refused += 1;
            let reason = refused(&refusal.reason);
            *counts.refusals.entry(reason.clone()).or_default() += 1;
            options
                .states
                .add(format!("{set}/{name}"), State::refused(reason));
            if list {
                println!("{}: {refusal}", path.display());
            }
            continue;
        };
        let original = function;
        let module = printed.parse().map_err(in_file)?;
        let Some(function) = module.functions.first() else {
            continue;
        };
        let analysis = Analysis::of(&module, function);
        let launches: Vec<LaunchValues> = match recorded {
            Some(recorded) => recorded.iter().map(|it| it.launch(&analysis)).collect(),
            None => {
                let mut rules = folder.rules.iter();
                let rule = rules.find(|rule| rule.is_of(function.name));
                let rule = rule.cloned().unwrap_or_default();
                // The printed text promises nothing about pointers.
                vec![launch(original, text, &rule, &analysis)]
            }
        };
        let verdicts = launches.iter().map(|values| {
            if let Some(times) = &mut options.times {
                times.measure(name.clone(), &analysis, values);
            }
            judge(printed.text(), &module, function, &analysis, values)
        });
        let Some(verdict) = verdicts.max_by_key(not_proven) else {
            continue;
        };
        counts.proven_kernels += u32::from(verdict.is_proven());
        let contract = match &verdict {
            Verdict::Proven(contract) | Verdict::Checked(contract) => contract,
            Verdict::Refused(refusal) => {
                counts.refused += 1;
                let reason = refused(&refusal.reason);
                *counts.refusals.entry(reason.clone()).or_default() += 1;
                options
                    .states
                    .add(format!("{set}/{name}"), State::refused(reason));
                if list {
                    println!("{}: {refusal}", path.display());
                }
                continue;
            }
        };
        let mut reasons = BTreeMap::new();
        for access in &contract.accesses {
            if let Outcome::Checked { root, reason: why } = &access.outcome {
                *reasons.entry(reason(root.as_ref(), why)).or_default() += 1;
            }
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
            *counts
                .reasons
                .entry(reason(root.as_ref(), why))
                .or_default() += 1;
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
        let state = State::new(&verdict, reasons);
        options.states.add(format!("{set}/{name}"), state);
    }
    Ok(())
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
    let is_given = |flag: &str| args.iter().any(|arg| arg == flag);
    let (list, with_times) = (is_given("--list"), is_given("--times"));
    let file = |flag: &str| args.iter().find_map(|arg| arg.strip_prefix(flag));
    let write_to = file("--states=").map(PathBuf::from);
    let before = match file("--compare=") {
        Some(file) => Some(States::parse(&fs::read_to_string(file)?)?),
        None => None,
    };
    let mut states = States::default();
    args.retain(|arg| !arg.starts_with("--"));
    let percent = |part: u32, whole: u32| 100.0 * f64::from(part) / f64::from(whole.max(1));
    for arg in &args {
        let (name, folder) = arg
            .split_once('=')
            .ok_or("shares [--list] [--times] [--states=FILE] [--compare=FILE] NAME=FOLDER...")?;
        let folder = Path::new(folder);
        let known = Folder::read(folder)?;
        let mut counts = [Counts::default(), Counts::default()];
        let times = with_times.then(Times::default);
        let mut options = Options {
            list,
            times,
            states,
        };
        let (mut texts, mut instructions) = (0, 0);
        for path in files(folder)? {
            let text = fs::read_to_string(&path)?;
            count(name, &text, &path, &known, &mut options, &mut counts)?;
            let printed = printed::check(&text);
            instructions += printed.map_err(|error| format!("{}: {error}", path.display()))?;
            texts += 1;
        }
        println!("{name}: {texts} texts with {instructions} instructions are printed and parsed");
        let [counts, defects] = counts;
        let Counts {
            kernels,
            recorded,
            launches,
            not_launched,
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
            "{name}: {kernels} kernels, {recorded} with {launches} recorded launches: \
             {proven_kernels} proven, {} checked, {refused} refused \
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
        if known.is_of_launched {
            println!("    {not_launched} other kernels of these texts are not launched");
        }
        if defects.kernels > 0 {
            println!(
                "    {} kernels with a defect are counted apart: {} of {} accesses to global memory \
                 are proven",
                defects.kernels, defects.global_proven, defects.global,
            );
        }
        for (what, list) in [("checked", &counts.reasons), ("refused", &counts.refusals)] {
            let mut list: Vec<_> = list.iter().collect();
            list.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            for (reason, count) in list.iter().take(12) {
                println!("    {count:6} {what}: {reason}");
            }
        }
        if let Some(times) = &options.times {
            println!("{times}");
        }
        states = options.states;
    }
    if let Some(file) = write_to {
        fs::write(file, states.text())?;
    }
    if let Some(before) = before {
        print!("{}", states.changes(&before));
    }
    Ok(())
}
