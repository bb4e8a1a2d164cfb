//! A worker: a process with its own context and memory. It reads units of work from its standard
//! input, and writes a line for each step, so that its parent knows where it ended.

use std::io::{BufRead, Write};
use std::time::Duration;

use cuda_driver::prelude::*;
use cuda_driver::{Error, Result};
use cuda_sim::{Builder, Simulator};

use crate::arena::Arena;
use crate::message::{Counts, Message};
use crate::module::{Part, Plan};
use crate::options::Options;
use crate::planted::{DEFECTS, Defect, Planted};
use crate::session::{Outcome, Patience, Session, first_line};

/// The launches after which the words are compared, and the kernels of one block that the software
/// device executes at most.
const CHUNK: usize = 40;
const INSTRUCTIONS: u64 = 60_000;

/// A unit of work: a part of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) module: u64,
    pub(crate) is_hostile: bool,
    /// The number of kernels.
    pub(crate) kernels: u64,
    /// The launch at which to begin.
    pub(crate) from: usize,
    /// The kernels to leave out.
    pub(crate) skip: Vec<usize>,
    /// The only kernels to load, without launching them.
    pub(crate) only_load: Option<(usize, usize)>,
    /// A defect to plant.
    pub(crate) defect: Option<String>,
    /// The only seed.
    pub(crate) seed: Option<u64>,
}

impl Unit {
    /// One line for the standard input of a worker.
    pub(crate) fn text(&self) -> String {
        let skip: Vec<String> = self.skip.iter().map(usize::to_string).collect();
        let load = self.only_load.map(|(from, to)| format!("{from}-{to}"));
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
        format!(
            "{} {} {} {} {} {} {} {}",
            self.module,
            self.is_hostile,
            self.kernels,
            self.from,
            or_none(load),
            or_none(self.defect.clone()),
            or_none(self.seed.map(|seed| seed.to_string())),
            or_none((!skip.is_empty()).then(|| skip.join(",")))
        )
    }

    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [module, is_hostile, kernels, from, load, defect, seed, skip] = words[..] else {
            return None;
        };
        let some = |text: &str| (text != "none").then(|| text.to_owned());
        let pair = |text: String| {
            let (from, to) = text.split_once('-')?;
            Some((from.parse().ok()?, to.parse().ok()?))
        };
        let list = some(skip).unwrap_or_default();
        Some(Self {
            module: module.parse().ok()?,
            is_hostile: is_hostile == "true",
            kernels: kernels.parse().ok()?,
            from: from.parse().ok()?,
            skip: list.split(',').filter_map(|it| it.parse().ok()).collect(),
            only_load: some(load).and_then(pair),
            defect: some(defect),
            seed: some(seed).and_then(|seed| seed.parse().ok()),
        })
    }

    /// The plan of the unit.
    pub(crate) fn plan(&self) -> Plan {
        match (self.seed, self.is_hostile) {
            (Some(seed), _) => Plan::of_kernel(seed),
            (None, false) => Plan::new(self.module, Part::Main, self.kernels),
            (None, true) => Plan::new(self.module, Part::Hostile, self.kernels),
        }
    }
}

fn say(message: &Message) {
    let mut out = std::io::stdout().lock();
    // A parent that has ended reads nothing.
    let _ = writeln!(out, "{}", message.text());
    let _ = out.flush();
}

/// A context on a device, and the simulator if it is a software device.
pub(crate) fn open(is_software: bool) -> Result<(Option<Simulator>, Context)> {
    if !is_software {
        let driver = Driver::load()?;
        return Ok((None, driver.device(0)?.primary_context()?));
    }
    let builder = Builder::new()
        .compute_capability(9, 0)
        .instruction_limit(INSTRUCTIONS);
    let simulator = builder.build().expect("a software device");
    let library = simulator.library().expect("the software driver");
    let context = Driver::new(library)?.device(0)?.primary_context()?;
    Ok((Some(simulator), context))
}

