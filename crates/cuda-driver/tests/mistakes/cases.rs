//! The mistakes. Each gives its name and the text of its error.

use std::fmt::Display;
use std::fmt::Write as _;

use cuda_driver::event::EventFlags;
use cuda_driver::graph::EagerCapture;
use cuda_driver::jit::JitOptions;
use cuda_driver::memory::{CachingPool, ManagedBuffer};
use cuda_driver::prelude::*;
use cuda_driver::texture::{Array, ArrayFlags, ArrayShape};
use cuda_driver::{Library, Result};
use cuda_sim::{Builder, Schedule, Simulator};

use crate::{clusters, images, safe};

pub(crate) const MIX: &str = include_str!("../it/kernels/mix.ptx");
const COPY: &str = include_str!("../it/kernels/copy.ptx");
/// A kernel as nvcc declares it: `scale(float *x, float factor, double offset, unsigned n)`.
const SCALE: &str = "
    .version 7.0
    .target sm_52
    .address_size 64
    .visible .entry scale(
        .param .u64 scale_param_0,
        .param .f32 scale_param_1,
        .param .f64 scale_param_2,
        .param .u32 scale_param_3
    ) { ret; }";
const VARIABLES: &str = include_str!("../it/kernels/variables.ptx");

pub(crate) type Texts = Vec<(&'static str, String)>;

/// Returns the text of the error.
pub(crate) fn text<T, E: Display>(result: std::result::Result<T, E>) -> String {
    match result {
        Ok(_) => "no error".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// A software device with a stream. The simulator lives as long as the device is used.
pub(crate) struct Fixture {
    pub(crate) driver: Driver,
    pub(crate) context: Context,
    pub(crate) stream: Stream,
    pub(crate) simulator: Simulator,
}

pub(crate) fn fixture(builder: Builder) -> Fixture {
    let simulator = builder.build().unwrap();
    let driver = Driver::new(simulator.library().unwrap()).unwrap();
    let context = driver.device(0).unwrap().primary_context().unwrap();
    let stream = Stream::new(&context, StreamFlags::NON_BLOCKING, 0).unwrap();
    Fixture {
        driver,
        context,
        stream,
        simulator,
    }
}

pub(crate) fn module(context: &Context, ptx: &str) -> Module {
    Module::load(context, &Ptx::new(ptx).unwrap()).unwrap()
}

pub(crate) fn all() -> Texts {
    [
        arguments(),
        configurations(),
        lookups(),
        images::images(),
        memory(),
        contexts(),
        order(),
        kernels(),
        graphs(),
        safe::all(),
        limits(),
        clusters::texts(),
    ]
    .concat()
}

fn arguments() -> Texts {
    let fixture = fixture(Builder::new());
    let stream = &fixture.stream;
    let mix = module(&fixture.context, MIX).function("mix").unwrap();
    let mut x = DeviceBuffer::<u32>::zeroed(stream, 4).unwrap();
    let y = DeviceBuffer::<u32>::zeroed(stream, 4).unwrap();
    let config = LaunchConfig::new(1, 4);
    macro_rules! try_launch {
        ($($arg:expr),*) => {{
            // SAFETY: no launch of this function succeeds: the arguments do not match.
            text(unsafe { stream.launch(&mix, config, ($($arg,)*)) })
        }};
    }
    let scale = module(&fixture.context, SCALE).function("scale").unwrap();
    let mut floats = DeviceBuffer::<f32>::zeroed(stream, 4).unwrap();
    macro_rules! try_scale {
        ($($arg:expr),*) => {{
            // SAFETY: no launch of this function succeeds: the arguments do not match.
            text(unsafe { stream.launch(&scale, config, (&mut floats, $($arg),*)) })
        }};
    }
    let mut list = ArgList::new();
    list.push(64_u64).push(3_i32).push(0.5_f64).push(4_u32);
    // SAFETY: the launch fails: the second argument does not match.
    let in_a_list = text(unsafe { stream.launch(&scale, config, &list) });
    vec![
        ("u32 for f32", try_scale!(3_u32, 0.5_f64, 4_u32)),
        ("f64 for f32", try_scale!(3.0_f64, 0.5_f64, 4_u32)),
        ("f32 for a count", try_scale!(3.0_f32, 0.5_f64, 4.0_f32)),
        ("buffer for f64", try_scale!(3.0_f32, &y, 4_u32)),
        ("i32 for f32 in a list", in_a_list),
        (
            "signature with u32 for f32",
            text(scale.typed::<(Writes<f32>, u32, f64, u32)>()),
        ),
        ("too few arguments", try_launch!(&mut x, &y)),
        ("too many arguments", try_launch!(&mut x, &y, 4_u32, 4_u32)),
        ("u64 for u32", try_launch!(&mut x, &y, 4_u64)),
        ("u8 for u32", try_launch!(&mut x, &y, 4_u8)),
        ("f64 for u32", try_launch!(&mut x, &y, 4.0_f64)),
        ("number for a buffer", try_launch!(&mut x, 4_u32, 4_u32)),
        ("struct for u32", try_launch!(&mut x, &y, [4_u32; 3])),
        (
            "signature of another size",
            text(mix.typed::<(Writes<u32>, Reads<u32>, u64)>()),
        ),
        (
            "signature of another length",
            text(mix.typed::<(Writes<u32>, Reads<u32>)>()),
        ),
    ]
}

fn configurations() -> Texts {
    let fixture = fixture(Builder::new());
    let stream = &fixture.stream;
    let mix = module(&fixture.context, MIX).function("mix").unwrap();
    let mut x = DeviceBuffer::<u32>::zeroed(stream, 4).unwrap();
    let y = DeviceBuffer::<u32>::zeroed(stream, 4).unwrap();
    let mut launch = |config, attributes: &LaunchAttributes<'_>| {
        // SAFETY: no launch of this function succeeds: the device does not allow them.
        text(unsafe { stream.launch_with(&mix, config, attributes, (&mut x, &y, 4_u32)) })
    };
    let none = LaunchAttributes::new();
    let cluster = |blocks: u32| LaunchAttributes::new().cluster(blocks);
    vec![
        ("empty grid", launch(LaunchConfig::new(0, 32), &none)),
        ("empty block", launch(LaunchConfig::new(1, 0), &none)),
        ("block of 2048", launch(LaunchConfig::new(1, 2048), &none)),
        (
            "block of 64 by 32",
            launch(LaunchConfig::new(1, (64, 32)), &none),
        ),
        (
            "high grid",
            launch(LaunchConfig::new((1, 65536), 32), &none),
        ),
        (
            "too much shared memory",
            launch(LaunchConfig::new(1, 1).with_shared_bytes(1 << 30), &none),
        ),
        (
            "too much shared memory in advance",
            text(mix.allow_shared_bytes(1 << 20)),
        ),
        (
            "large cluster",
            launch(LaunchConfig::new(64, 1), &cluster(64)),
        ),
        (
            "part of a cluster",
            launch(LaunchConfig::new(3, 1), &cluster(2)),
        ),
    ]
}

fn lookups() -> Texts {
    let fixture = fixture(Builder::new());
    let (context, stream) = (&fixture.context, &fixture.stream);
    let mix = module(context, MIX);
    let mut many = ".version 7.0\n.target sm_52\n.address_size 64\n".to_owned();
    for at in 0..13 {
        writeln!(many, ".visible .entry kernel{at}() {{ ret; }}").unwrap();
    }
    let mangled = MIX.replace("mix(", "_Z3mixPjPKjj(");
    let in_a_namespace = MIX.replace("mix(", "_ZN4math3mixEPjPKjj(");
    let instance = MIX.replace("mix(", "_Z3mixIjEvPT_PKS0_j(");
    let variables = module(context, VARIABLES);
    let library = Library::load(&fixture.driver, &Ptx::new(MIX).unwrap(), &JitOptions::new());
    vec![
        ("misspelled kernel", text(mix.function("mxi"))),
        (
            "mangled kernel",
            text(module(context, &mangled).function("mix")),
        ),
        (
            "kernel in a namespace",
            text(module(context, &in_a_namespace).function("math::mix")),
        ),
        (
            "instance of a template",
            text(module(context, &instance).function("mix<float>")),
        ),
        (
            "kernel of many",
            text(module(context, &many).function("kernel13")),
        ),
        ("kernel of a library", text(library.unwrap().kernel("mxi"))),
        ("NUL in the name of a kernel", text(mix.function("mi\0x"))),
        (
            "missing variable",
            text(variables.global::<u32>("nothing", stream)),
        ),
        (
            "variable of another size",
            text(variables.global::<[u8; 8]>("counter", stream)),
        ),
    ]
}

fn memory() -> Texts {
    let fixture = fixture(Builder::new().memory(64 << 20).host_memory(1 << 20));
    let stream = &fixture.stream;
    let mut x = DeviceBuffer::<u32>::zeroed(stream, 4).unwrap();
    let y = DeviceBuffer::<u32>::zeroed(stream, 3).unwrap();
    let bytes = DeviceBuffer::<u8>::zeroed(stream, 9).unwrap();
    let pool = CachingPool::with_limit(&fixture.context, 4096);
    vec![
        (
            "out of memory",
            text(DeviceBuffer::<f64>::zeroed(stream, 100 << 20)),
        ),
        (
            "out of managed memory",
            text(ManagedBuffer::<f64>::zeroed(stream, 100 << 20)),
        ),
        (
            "out of memory for an array",
            text(Array::<f32>::zeroed(
                stream,
                &ArrayShape::two_d(8192, 8192),
                ArrayFlags::empty(),
            )),
        ),
        (
            "out of memory in a graph",
            text(Graph::new(&fixture.context).and_then(|mut graph| {
                // SAFETY: elements must be written before they are read ← the node is refused.
                unsafe { graph.add_alloc::<f64>(&[], 100 << 20) }
            })),
        ),
        (
            "out of page-locked memory",
            text(PinnedBuffer::<u8>::zeroed(
                &fixture.context,
                2 << 20,
                PinnedFlags::empty(),
            )),
        ),
        (
            "beyond any address",
            text(DeviceBuffer::<u64>::zeroed(stream, usize::MAX)),
        ),
        (
            "beyond the limit of a pool",
            text(DeviceBuffer::<u8>::zeroed_in(&pool, stream, 8192)),
        ),
        ("host memory too long", text(x.copy_from_host(&[1; 5]))),
        ("host memory too short", text(x.copy_to_host(&mut [0; 3]))),
        (
            "buffers of two lengths",
            text(x.as_mut_slice().copy_from(y.as_slice())),
        ),
        ("view of odd size", text(bytes.as_slice().cast::<u32>())),
        (
            "view of odd address",
            text(bytes.slice(1..5).unwrap().cast::<u32>()),
        ),
        ("slice out of bounds", text(bytes.slice(5..10))),
        ("split out of bounds", text(bytes.as_slice().split_at(10))),
        ("chunks of nothing", text(bytes.chunks(0).map(|_| ()))),
        ("rows of odd length", text(bytes.as_slice().rows(4))),
        ("word out of bounds", text(stream.write_value(&x, 4, 1_u32))),
    ]
}

fn contexts() -> Texts {
    let fixture = fixture(Builder::new().version(13000).devices(2));
    let (context, ours) = (&fixture.context, &fixture.stream);
    let other = fixture.driver.device(1).unwrap().primary_context().unwrap();
    let theirs = Stream::new(&other, StreamFlags::NON_BLOCKING, 0).unwrap();
    let mix = module(context, MIX).function("mix").unwrap();
    let copy = module(context, COPY).function("copy").unwrap();
    let mut x = DeviceBuffer::<u32>::zeroed(ours, 4).unwrap();
    let mut y = DeviceBuffer::<u32>::zeroed(&theirs, 4).unwrap();
    let config = LaunchConfig::new(1, 4);
    let event = Event::new(&other, EventFlags::empty()).unwrap();
    let mut graph = Graph::new(context).unwrap();
    vec![
        ("ordinal 7", text(fixture.driver.device(7))),
        (
            "buffer of another device",
            // SAFETY: the launch fails: `y` belongs to another context.
            text(unsafe { ours.launch(&mix, config, (&mut x, &y, 4_u32)) }),
        ),
        (
            "kernel of another device",
            // SAFETY: the launch fails: the kernel belongs to another context.
            text(unsafe { theirs.launch(&copy, config, (&x, &mut y, 4_u32)) }),
        ),
        (
            "copy from another device",
            text(x.as_mut_slice().copy_from(y.as_slice())),
        ),
        ("event of another device", text(event.record(ours))),
        (
            "graph and memory of another device",
            text(graph.add_fill(&[], &mut y, 1_u32)),
        ),
    ]
}

fn order() -> Texts {
    let fixture = fixture(Builder::new().schedule(Schedule::Late { seed: 1 }));
    let (context, stream) = (&fixture.context, &fixture.stream);
    let event = |flags| Event::new(context, flags).unwrap();
    let (start, end) = (event(EventFlags::empty()), event(EventFlags::empty()));
    let untimed = event(EventFlags::DISABLE_TIMING);
    for event in [&start, &end, &untimed] {
        event.record(stream).unwrap();
    }
    let mut texts = vec![("time of unfinished work", text(end.elapsed_since(&start)))];
    stream.synchronize().unwrap();
    texts.push((
        "time of an event without times",
        text(untimed.elapsed_since(&start)),
    ));
    texts.push((
        "time before the first record",
        text(event(EventFlags::empty()).elapsed_since(&start)),
    ));
    let waiting: Result<Graph> = Graph::capture(context, |_| context.synchronize());
    texts.push(("wait during a capture", text(waiting)));
    let mut x = DeviceBuffer::<u32>::zeroed(stream, 4).unwrap();
    let empty = Graph::capture(context, |_| x.fill(7));
    texts.push(("call on a stream in a capture", text(empty)));
    let other = context.default_stream().unwrap();
    let empty = Graph::capture_eager(&other, |_| x.fill(7));
    texts.push(("eager capture of another stream", text(empty)));
    std::mem::forget(EagerCapture::begin(&other).unwrap());
    texts.push((
        "wait for a stream with a forgotten capture",
        text(other.synchronize()),
    ));
    texts.push((
        "capture of a stream with a forgotten capture",
        text(EagerCapture::begin(&other)),
    ));
    let mix = module(context, MIX).function("mix").unwrap();
    // SAFETY: none: the addresses are invalid, which is the point. The device is software.
    unsafe { stream.launch(&mix, LaunchConfig::new(1, 1), (64_u64, 128_u64, 1_u32)) }.unwrap();
    texts.push(("invalid address", text(stream.synchronize())));
    texts
}

/// Mistakes in kernels. The software device describes them in its reports.
fn kernels() -> Texts {
    let fixture = fixture(Builder::new().check_all(true).instruction_limit(100_000));
    let (context, stream) = (&fixture.context, &fixture.stream);
    let config = LaunchConfig::new(1, 1);
    let with_reports = |mut text: String| {
        for report in fixture.simulator.take_reports() {
            write!(text, "\n{report}").unwrap();
        }
        text
    };
    let kernel = |body: &str| {
        format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 x) {{\n\
             .reg .u64 %x;\n.reg .u32 %v;\n{body}\nret; }}"
        )
    };
    let load = |body: &str| Module::load(context, &Ptx::new(kernel(body)).unwrap());
    let mut x = DeviceBuffer::<u32>::zeroed(stream, 4).unwrap();
    let mut texts = vec![("unknown instruction", text(load("frobnicate.u32 %v, %v;")))];
    let k = load("tcgen05.wait::ld.sync.aligned;")
        .unwrap()
        .function("k")
        .unwrap();
    // SAFETY: the launch fails.
    let launched = text(unsafe { stream.launch(&k, config, (&mut x,)) });
    texts.push((
        "instruction that is not implemented",
        with_reports(launched),
    ));
    let k = load("ld.param.u64 %x, [x];\nst.global.u32 [%x], 1;").unwrap();
    let k = k.function("k").unwrap();
    // SAFETY: none: the kernel writes to `x`, which is the mistake. Nothing else uses `x`.
    let launched = text(unsafe { stream.launch(&k, config, (&x,)) });
    stream.synchronize().unwrap();
    texts.push(("& for memory that is written", with_reports(launched)));
    let k = load("again: bra again;").unwrap().function("k").unwrap();
    // SAFETY: the kernel accesses nothing.
    unsafe { stream.launch(&k, config, (&mut x,)) }.unwrap();
    texts.push(("endless kernel", with_reports(text(stream.synchronize()))));
    texts.extend(skipped_barrier());
    texts
}

