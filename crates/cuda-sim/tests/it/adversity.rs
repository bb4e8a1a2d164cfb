//! Injected failures, counts, traces, and the choice of a device.

use std::ptr;

use cuda_sim::{BuildError, Builder, CUresult as R, Rule};
use cuda_sys::DriverLibrary;

use crate::support::{OK, bare, ok, test_device};

fn alloc(driver: &DriverLibrary) -> R {
    let mut addr = 0;
    unsafe { driver.cuMemAlloc_v2(&raw mut addr, 16) }
}

#[test]
fn the_nth_call_fails() {
    let rule = Rule::new(R::CUDA_ERROR_OUT_OF_MEMORY)
        .function("cuMemAlloc")
        .nth(3);
    let sim = test_device(Builder::new().rule(rule));
    let statuses: Vec<bool> = (0..5).map(|_| alloc(&sim).is_success()).collect();
    assert_eq!(statuses, [true, true, false, true, true]);
    assert_eq!(sim.simulator.live().allocations, 4);
    assert_eq!(sim.simulator.calls()["cuMemAlloc_v2"], 5);
}

#[test]
fn rules_can_be_added_and_removed() {
    let sim = test_device(Builder::new());
    sim.simulator.add_rule(
        Rule::new(R::CUDA_ERROR_UNKNOWN)
            .function("cuMemAlloc_v2")
            .every(2),
    );
    let statuses: Vec<R> = (0..4).map(|_| alloc(&sim)).collect();
    let unknown = R::CUDA_ERROR_UNKNOWN;
    assert_eq!(statuses, [OK, unknown, OK, unknown]);
    sim.simulator.add_rule(Rule::new(R::CUDA_ERROR_NOT_READY));
    assert_eq!(sim.sync(), R::CUDA_ERROR_NOT_READY);
    sim.simulator.clear_rules();
    ok(sim.sync());
}

#[test]
fn random_failures_repeat() {
    let run = |seed| {
        let rule = Rule::new(R::CUDA_ERROR_UNKNOWN)
            .function("cuMemAlloc")
            .random(0.3, seed);
        let sim = test_device(Builder::new().rule(rule));
        (0..200)
            .map(|_| alloc(&sim).is_success())
            .collect::<Vec<_>>()
    };
    let one = run(1);
    assert_eq!(one, run(1));
    assert_ne!(one, run(2));
    let failed = one.iter().filter(|&&success| !success).count();
    assert!((30..90).contains(&failed), "{failed} of 200");
}

#[test]
fn calls_are_counted_and_traced() {
    let (simulator, driver) = bare(Builder::new().trace(true));
    assert!(simulator.calls().is_empty(), "loading must not be counted");
    let mut count = 0;
    unsafe {
        ok(driver.cuInit(0));
        ok(driver.cuDeviceGetCount(&raw mut count));
        let bad = driver.cuDeviceGetCount(ptr::null_mut());
        assert_eq!(bad, R::CUDA_ERROR_INVALID_VALUE);
    }
    assert_eq!(
        simulator.calls().into_iter().collect::<Vec<_>>(),
        [("cuDeviceGetCount", 2), ("cuInit", 1)]
    );
    let trace: Vec<String> = simulator
        .take_trace()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        trace,
        [
            "cuInit = CUDA_SUCCESS",
            "cuDeviceGetCount = CUDA_SUCCESS",
            "cuDeviceGetCount = CUDA_ERROR_INVALID_VALUE",
        ]
    );
    assert!(simulator.take_trace().is_empty());
    simulator.reset_calls();
    assert!(simulator.calls().is_empty());
}

#[test]
fn a_device_can_be_lost_on_demand() {
    let sim = test_device(Builder::new().devices(2));
    sim.simulator
        .lose_device(0, R::CUDA_ERROR_ECC_UNCORRECTABLE);
    assert_eq!(alloc(&sim), R::CUDA_ERROR_ECC_UNCORRECTABLE);
    assert_eq!(sim.sync(), R::CUDA_ERROR_ECC_UNCORRECTABLE);
    assert!(sim.simulator.fault(1).is_none());
}

#[test]
fn settings_without_sense_are_refused() {
    for builder in [
        Builder::new().version(11080),
        Builder::new().version(99000),
        Builder::new().compute_capability(5, 0),
        Builder::new().devices(65),
        Builder::new().memory(0),
    ] {
        let error = builder.build().unwrap_err();
        assert!(matches!(error, BuildError::BadSetting(_)), "{error}");
    }
    for text in [
        "devices",
        "devices=x",
        "colour=red",
        "schedule=late",
        "version=12",
        "cc=9",
    ] {
        assert!(text.parse::<Builder>().is_err(), "{text}");
    }
    "1".parse::<Builder>().unwrap().build().unwrap();
    "version=12.4, devices=2,cc=8.9,memory=64M,schedule=late:3,strict=1"
        .parse::<Builder>()
        .unwrap()
        .build()
        .unwrap();
}

#[test]
fn printing_can_be_captured() {
    let ptx = r#"
.version 8.0
.target sm_75
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 1 .b8 text[4] = {72, 105, 10, 0};
.visible .entry hello() {
    .reg .b64 %rd<4>;
    .reg .b32 %r<2>;
    mov.u64 %rd1, text;
    cvta.global.u64 %rd2, %rd1;
    mov.u64 %rd3, 0;
    {
    .param .b64 p0;
    st.param.b64 [p0], %rd2;
    .param .b64 p1;
    st.param.b64 [p1], %rd3;
    .param .b32 r0;
    call.uni (r0), vprintf, (p0, p1);
    ld.param.b32 %r1, [r0];
    }
    ret;
}
"#;
    let sim = test_device(Builder::new().capture_output(true));
    let hello = sim.function(sim.load(ptx), "hello");
    ok(sim.launch(hello, [1, 3], ptr::null_mut(), &mut []));
    ok(sim.sync());
    assert_eq!(sim.simulator.take_output(), b"Hi\nHi\nHi\n");
    assert_eq!(sim.simulator.take_output(), b"");
}
