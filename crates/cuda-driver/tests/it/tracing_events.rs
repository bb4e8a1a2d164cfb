//! Spans and events of the crate `tracing`.

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::sync::Once;

use cuda_driver::Library;
use cuda_driver::jit::JitOptions;
use cuda_driver::memory::{
    CachingPool, GrowableBuffer, ManagedBuffer, MemoryPool, PitchedBuffer, Unpooled,
};
use cuda_driver::prelude::*;
use cuda_sim::Builder;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event as TracingEvent, Metadata, Subscriber};

use crate::support::{COPY, block, filled, launch_copy, software};

thread_local! {
    /// The texts of the events and the spans of this thread, while it collects them.
    static TEXTS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
    /// Whether the subscriber panics at events of this thread.
    static PANICS: Cell<bool> = const { Cell::new(false) };
    /// A stream for which the subscriber waits at the next event of this thread.
    static STREAM: Cell<Option<Stream>> = const { Cell::new(None) };
    /// What it got.
    static WAITED: Cell<Option<cuda_driver::Result<()>>> = const { Cell::new(None) };
}

/// The subscriber of the whole process. With a subscriber of one thread only, `tracing` switches
/// an event off for good if a test on another thread is the first to reach it.
struct Texts;

fn push(text: String) {
    TEXTS.with_borrow_mut(|texts| {
        if let Some(texts) = texts {
            texts.push(text);
        }
    });
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Texts {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "cuda_driver"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(format!("SPAN {}", span.metadata().name()));
        span.record(&mut fields);
        push(fields.0);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &TracingEvent<'_>) {
        assert!(!PANICS.get(), "the subscriber panics");
        if let Some(stream) = STREAM.take() {
            WAITED.set(Some(stream.synchronize()));
        }
        let mut fields = Fields(event.metadata().level().to_string());
        event.record(&mut fields);
        push(fields.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {
        push("END".to_owned());
    }
}

fn set_subscriber() {
    static SET: Once = Once::new();
    SET.call_once(|| tracing::subscriber::set_global_default(Texts).unwrap());
}

/// Returns the events and the spans of this thread while it runs `program`.
fn collect(program: impl FnOnce()) -> Vec<String> {
    set_subscriber();
    TEXTS.set(Some(Vec::new()));
    program();
    TEXTS.take().unwrap()
}

#[track_caller]
fn expect(texts: &[String], expected: &str) {
    let is_found = texts.iter().any(|text| text.starts_with(expected));
    assert!(is_found, "{expected} is not in:\n{}", texts.join("\n"));
}

/// A launch that unwound would not record that the kernel uses the buffer, which would then be
/// freed under it.
#[test]
fn a_subscriber_that_panics_interrupts_no_call() {
    set_subscriber();
    let fixture = software(Builder::new());
    let (a, b) = (fixture.stream(), fixture.stream());
    let copy = fixture.kernel(COPY, "copy");
    let (from, mut to) = (filled(&a, 64, 1), filled(&a, 64, 2));
    a.synchronize().unwrap();
    let release = block(&b);
    PANICS.set(true);
    launch_copy(&copy, &b, &from, &mut to).unwrap();
    drop(to);
    let other = DeviceBuffer::<u32>::zeroed(&a, 64).unwrap();
    PANICS.set(false);
    drop(release);
    b.synchronize().unwrap();
    assert_eq!(other.to_vec().unwrap(), [0; 64]);
}

/// The call could overtake the one in whose middle the subscriber runs.
#[test]
fn a_subscriber_cannot_call_the_driver_during_an_event() {
    set_subscriber();
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let copy = fixture.kernel(COPY, "copy");
    let (from, mut to) = (filled(&stream, 64, 1), filled(&stream, 64, 2));
    STREAM.set(Some(stream.clone()));
    launch_copy(&copy, &stream, &from, &mut to).unwrap();
    let error = WAITED.take().unwrap().unwrap_err().to_string();
    assert!(
        error.contains("was not called: a subscriber of `tracing`"),
        "{error}"
    );
    assert_eq!(to.to_vec().unwrap(), [1; 64]);
}

#[test]
fn tracing_sees_loads_allocations_copies_launches_and_faults() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let texts = collect(|| {
        let copy = fixture.kernel(COPY, "copy");
        let library = Library::load(
            fixture.context.driver(),
            &Ptx::new(COPY).unwrap(),
            &JitOptions::new(),
        );
        drop(library.unwrap());
        let (from, mut to) = (filled(&stream, 64, 1), filled(&stream, 64, 2));
        launch_copy(&copy, &stream, &from, &mut to).unwrap();
        to.fill(3).unwrap();
        DeviceBuffer::<u8>::zeroed(&stream, 1 << 50).unwrap_err();
        drop(from);
        // SAFETY: none: the addresses are invalid, which is the point of this test. It runs on a
        // software device.
        unsafe { stream.launch(&copy, LaunchConfig::new(1, 1), (64_u64, 64_u64, 1_u32)) }.unwrap();
        stream.synchronize().unwrap_err();
    });
    let handle = stream.as_raw().addr();
    for expected in [
        "DEBUG message=allocate bytes=256".to_owned(),
        format!(
            "TRACE message=work kind=\"copy to device\" name=\"copy to device\" bytes=256 stream={handle}"
        ),
        format!("TRACE message=launch kernel=\"copy\" stream={handle} blocks=1 threads=256"),
        "TRACE message=work kind=\"fill\"".to_owned(),
        "DEBUG message=error: cuMemAlloc".to_owned(),
        "DEBUG message=free bytes=256".to_owned(),
        "ERROR message=fault: cuStreamSynchronize".to_owned(),
    ] {
        expect(&texts, &expected);
    }
    let load = format!("SPAN load format=\"PTX\" bytes={}", COPY.len());
    let loads = texts.iter().filter(|text| **text == load);
    assert_eq!(loads.count(), 2, "{texts:?}");
}

/// Each allocation has an event, and its free another one with the same number of bytes.
#[test]
fn tracing_sees_each_kind_of_memory() {
    let fixture = software(Builder::new());
    let (stream, context) = (fixture.stream(), &fixture.context);
    let texts = collect(|| {
        let pool = MemoryPool::new(context.device()).unwrap();
        let cache = CachingPool::new(context);
        let mut growable = GrowableBuffer::<u8>::new(&stream, 1 << 24).unwrap();
        growable.grow_to(1).unwrap();
        growable.grow_to(1 << 24).unwrap();
        growable.shrink_to(1).unwrap();
        let kept = (
            DeviceBuffer::<u8>::zeroed(&stream, 101).unwrap(),
            DeviceBuffer::<u8>::zeroed_in(&Unpooled, &stream, 102).unwrap(),
            DeviceBuffer::<u8>::zeroed_in(&pool, &stream, 103).unwrap(),
            DeviceBuffer::<u8>::zeroed_in(&cache, &stream, 104).unwrap(),
            ManagedBuffer::<u8>::zeroed(&stream, 105).unwrap(),
            PitchedBuffer::<u8>::zeroed(&stream, (106, 2)).unwrap(),
        );
        drop((kept, growable, cache, pool));
    });
    let bytes = |message: &str| -> Vec<usize> {
        let start = format!("DEBUG message={message} bytes=");
        let found = texts.iter().filter_map(|text| text.strip_prefix(&start));
        let numbers = found.map(|text| text.split(' ').next().unwrap().parse().unwrap());
        let mut numbers: Vec<_> = numbers.collect();
        numbers.sort_unstable();
        numbers
    };
    let (allocated, freed) = (bytes("allocate"), bytes("free"));
    assert_eq!(allocated, freed);
    for one in [101, 102, 103, 105] {
        assert!(allocated.contains(&one), "{one} is not in {allocated:?}");
    }
    // The block of the caching pool, the rows, and the two pieces of the growable buffer.
    assert_eq!(allocated.len(), 8, "{allocated:?}");
}

#[cfg(feature = "nvrtc")]
#[test]
fn tracing_distinguishes_cache_hits_from_misses() {
    use cuda_nvrtc::{Cache, Options, Program};

    let Some(nvrtc) = crate::nvrtc::nvrtc() else {
        return;
    };
    let fixture = software(Builder::new());
    let folder = crate::nvrtc::Folder::new();
    let program = Program::new(&nvrtc, "extern \"C\" __global__ void nothing() {}");
    let options = Options::new();
    let compiled = |cache: &Cache| {
        let texts = collect(|| {
            Module::compile_cached(&fixture.context, &program, &options, cache).unwrap();
        });
        assert_eq!(texts[0], "SPAN compile");
        // The load begins after the end of the compilation.
        expect(&texts, "SPAN load format=");
        texts[1].clone()
    };
    let message = "DEBUG message=compile through the cache outcome=";
    assert_eq!(compiled(&folder.open()), format!("{message}Stored"));
    assert_eq!(compiled(&folder.open()), format!("{message}Hit"));
}
