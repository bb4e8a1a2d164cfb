//! Violations are reported once, by the launch or by the next synchronization of its stream.

use cuda_driver::prelude::*;
use cuda_driver::safe::ViolationKind;
use cuda_sim::Builder;

use super::{HEAD, STORE, kernel, violation, violations};
use crate::support::{assert_all, block, everywhere, filled, software};

#[test]
fn a_violation_is_reported_by_the_launch_once() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let store = kernel(&fixture, STORE, "store");
        let mut x = filled(&stream, 4, 9);
        let config = LaunchConfig::new(1, 1);
        let mut launch = |at: u64| {
            stream
                .launch_safe(&store, config, (&mut x, at, 1_u32))
                .unwrap()
        };
        let (first, second) = (launch(100), launch(200));
        // A launch that is waited for reports the launches before it, too.
        assert_eq!(violation(first.wait()).offset, 100);
        assert_eq!(violation(second.wait()).offset, 200);
        let (third, fourth) = (launch(300), launch(400));
        let both = violations(fourth.wait());
        assert_eq!([both[0].offset, both[1].offset], [300, 400]);
        third.wait().unwrap();
        fourth.wait().unwrap();
        first.wait().unwrap();
        second.wait().unwrap();
        stream.synchronize().unwrap();
    }
}

#[test]
fn violations_are_reported_together_in_the_order_of_the_launches() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let other = fixture.stream();
        let store = kernel(&fixture, STORE, "store");
        let mut x = filled(&stream, 4, 9);
        let config = LaunchConfig::new(1, 1);
        for at in [100_u64, 4, 200] {
            drop(stream.launch_safe(&store, config, (&mut x, at, 1_u32)));
        }
        // Another stream does not report them.
        other.synchronize().unwrap();
        let again = stream.clone();
        let error = again.synchronize().unwrap_err();
        let text = error.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].contains("at offset 100 of argument 1"), "{text}");
        assert!(lines[1].contains("at offset 200 of argument 1"), "{text}");
        let both = violations::<()>(Err(error));
        assert_eq!([both[0].offset, both[1].offset], [100, 200]);
        stream.synchronize().unwrap();
        assert_eq!(x.to_vec().unwrap(), [9, 1, 9, 9]);
    }
}

#[test]
fn launches_without_a_wait_keep_their_reports() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let store = kernel(&fixture, STORE, "store");
    let mut x = filled(&stream, 4, 9);
    let config = LaunchConfig::new(1, 1);
    for number in 0..300_u64 {
        // Each tenth launch has a violation.
        let at = if number % 10 == 7 { 400 + number } else { 0 };
        let part = x.slice_mut(..).unwrap();
        let at = if at == 0 { 16 } else { 4 * at };
        drop(stream.launch_safe(&store, config, (part, at, 1_u32)));
    }
    let offsets: Vec<i128> = violations(stream.synchronize())
        .iter()
        .map(|violation| violation.offset)
        .collect();
    let expected = (0..300).map(|number| match number % 10 {
        7 => 4 * (400 + number),
        _ => 16,
    });
    assert_eq!(offsets, expected.collect::<Vec<_>>());
    stream.synchronize().unwrap();
}

#[test]
fn a_launch_is_not_waited_for_until_its_report_is_asked_for() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let store = kernel(&fixture, STORE, "store");
    let mut x = filled(&stream, 4, 9);
    let config = LaunchConfig::new(1, 1);
    let sender = block(&stream);
    let launch = stream
        .launch_safe(&store, config, (&mut x, 16_u64, 1_u32))
        .unwrap();
    assert!(!stream.is_done().unwrap());
    drop(sender);
    violation(launch.wait());
}

/// Traps in the thread `at`; the other threads count.
pub(super) const TRAP: &str = ".visible .entry trap_at(.param .u64 out, .param .u32 at) {
    .reg .pred %p; .reg .b32 %r<3>; .reg .b64 %d;
    ld.param.u64 %d, [out];
    ld.param.u32 %r1, [at];
    mov.u32 %r2, %tid.x;
    setp.eq.u32 %p, %r1, %r2;
    @%p trap;
    bar.sync 0;
    red.global.add.u32 [%d], 1;
    ret;
}
";

#[test]
fn a_trap_is_a_violation_and_the_context_survives() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let kernel = kernel(&fixture, TRAP, "trap_at");
        let mut out = filled(&stream, 1, 0);
        let config = LaunchConfig::new(1, 96);
        let launch = stream
            .launch_safe(&kernel, config, (&mut out, 40_u32))
            .unwrap();
        let violation = violation(launch.wait());
        assert_eq!(violation.kind, ViolationKind::Trap);
        assert_eq!((violation.ptx_line, violation.thread), (10, [40, 0, 0]));
        assert!(
            violation.to_string().contains("trap_at traps"),
            "{violation}"
        );
        assert_all(&out, 95, &fixture.name);
        let launch = stream.launch_safe(&kernel, config, (&mut out, 200_u32));
        launch.unwrap().wait().unwrap();
        assert_all(&out, 191, &fixture.name);
    }
}

/// Asserts in each thread that its number is below `most`; then the thread counts.
const ASSERT: &str = ".extern .func __assertfail(.param .b64 message, .param .b64 file,
    .param .b32 line, .param .b64 function, .param .b64 size);
.global .align 1 .b8 $str[4] = {97, 98, 99, 0};
.visible .entry count_below(.param .u64 out, .param .u32 most) {
    .reg .pred %p; .reg .b32 %r<3>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [out];
    ld.param.u32 %r1, [most];
    mov.u32 %r2, %tid.x;
    setp.lt.u32 %p, %r2, %r1;
    @%p bra fine;
    mov.u64 %d2, $str;
    cvta.global.u64 %d3, %d2;
    {
    .param .b64 param0; st.param.b64 [param0+0], %d3;
    .param .b64 param1; st.param.b64 [param1+0], %d3;
    .param .b32 param2; st.param.b32 [param2+0], 7;
    .param .b64 param3; st.param.b64 [param3+0], %d3;
    .param .b64 param4; st.param.b64 [param4+0], 1;
    call.uni __assertfail, (param0, param1, param2, param3, param4);
    }
fine:
    red.global.add.u32 [%d1], 1;
    ret;
}
";

#[test]
fn a_failed_assert_is_a_violation_and_the_context_survives() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let kernel = kernel(&fixture, ASSERT, "count_below");
        let mut out = filled(&stream, 1, 0);
        let config = LaunchConfig::new(1, 96);
        let launch = stream.launch_safe(&kernel, config, (&mut out, 40_u32));
        let violation = violation(launch.unwrap().wait());
        assert_eq!(violation.kind, ViolationKind::Trap);
        let mut lines = HEAD.lines().chain(ASSERT.lines());
        let line = lines.position(|line| line.contains("call.uni")).unwrap() + 1;
        assert_eq!(violation.ptx_line as usize, line);
        assert_eq!(violation.threads, 56, "{violation}");
        assert!((40..96).contains(&violation.thread[0]), "{violation}");
        assert_all(&out, 40, &fixture.name);
        // All asserts hold, and the context is alive.
        let launch = stream.launch_safe(&kernel, config, (&mut out, 96_u32));
        launch.unwrap().wait().unwrap();
        assert_all(&out, 136, &fixture.name);
    }
}