/// Serves units until the standard input ends.
pub(crate) fn serve(options: &Options) -> Result<()> {
    let (_simulator, context) = open(options.is_software)?;
    let mut arena = Arena::new(&context, options.side_words(), options.is_software)?;
    say(&Message::Ready);
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let unit = Unit::parse(&line).unwrap_or_else(|| panic!("an unknown unit: {line}"));
        let plan = unit.plan();
        if !serve_unit(options, &mut arena, &unit, &plan)? {
            // The destructors would wait for the kernel, or fail as the device is lost.
            std::process::exit(0);
        }
        say(&Message::Done);
    }
    Ok(())
}

/// Runs one unit. Returns whether the process can go on.
fn serve_unit(options: &Options, arena: &mut Arena, unit: &Unit, plan: &Plan) -> Result<bool> {
    say(&Message::At(None));
    let mut counts = Counts::default();
    let range = unit.only_load.unwrap_or((0, usize::MAX));
    let kernels: Vec<usize> = (0..plan.kernels.len())
        .filter(|kernel| !unit.skip.contains(kernel))
        .filter(|kernel| (range.0..range.1).contains(kernel))
        .filter(|kernel| {
            unit.seed
                .is_none_or(|seed| plan.kernels[*kernel].seed == seed)
        })
        .collect();
    let patience = Patience {
        release: Duration::from_millis(100),
        end: Duration::from_millis(options.patience_ms),
    };
    let rounds = if options.is_software { 2 } else { 600 };
    let planted = planted(unit, plan);
    let crashing = planted
        .iter()
        .find(|planted| planted.defect == Defect::CrashLoading)
        .map(|planted| plan.launches[planted.number].kernel);
    if crashing.is_some_and(|kernel| kernels.contains(&kernel)) {
        std::process::abort();
    }
    let mut left = kernels;
    let load = |kernels: &[usize]| Session::load(arena, plan, kernels, patience, rounds);
    let mut session = loop {
        let (name, log) = match load(&left) {
            Ok(session) => break session,
            Err(Error::Jit(error)) => ("not compiled", error.to_string()),
            Err(Error::SafeLaunch(error)) => ("refused with its module", error.to_string()),
            Err(error) => return Err(error),
        };
        let mut wrong = named_kernels(plan, &left, &log);
        if wrong.is_empty() {
            wrong.extend(left.iter().filter(|kernel| load(&[**kernel]).is_err()));
        }
        if wrong.is_empty() {
            wrong.clone_from(&left);
        }
        for kernel in &wrong {
            counts.add(name);
            let seed = plan.kernels[*kernel].seed;
            say(&Message::Note(format!(
                "kernel {seed} is {name}: {log:.600}"
            )));
        }
        left.retain(|kernel| !wrong.contains(kernel));
        if left.is_empty() {
            say(&Message::Clean(plan.launches.len(), counts));
            return Ok(true);
        }
    };
    if unit.only_load.is_some() {
        return Ok(true);
    }
    session.plant(planted);
    let launches: Vec<usize> = (unit.from..plan.launches.len())
        .filter(|launch| left.contains(&plan.launches[*launch].kernel))
        .collect();
    let chunk = if unit.is_hostile { 1 } else { CHUNK };
    let mut last = None;
    for chunk in launches.chunks(chunk) {
        for number in chunk {
            let launch = &plan.launches[*number];
            say(&Message::At(Some(launch.kernel)));
            let outcome = session.run(arena, *number);
            let name = match &outcome {
                Outcome::Proven => "proven",
                Outcome::Checked => "checked",
                Outcome::Violation => "checked, with a violation",
                Outcome::Refused(reason) => &format!("refused: {reason}"),
                Outcome::NotLaunched(error) => &format!("not launched: {error:.100}"),
                Outcome::Endless => {
                    say(&Message::Endless(launch.kernel));
                    return Ok(false);
                }
                Outcome::Fault(error) => {
                    let text = format!("{error}\n{}", plan.describe(launch));
                    say(&Message::Fault(launch.kernel, text));
                    return Ok(false);
                }
                Outcome::Changed(what) => {
                    say(&Message::Hit(format!("{what}\n{}", plan.describe(launch))));
                    "hits"
                }
            };
            counts.add(name);
            let is_launched = !name.starts_with("refused") && !name.starts_with("not launched");
            if is_launched && last != Some(launch.kernel) {
                last = Some(launch.kernel);
                counts.add("kernels");
            }
        }
        let (changes, words) = arena.compare(&plan.ranges())?;
        if changes > 0 {
            for found in changing(arena, &mut session, chunk)? {
                counts.add("hits");
                let mut text = format!("{changes} words have changed, such as {words:?}\n");
                for number in &found {
                    text += &plan.describe(&plan.launches[*number]);
                }
                say(&Message::Hit(text));
            }
            arena.refill()?;
        }
        let next = chunk.last().map_or(0, |number| number + 1);
        say(&Message::Clean(next, std::mem::take(&mut counts)));
    }
    arena.restore(&plan.ranges())?;
    Ok(true)
}