/// A barrier that half a block skips, on a software device without further checks.
fn skipped_barrier() -> Texts {
    let fixture = fixture(Builder::new());
    let ptx = ".version 7.0\n.target sm_70\n.address_size 64\n\
               .visible .entry k(.param .u64 x) {\n.reg .pred %p;\n.reg .u32 %t;\n.reg .u64 %x;\n\
               ld.param.u64 %x, [x];\nmov.u32 %t, %tid.x;\nsetp.lt.u32 %p, %t, 32;\n\
               @!%p bra on;\nbar.sync 0;\non:\nst.global.u32 [%x], 1;\nret; }";
    let k = module(&fixture.context, ptx).function("k").unwrap();
    let mut x = DeviceBuffer::<u32>::zeroed(&fixture.stream, 4).unwrap();
    // SAFETY: the kernel writes the first word of `x`.
    unsafe {
        fixture
            .stream
            .launch(&k, LaunchConfig::new(1, 64), (&mut x,))
    }
    .unwrap();
    let mut text = text(fixture.stream.synchronize());
    for report in fixture.simulator.take_reports() {
        write!(text, "\n{report}").unwrap();
    }
    vec![("barrier that half a block skips", text)]
}

fn graphs() -> Texts {
    let fixture = fixture(Builder::new());
    let mut graph = Graph::new(&fixture.context).unwrap();
    let mut other = Graph::new(&fixture.context).unwrap();
    let (first, foreign) = (graph.add_empty(&[]).unwrap(), other.add_empty(&[]).unwrap());
    let second = graph.add_empty(&[first.edge()]).unwrap();
    let removed = graph.add_empty(&[]).unwrap();
    graph.remove(removed).unwrap();
    vec![
        ("removed node", text(graph.add_empty(&[removed.edge()]))),
        ("cycle", text(graph.add_edge(second.edge(), first))),
        (
            "node of another graph",
            text(graph.add_empty(&[foreign.edge()])),
        ),
    ]
}

