use super::*;
use crate::error::ViolationKind;

/// A launch of thread `number` of one block, with or without a violation.
struct Launch {
    number: u32,
    has_violation: AtomicBool,
    is_settled: AtomicBool,
}

fn launch(number: u32, has_violation: bool) -> Arc<Launch> {
    Arc::new(Launch {
        number,
        has_violation: AtomicBool::new(has_violation),
        is_settled: AtomicBool::new(false),
    })
}

/// A place on a stream of its own, which no other test uses.
fn place() -> Place {
    static STREAM: AtomicU64 = AtomicU64::new(u64::MAX / 2);
    Place {
        context: 0,
        stream: STREAM.fetch_add(1, Ordering::Relaxed),
        replays: 0,
    }
}

impl Report for Launch {
    fn settle(&self) -> bool {
        self.is_settled.store(true, Ordering::Relaxed);
        self.has_violation.load(Ordering::Relaxed)
    }

    fn take(&self) -> Option<Vec<Violation>> {
        self.settle();
        let is_found = self.has_violation.swap(false, Ordering::Relaxed);
        let violation = Violation {
            kernel: String::from("k"),
            kind: ViolationKind::Read,
            ptx_line: 1,
            source: None,
            block: [0; 3],
            thread: [self.number, 0, 0],
            address: 0,
            bytes: 4,
            argument: None,
            argument_bytes: 0,
            offset: 0,
            is_read_only: false,
            variable: None,
            surface: None,
            threads: 1,
        };
        Some(is_found.then_some(violation).into_iter().collect())
    }

    fn uses(&self, memory: &MemoryUse) -> Option<bool> {
        (memory.address == u64::from(self.number)).then_some(true)
    }

    fn print_later(self: Arc<Self>) {}
}

/// The threads in the violations of a wait.
fn threads(result: Result<()>) -> Vec<u32> {
    match result {
        Ok(()) => Vec::new(),
        Err(Error::Violation(violations)) => violations.iter().map(|it| it.thread[0]).collect(),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn records_are_bounded_after_a_violation() {
    let (reports, place) = (Arc::new(Reports::default()), place());
    let launches: Vec<_> = (0..300).map(|n| launch(n, n % 100 == 0)).collect();
    for launch in &launches {
        reports.add(place, Arc::clone(launch) as Arc<dyn Report>);
        let is_queued = |launch: &&Arc<Launch>| !launch.is_settled.load(Ordering::Relaxed);
        let queued = launches[..=launch.number as usize].iter().filter(is_queued);
        assert!(queued.count() <= MAX_RECORDS, "launch {}", launch.number);
    }
    let waited = Waited::for_stream(place.stream);
    assert_eq!(threads(waited.report()), [0, 100, 200]);
    assert!(reports.entries.lock().is_empty());
    assert_eq!(threads(waited.report()), Vec::<u32>::new());
}

#[test]
fn a_wait_takes_the_launches_that_it_waited_for() {
    let reports = [Arc::new(Reports::default()), Arc::new(Reports::default())];
    let places = [place(), place()];
    let add = |stream: usize, thread: u32| {
        reports[stream].add(places[stream], launch(thread, true) as Arc<dyn Report>)
    };
    // Numbers that no other test uses as addresses.
    add(0, 4_000_001);
    let second = add(1, 4_000_002);
    add(0, 4_000_003);
    add(1, 4_000_004);
    let memory = |address: u64| MemoryUse {
        driver: 1,
        address,
        bytes: 4,
    };
    let first = Waited::for_stream(places[0].stream).up_to(second);
    assert_eq!(threads(first.report()), [4_000_001]);
    assert_eq!(threads(first.report()), Vec::<u32>::new());
    let mut both = Waited::for_stream(places[1].stream).up_to(second);
    both.add_memory(memory(4_000_003), false, SmallVec::new(), u64::MAX);
    // The third launch came after the point that was waited for.
    assert_eq!(threads(both.report()), [4_000_002]);
    let mut used = Waited::for_replays(SmallVec::new());
    used.add_memory(memory(4_000_003), false, SmallVec::new(), u64::MAX);
    assert_eq!(threads(used.report()), [4_000_003]);
    let last = Waited::for_stream(places[1].stream);
    assert_eq!(threads(last.report()), [4_000_004]);
}