/// The kernels whose lines a message names.
fn named_kernels(plan: &Plan, kernels: &[usize], log: &str) -> Vec<usize> {
    let (_, lines) = plan.text(kernels);
    let named = log.split("line ").skip(1).filter_map(|rest| {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let line: usize = rest[..digits].parse().ok()?;
        let position = lines
            .partition_point(|first| *first <= line)
            .checked_sub(1)?;
        Some(kernels[position])
    });
    let mut named: Vec<usize> = named.collect();
    named.sort_unstable();
    named.dedup();
    named
}

/// Repeats launches to find those that change words. Each result is one launch, or several if no
/// single one of them changes words when it is repeated.
fn changing(
    arena: &mut Arena,
    session: &mut Session<'_>,
    launches: &[usize],
) -> Result<Vec<Vec<usize>>> {
    let mut shows = |launches: &[usize]| -> Result<bool> {
        for _ in 0..3 {
            arena.refill()?;
            for number in launches {
                // A fault or an endless kernel is found in the next run of the unit.
                if let Outcome::Endless | Outcome::Fault(_) = session.run(arena, *number) {
                    return Ok(false);
                }
            }
            if arena.compare(&session.plan.ranges())?.0 > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let (mut rest, mut all) = (launches.to_vec(), Vec::new());
    loop {
        let mut found = &rest[..];
        while found.len() > 1 {
            let (first, second) = found.split_at(found.len() / 2);
            found = if shows(first)? {
                first
            } else if shows(second)? {
                second
            } else {
                break;
            };
        }
        let found = found.to_vec();
        rest.retain(|number| !found.contains(number));
        all.push(found);
        if rest.is_empty() || !shows(&rest)? {
            return Ok(all);
        }
    }
}

/// The launch of a defect, in the middle of the unit.
fn planted(unit: &Unit, plan: &Plan) -> Vec<Planted> {
    let wanted = unit.defect.as_deref();
    let found = DEFECTS.iter().find(|(name, _)| Some(*name) == wanted);
    let planted = found.map(|(_, defect)| Planted {
        number: planted_number(plan),
        defect: *defect,
    });
    planted.into_iter().collect()
}

/// The number of the launch that a planted one replaces.
pub(crate) fn planted_number(plan: &Plan) -> usize {
    plan.launches.len() / 2 + 1
}

/// Returns whether a defect only writes words.
pub(crate) fn is_write(defect: Defect) -> bool {
    matches!(
        defect,
        Defect::Behind | Defect::FarBefore | Defect::FarBehind
    )
}

/// The first line of an error, for the parent.
pub(crate) fn report(error: &Error) {
    say(&Message::Note(format!(
        "the worker fails: {}",
        first_line(&error.to_string())
    )));
}