/// Launches whose number of blocks only the driver can refuse, and contexts that other code resets.
fn limits() -> Texts {
    let first = fixture(Builder::new().version(12_080));
    let stream = &first.stream;
    let mix = module(&first.context, MIX).function("mix").unwrap();
    let mut x = DeviceBuffer::<u32>::zeroed(stream, 4).unwrap();
    let y = DeviceBuffer::<u32>::zeroed(stream, 4).unwrap();
    let mut launch = |config, attributes: &LaunchAttributes<'_>| {
        // SAFETY: no launch of this function succeeds: the device does not allow them.
        text(unsafe { stream.launch_with(&mix, config, attributes, (&mut x, &y, 4_u32)) })
    };
    let cluster = LaunchAttributes::new().cluster(16);
    let cooperative = LaunchAttributes::new().cooperative();
    let mut texts = vec![
        (
            "cluster without the attribute for it",
            launch(LaunchConfig::new(64, 32), &cluster),
        ),
        (
            "cooperative launch of too many blocks",
            launch(LaunchConfig::new(1 << 20, 1024), &cooperative),
        ),
    ];
    texts.push(("graph with a cooperative node of too many blocks", {
        let mut graph = Graph::new(&first.context).unwrap();
        let (config, args) = (LaunchConfig::new(1 << 20, 1024), (&mut x, &y, 4_u32));
        // SAFETY: the graph is not launched.
        text(unsafe { graph.add_kernel_with(&[], &mix, config, &cooperative, args) })
    }));
    let fixture = fixture(Builder::new());
    let buffer = DeviceBuffer::<u32>::zeroed(&fixture.stream, 4).unwrap();
    let device = fixture.context.device().as_raw();
    // SAFETY: other code resets the context, which is the mistake. Its objects are not used by the
    // host.
    let status = unsafe {
        fixture
            .driver
            .library()
            .table()
            .cuDevicePrimaryCtxReset_v2(device)
    };
    assert!(status.is_success());
    texts.push(("reset context", text(fixture.stream.synchronize())));
    texts.push(("call after a reset", text(buffer.to_vec())));
    texts
}
