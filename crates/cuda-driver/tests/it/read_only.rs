//! Writes to memory that was passed as read-only, which the software device reports.

use std::sync::Mutex;

use cuda_driver::launch::Using;
use cuda_driver::prelude::*;
use cuda_sim::{Builder, ReportKind};
use cuda_sys::LaunchUse;

use crate::support::{Fixture, software};

/// Writes 1 to `x` and `y`, and adds 1 to `z`.
const KERNEL: &str = ".version 7.0
.target sm_75
.address_size 64
.visible .entry touch(.param .u64 x, .param .u64 y, .param .u64 z)
{
    .reg .u64 %p;
    ld.param.u64 %p, [x];
    st.global.u32 [%p], 1;
    ld.param.u64 %p, [y];
    st.global.u32 [%p], 1;
    ld.param.u64 %p, [z];
    red.global.add.u32 [%p], 1;
    ret;
}";

fn buffers(stream: &Stream) -> [DeviceBuffer<u32>; 3] {
    [0; 3].map(|_| DeviceBuffer::zeroed(stream, 4).unwrap())
}

/// Waits for the stream, and returns the lines and the texts of the reports.
fn reports(fixture: &Fixture, stream: &Stream) -> Vec<(u32, String)> {
    stream.synchronize().unwrap();
    let reports = fixture.simulator.as_ref().unwrap().take_reports();
    let kinds = |kind| matches!(kind, ReportKind::ReadOnlyWrite);
    assert!(
        reports.iter().all(|report| kinds(report.kind)),
        "{reports:?}"
    );
    let pairs = reports.iter();
    pairs
        .map(|report| (report.at.ptx_line, report.to_string()))
        .collect()
}

#[test]
fn a_write_to_a_shared_buffer_is_reported_with_its_argument() {
    let fixture = software(Builder::new().check_read_only(true));
    let (stream, touch) = (fixture.stream(), fixture.kernel(KERNEL, "touch"));
    let config = LaunchConfig::new(1, 1);
    let [mut x, mut y, mut z] = buffers(&stream);
    // SAFETY: none: the kernel writes `y` and `z`, which is the mistake. Nothing else uses them.
    unsafe { stream.launch(&touch, config, (&mut x, &y, &z)) }.unwrap();
    let found = reports(&fixture, &stream);
    let expected = [
        (10, "in argument 2, which was passed as `&`"),
        (12, "in argument 3, "),
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for ((line, text), (expected, part)) in found.iter().zip(expected) {
        assert_eq!(*line, expected, "{text}");
        assert!(
            text.contains("kernel `touch`") && text.contains(part),
            "{text}"
        );
    }
    let mut list = ArgList::new();
    list.push(&mut x).push(&mut y).push(&z);
    // SAFETY: as above, for `z`.
    unsafe { stream.launch(&touch, config, &list) }.unwrap();
    drop(list);
    let found = reports(&fixture, &stream);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].1.contains("in argument 3, "), "{found:?}");
    // SAFETY: the kernel writes the buffers.
    unsafe { stream.launch(&touch, config, (&mut x, &mut y, &mut z)) }.unwrap();
    assert_eq!(reports(&fixture, &stream), []);
    assert_eq!(z.to_vec().unwrap(), [3, 0, 0, 0]);
}

#[test]
fn memory_behind_an_address_is_checked_by_its_name() {
    let fixture = software(Builder::new().check_read_only(true));
    let (stream, touch) = (fixture.stream(), fixture.kernel(KERNEL, "touch"));
    let config = LaunchConfig::new(1, 1);
    let [mut x, y, mut z] = buffers(&stream);
    let addresses = (x.as_raw(), y.as_raw(), z.as_raw());
    let args = Using::new(addresses, (&mut x, &y, &mut z));
    // SAFETY: none for `y`, which the kernel writes.
    unsafe { stream.launch(&touch, config, args) }.unwrap();
    let found = reports(&fixture, &stream);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].1.contains("that the launch names as `&`"),
        "{found:?}"
    );
    // Memory that is not named is not checked.
    // SAFETY: the kernel writes three words, which nothing else uses.
    unsafe { stream.launch(&touch, config, addresses) }.unwrap();
    assert_eq!(reports(&fixture, &stream), []);
}

#[test]
fn the_check_is_off_by_default() {
    let fixture = software(Builder::new());
    let (stream, touch) = (fixture.stream(), fixture.kernel(KERNEL, "touch"));
    let [mut x, y, z] = buffers(&stream);
    assert!(fixture.context.driver().library().launch_uses().is_none());
    // SAFETY: none: the kernel writes `y` and `z`, which nothing else uses.
    unsafe { stream.launch(&touch, LaunchConfig::new(1, 1), (&mut x, &y, &z)) }.unwrap();
    assert_eq!(reports(&fixture, &stream), []);
    assert_eq!(z.to_vec().unwrap(), [1, 0, 0, 0]);
}

#[test]
fn a_driver_can_ask_for_the_memory_of_each_launch() {
    static RECEIVED: Mutex<Vec<LaunchUse>> = Mutex::new(Vec::new());
    let simulator = crate::support::built(&Builder::new());
    let library = simulator.library().unwrap();
    let library = library.with_launch_uses(|uses| RECEIVED.lock().unwrap().extend(uses));
    let driver = Driver::new(library).unwrap();
    let context = driver.device(0).unwrap().primary_context().unwrap();
    let stream = Stream::new(&context, StreamFlags::NON_BLOCKING, 0).unwrap();
    let module = Module::load(&context, &Ptx::new(KERNEL).unwrap()).unwrap();
    let touch = module.function("touch").unwrap();
    let [mut x, mut y, mut z] = buffers(&stream);
    let addresses = [x.as_raw(), y.as_raw(), z.as_raw()];
    let args = (&mut x, y.as_raw(), &mut z);
    let args = Using::new(args, (&mut y,));
    // SAFETY: the kernel writes the buffers.
    unsafe { stream.launch(&touch, LaunchConfig::new(1, 1), args) }.unwrap();
    stream.synchronize().unwrap();
    let written = |argument, index: usize| LaunchUse {
        argument,
        address: addresses[index],
        bytes: 16,
        is_written: true,
    };
    let expected = [written(1, 0), written(3, 2), written(0, 1)];
    assert_eq!(*RECEIVED.lock().unwrap(), expected);
}
