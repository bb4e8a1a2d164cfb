//! A single case: a scenario on its own device, in which one call fails.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::error::{Error, Status};
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Live, Rule, Simulator, TraceEntry};
use cuda_sys::{DriverLibrary, Function as Call};

use super::rules;
use crate::support::{built, late};

/// A program that propagates every error and checks its results.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// Configures the device; `devices` is the number of devices.
    pub(super) device: fn(Builder) -> Builder,
    pub(super) devices: u32,
    pub(super) run: fn(&Fixture) -> Result<()>,
}

pub(super) type Result<T> = std::result::Result<T, Error>;

/// The environment of a scenario: an unused primary context of the first device.
pub(super) struct Fixture {
    pub(super) simulator: Simulator,
    pub(super) library: Arc<DriverLibrary>,
    pub(super) driver: Driver,
    pub(super) context: Context,
}

/// The call that fails, and its status.
#[derive(Clone, Copy)]
pub(super) struct Fault {
    pub(super) call: &'static Call,
    /// The number of the call, from 1, among the calls that match its name.
    pub(super) nth: u64,
    /// Whether the scenario makes no later call of this function.
    pub(super) is_last: bool,
    pub(super) status: Status,
}

/// A failure of a case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wrong {
    /// The program panicked, with this message.
    Panicked(String),
    /// The program did not end in time.
    Hung,
    /// The program returned an error other than the injected one.
    Error(String),
    /// The program returned no error.
    Swallowed,
    /// The program fails again without an injected fault.
    Later(String),
    /// The program leaked something.
    Left(String),
    /// The program left a context current.
    Current,
}

/// The result of a case.
pub(super) struct Ended {
    pub(super) wrong: Vec<Wrong>,
    /// Whether the failing call was made: the timing of the library's threads varies.
    pub(super) was_hit: bool,
    pub(super) trace: Vec<TraceEntry>,
}

/// Returns the rule of the software device that injects the fault.
fn rule(fault: &Fault) -> Rule {
    Rule::new(fault.status)
        .function(fault.call.name)
        .nth(fault.nth)
}

/// Returns whether a rule for `name` matches the call.
pub(super) fn is_named(name: &str, call: &Call) -> bool {
    call.name == name || call.base == name
}

fn open(simulator: &Simulator, scenario: &Scenario) -> (Vec<Context>, Fixture) {
    let library = Arc::new(simulator.library().unwrap());
    // Keeps the contexts alive, as their end would free leaked resources.
    let keeper = Driver::new(simulator.library().unwrap()).unwrap();
    let kept = (0..scenario.devices)
        .map(|ordinal| keeper.device(ordinal).unwrap().primary_context().unwrap())
        .collect();
    let driver = Driver::new(Arc::clone(&library)).unwrap();
    let context = driver.device(0).unwrap().primary_context().unwrap();
    let fixture = Fixture {
        simulator: simulator.clone(),
        library,
        driver,
        context,
    };
    (kept, fixture)
}

/// Runs a case, or the scenario without a fault.
pub(super) fn run(scenario: &Scenario, fault: Option<&Fault>) -> Ended {
    let builder = late(1).devices(scenario.devices as usize).trace(true);
    let simulator = built(&(scenario.device)(builder.memory(64 << 20)));
    let (kept, fixture) = open(&simulator, scenario);
    // This snapshot excludes the context that ends with the scenario.
    let before = simulator.live();
    drop(simulator.take_trace());
    if let Some(fault) = fault {
        simulator.add_rule(rule(fault));
    }
    let mut wrong = Vec::new();
    let result = catch_unwind(AssertUnwindSafe(|| (scenario.run)(&fixture)));
    let mut trace = simulator.take_trace();
    match result {
        Err(panic) => wrong.push(Wrong::Panicked(words(&*panic))),
        Ok(result) => wrong.extend(check_result(scenario, fault, &result)),
    }
    if wrong.is_empty() && fault.is_some_and(|fault| is_hit(fault, &trace)) {
        // A failed call must break nothing: the same program runs again in the same context.
        simulator.clear_rules();
        match catch_unwind(AssertUnwindSafe(|| (scenario.run)(&fixture))) {
            Err(panic) => wrong.push(Wrong::Later(words(&*panic))),
            Ok(Err(error)) => wrong.push(Wrong::Later(error.to_string())),
            Ok(Ok(())) => {}
        }
    }
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(fixture))) {
        wrong.push(Wrong::Panicked(words(&*panic)));
    }
    wrong.extend(check_left(&simulator, &kept, &before, fault));
    trace.extend(simulator.take_trace());
    simulator.clear_rules();
    if Context::current(kept[0].driver()).is_ok_and(|current| current.is_some())
        && !fault.is_some_and(|fault| rules::keeps_current(fault.call))
    {
        wrong.push(Wrong::Current);
    }
    let was_hit = fault.is_none_or(|fault| is_hit(fault, &trace));
    Ended {
        wrong,
        was_hit,
        trace,
    }
}

