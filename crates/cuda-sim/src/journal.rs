//! Call counts, the call trace, and injected failures.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};

use cuda_sys::{CUresult, FUNCTIONS, Function};

use crate::lock::lock;
use crate::random::Random;

/// A rule that makes calls fail: which calls, when, and with which status.
///
/// A call that a rule makes fail has no other effect.
///
/// ```
/// use cuda_sim::{CUresult, Rule};
///
/// let second_allocation = Rule::new(CUresult::CUDA_ERROR_OUT_OF_MEMORY).function("cuMemAlloc").nth(2);
/// let one_in_ten = Rule::new(CUresult::CUDA_ERROR_UNKNOWN).random(0.1, 7);
/// # let _ = (second_allocation, one_in_ten);
/// ```
#[derive(Clone, Debug)]
pub struct Rule {
    result: CUresult,
    function: Option<String>,
    when: When,
}

#[derive(Clone, Debug)]
enum When {
    Always,
    Nth(u64),
    Every(u64),
    Random(f64, u64),
}

impl Rule {
    /// Makes every call return `result`.
    #[must_use]
    pub fn new(result: CUresult) -> Self {
        Self {
            result,
            function: None,
            when: When::Always,
        }
    }

    /// Restricts the rule to calls of `name`: an exported name (`cuMemAlloc_v2`), or a name without
    /// its version suffix (`cuMemAlloc`), which includes all versions.
    #[must_use]
    pub fn function(mut self, name: impl Into<String>) -> Self {
        self.function = Some(name.into());
        self
    }

    /// Makes only the `n`-th matching call fail. Calls are counted from 1, starting when the rule
    /// is added.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.when = When::Nth(n);
        self
    }

    /// Makes every `n`-th matching call fail.
    #[must_use]
    pub fn every(mut self, n: u64) -> Self {
        self.when = When::Every(n);
        self
    }

    /// Makes each matching call fail with this probability. The same seed makes the same calls
    /// fail.
    #[must_use]
    pub fn random(mut self, probability: f64, seed: u64) -> Self {
        self.when = When::Random(probability, seed);
        self
    }

    fn concerns(&self, function: &Function) -> bool {
        self.function
            .as_deref()
            .is_none_or(|name| name == function.name || name == function.base)
    }
}

/// A completed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceEntry {
    /// The function.
    pub function: &'static Function,
    /// The thread that called it.
    pub thread: ThreadId,
    /// The status that the call returned.
    pub result: CUresult,
}

impl fmt::Display for TraceEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} = {}",
            self.function,
            self.result.name().unwrap_or("?")
        )
    }
}

struct Active {
    rule: Rule,
    calls: u64,
    random: Random,
}

/// The call counts, the trace and the rules of one instance.
pub(crate) struct Journal {
    counts: Vec<AtomicU64>,
    trace: Option<Mutex<Vec<TraceEntry>>>,
    /// Whether each call is written to stderr.
    print: bool,
    rules: Mutex<Vec<Active>>,
    missed: Mutex<BTreeSet<&'static str>>,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("missed", &self.missed)
            .finish_non_exhaustive()
    }
}

thread_local! {
    static QUIET: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs `work`. Calls that this thread makes meanwhile are not counted, and rules do not apply to
/// them.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> T {
    struct Reset(bool);
    impl Drop for Reset {
        fn drop(&mut self) {
            QUIET.set(self.0);
        }
    }
    let _reset = Reset(QUIET.replace(true));
    work()
}

impl Journal {
    pub(crate) fn new(trace: bool, rules: Vec<Rule>) -> Self {
        let journal = Self {
            counts: FUNCTIONS.iter().map(|_| AtomicU64::new(0)).collect(),
            trace: trace.then(Mutex::default),
            print: std::env::var_os("CUDA_SIM_LOG").is_some_and(|value| value == "calls"),
            rules: Mutex::default(),
            missed: Mutex::default(),
        };
        for rule in rules {
            journal.add(rule);
        }
        journal
    }

    pub(crate) fn add(&self, rule: Rule) {
        let seed = if let When::Random(_, seed) = rule.when {
            seed
        } else {
            0
        };
        lock(&self.rules).push(Active {
            rule,
            calls: 0,
            random: Random::new(seed),
        });
    }

    pub(crate) fn clear_rules(&self) {
        lock(&self.rules).clear();
    }

    fn index(function: &'static Function) -> usize {
        // `function` is an element of `FUNCTIONS` or a copy of one: the constants in `calls` may be
        // promoted to separate statics.
        let offset = std::ptr::from_ref(function)
            .addr()
            .wrapping_sub(FUNCTIONS.as_ptr().addr());
        let index = offset / size_of::<Function>();
        if index < FUNCTIONS.len() {
            return index;
        }
        FUNCTIONS
            .iter()
            .position(|row| row.name == function.name)
            .unwrap_or(0)
    }

    /// Counts a call. Returns the status if a rule makes the call fail.
    pub(crate) fn begin(&self, function: &'static Function) -> Option<CUresult> {
        if QUIET.get() {
            return None;
        }
        self.counts[Self::index(function)].fetch_add(1, Ordering::Relaxed);
        let mut failed = None;
        for active in lock(&self.rules).iter_mut() {
            if !active.rule.concerns(function) {
                continue;
            }
            active.calls += 1;
            let fails = match active.rule.when {
                When::Always => true,
                When::Nth(n) => active.calls == n,
                When::Every(n) => n != 0 && active.calls % n == 0,
                When::Random(probability, _) => active.random.chance(probability),
            };
            if fails && failed.is_none() {
                failed = Some(active.rule.result);
            }
        }
        failed
    }

    pub(crate) fn end(&self, function: &'static Function, result: CUresult) {
        if QUIET.get() || (self.trace.is_none() && !self.print) {
            return;
        }
        let entry = TraceEntry {
            function,
            thread: thread::current().id(),
            result,
        };
        if self.print {
            eprintln!("cuda-sim: {entry}");
        }
        if let Some(trace) = &self.trace {
            lock(trace).push(entry);
        }
    }

    /// Records a call of an unimplemented function. Returns whether it is the first.
    pub(crate) fn missed(&self, function: &'static Function) -> bool {
        lock(&self.missed).insert(function.name)
    }

    pub(crate) fn unimplemented(&self) -> Vec<&'static str> {
        lock(&self.missed).iter().copied().collect()
    }

    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        let counts = self
            .counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed));
        FUNCTIONS
            .iter()
            .map(|function| function.name)
            .zip(counts)
            .filter(|&(_, count)| count > 0)
            .collect()
    }

    pub(crate) fn reset_counts(&self) {
        for count in &self.counts {
            count.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn take_trace(&self) -> Vec<TraceEntry> {
        self.trace
            .as_ref()
            .map(|trace| std::mem::take(&mut *lock(trace)))
            .unwrap_or_default()
    }
}