/// Returns whether the call failed with the injected status.
fn is_hit(fault: &Fault, trace: &[TraceEntry]) -> bool {
    trace
        .iter()
        .any(|entry| entry.function.name == fault.call.name && entry.result == fault.status)
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
        .to_owned()
}

fn check_result(scenario: &Scenario, fault: Option<&Fault>, result: &Result<()>) -> Option<Wrong> {
    match (fault, result) {
        (None, Ok(())) => None,
        (None, Err(error)) => Some(Wrong::Error(error.to_string())),
        (Some(fault), Ok(())) => {
            (!rules::may_be_swallowed(scenario.name, fault)).then_some(Wrong::Swallowed)
        }
        (Some(fault), Err(error)) => {
            (!rules::is_right(fault, error)).then(|| Wrong::Error(error.to_string()))
        }
    }
}

/// Returns what is leaked after a grace period, as the library's thread may still be working.
fn check_left(
    simulator: &Simulator,
    kept: &[Context],
    before: &Live,
    fault: Option<&Fault>,
) -> Option<Wrong> {
    let start = Instant::now();
    let library = Arc::new(simulator.library().unwrap());
    loop {
        for context in kept {
            // SAFETY: the context is alive. The late device runs only work that is waited for.
            // (This revision of the function is not called by the library, so no rule matches it.)
            let _ = unsafe { library.cuCtxSynchronize_v2(context.as_raw()) };
        }
        let mut live = simulator.live();
        // A context that a scenario resets has ended, although `kept` has a handle.
        live.contexts = live.contexts.max(before.contexts);
        if live == *before {
            return None;
        }
        let left = Left::between(before, &live);
        let is_allowed = fault.is_some_and(|fault| rules::may_be_left(fault, &left));
        // Objects that may be left often stay forever, so the test does not wait longer for them.
        // All others are freed soon, but a worker thread may get no processor for a while.
        let patience = if is_allowed {
            Duration::from_millis(5)
        } else {
            Duration::from_secs(10)
        };
        if start.elapsed() > patience {
            return (!is_allowed).then(|| Wrong::Left(left.to_string()));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The number of leaked objects of each kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Left(pub(super) Vec<(&'static str, isize)>);

impl Left {
    fn between(before: &Live, after: &Live) -> Self {
        let of = |live: &Live| {
            [
                ("contexts", live.contexts),
                ("streams", live.streams),
                ("events", live.events),
                ("external memory", live.external_memory),
                ("external semaphores", live.external_semaphores),
                ("modules", live.modules),
                ("libraries", live.libraries),
                ("graphs", live.graphs),
                ("executables", live.graph_execs),
                ("links", live.links),
                ("pools", live.pools),
                ("arrays", live.arrays),
                ("mipmapped arrays", live.mipmapped_arrays),
                ("textures", live.textures),
                ("surfaces", live.surfaces),
                ("allocations", live.allocations),
                ("host allocations", live.host_allocations),
                ("physical allocations", live.physical),
                ("address ranges", live.address_ranges),
            ]
        };
        let pairs = of(before).into_iter().zip(of(after));
        let changed = pairs.filter(|(before, after)| before != after);
        Self(
            changed
                .map(|((name, before), (_, after))| (name, after as isize - before as isize))
                .collect(),
        )
    }
}

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (name, count)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{count} {name}")?;
        }
        Ok(())
    }
}
