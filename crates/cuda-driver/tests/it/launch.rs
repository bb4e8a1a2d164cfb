//! Launches: invalid and valid arguments and configurations.

use cuda_driver::error::{ArgumentError, Error};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::{COPY, COPY_LIST, MIX, everywhere, software};

/// Computes `x[i] = 2 * x[i] + y[i]` on the host.
fn mixed(x: &[u32], y: &[u32]) -> Vec<u32> {
    x.iter()
        .zip(y)
        .map(|(x, y)| x.wrapping_mul(2).wrapping_add(*y))
        .collect()
}

#[test]
fn a_launch_computes_what_the_host_computes() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mix = fixture.kernel(MIX, "mix");
        for n in [1_u32, 31, 256, 257, 10_000] {
            let x: Vec<u32> = (0..n).map(|i| i.wrapping_mul(2_654_435_761)).collect();
            let y: Vec<u32> = (0..n).map(|i| i ^ 0xdead_beef).collect();
            let mut x_device = DeviceBuffer::from_host(&stream, &x).unwrap();
            let y_device = DeviceBuffer::from_host(&stream, &y).unwrap();
            let config = LaunchConfig::for_num_elems(n).unwrap();
            // SAFETY: the kernel reads n words of `y` and reads and writes n words of `x`; each has
            // n.
            unsafe { stream.launch(&mix, config, (&mut x_device, &y_device, n)) }.unwrap();
            assert_eq!(
                x_device.to_vec().unwrap(),
                mixed(&x, &y),
                "{}: n = {n}",
                fixture.name
            );
        }
    }
}

#[test]
fn views_are_arguments_too() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mix = fixture.kernel(MIX, "mix");
        let x: Vec<u32> = (0..1000).collect();
        let y: Vec<u32> = (0..1000).map(|i| 3 * i).collect();
        let mut x_device = DeviceBuffer::from_host(&stream, &x).unwrap();
        let y_device = DeviceBuffer::from_host(&stream, &y).unwrap();
        let to = x_device.slice_mut(100..300).unwrap();
        let from = y_device.slice(700..900).unwrap();
        // SAFETY: the kernel touches 200 words of each view; each has 200.
        unsafe {
            stream.launch(
                &mix,
                LaunchConfig::for_num_elems(200).unwrap(),
                (to, from, 200_u32),
            )
        }
        .unwrap();
        let mut want = x.clone();
        want[100..300].copy_from_slice(&mixed(&x[100..300], &y[700..900]));
        assert_eq!(x_device.to_vec().unwrap(), want, "{}", fixture.name);
    }
}

#[test]
fn wrong_arguments_are_refused_before_the_launch() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let copy = fixture.kernel(COPY, "copy");
        let input = DeviceBuffer::<u32>::zeroed(&stream, 4).unwrap();
        let mut output = DeviceBuffer::<u32>::zeroed(&stream, 4).unwrap();
        let config = LaunchConfig::for_num_elems(4).unwrap();
        stream.synchronize().unwrap();
        if let Some(simulator) = &fixture.simulator {
            simulator.reset_calls();
        }
        // SAFETY: none of these kernels runs: their arguments do not match.
        let few = unsafe { stream.launch(&copy, config, (&input, &mut output)) }.unwrap_err();
        // SAFETY: as above.
        let many = unsafe { stream.launch(&copy, config, (&input, &mut output, 4_u32, 4_u32)) }
            .unwrap_err();
        // SAFETY: as above.
        let size =
            unsafe { stream.launch(&copy, config, (&input, &mut output, 4_u64)) }.unwrap_err();
        // SAFETY: as above.
        let none = unsafe { stream.launch(&copy, config, ()) }.unwrap_err();
        let kernel = || "copy".to_owned();
        let count = |given| ArgumentError::Count {
            kernel: kernel(),
            expected: 3,
            parameters: COPY_LIST.to_owned(),
            given,
        };
        assert_eq!(few, Error::Argument(Box::new(count(2))));
        assert_eq!(many, Error::Argument(Box::new(count(4))));
        assert_eq!(none, Error::Argument(Box::new(count(0))));
        let wide = ArgumentError::Mismatch {
            kernel: kernel(),
            index: 2,
            parameter: copy.parameters().unwrap()[2].clone(),
            given: 8,
            given_type: Some("u64"),
        };
        assert_eq!(size, Error::Argument(Box::new(wide)));
        if let Some(simulator) = &fixture.simulator {
            assert_eq!(
                simulator.calls().values().sum::<u64>(),
                0,
                "{:?}",
                simulator.calls()
            );
        }
        // SAFETY: the kernel reads 4 words of the one and writes 4 of the other.
        unsafe { stream.launch(&copy, config, (&input, &mut output, 4_u32)) }.unwrap();
        assert_eq!(output.to_vec().unwrap(), [0; 4]);
    }
}

#[test]
fn configurations_beyond_a_limit_are_errors_that_name_it() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let copy = fixture.kernel(COPY, "copy");
        let input = DeviceBuffer::<u32>::zeroed(&stream, 1).unwrap();
        let mut output = DeviceBuffer::<u32>::zeroed(&stream, 1).unwrap();
        let most = copy.max_threads_per_block();
        let cases = [
            (LaunchConfig::new(0, 32), "grid.x", 0),
            (LaunchConfig::new((1, 0), 32), "grid.y", 0),
            (LaunchConfig::new(1, 0), "block.x", 0),
            (LaunchConfig::new(1, 2048), "block.x", 2048),
            (
                LaunchConfig::new(1, (64, 32)),
                "the number of threads per block",
                2048,
            ),
            (LaunchConfig::new((1, 65536), 32), "grid.y", 65536),
            (LaunchConfig::new(1, (1, 1, 65)), "block.z", 65),
            (
                LaunchConfig::new(1, 1).with_shared_bytes(1 << 30),
                "dynamic shared memory in bytes",
                1 << 30,
            ),
        ];
        for (config, what, given) in cases {
            // SAFETY: the kernel touches one word of each, and no launch here succeeds.
            let error =
                unsafe { stream.launch(&copy, config, (&input, &mut output, 1_u32)) }.unwrap_err();
            let Error::LaunchConfig(error) = error else {
                panic!("{error}")
            };
            assert_eq!(
                (error.what(), error.given()),
                (what, given),
                "{}: {error}",
                fixture.name
            );
            assert!(error.to_string().contains("copy"), "{error}");
        }
        // SAFETY: the kernel touches one word of each.
        unsafe {
            stream.launch(
                &copy,
                LaunchConfig::new(1, most),
                (&input, &mut output, 1_u32),
            )
        }
        .unwrap();
        stream.synchronize().unwrap();
    }
}

#[test]
fn objects_of_another_context_are_errors() {
    let fixture = software(Builder::new().devices(2));
    let other = fixture
        .context
        .driver()
        .device(1)
        .unwrap()
        .primary_context()
        .unwrap();
    let theirs = other.default_stream().unwrap();
    let ours = fixture.stream();
    let copy = fixture.kernel(COPY, "copy");
    let config = LaunchConfig::for_num_elems(1).unwrap();
    let input = DeviceBuffer::<u32>::zeroed(&ours, 1).unwrap();
    let mut output = DeviceBuffer::<u32>::zeroed(&theirs, 1).unwrap();
    let is_other = |result: cuda_driver::Result<()>, what: &str| match result.unwrap_err() {
        Error::OtherContext { what: found, .. } => assert_eq!(found, what),
        error => panic!("{error}"),
    };
    // SAFETY: the kernel touches one word of each, and no launch here succeeds.
    is_other(
        unsafe { ours.launch(&copy, config, (&input, &mut output, 1_u32)) },
        "a buffer",
    );
    // SAFETY: as above.
    is_other(
        unsafe { theirs.launch(&copy, config, (&input, &mut output, 1_u32)) },
        "the kernel",
    );
    is_other(
        output.as_mut_slice().copy_from(input.as_slice()),
        "a buffer",
    );
    let event = Event::new(&other, EventFlags::empty()).unwrap();
    is_other(event.record(&ours), "the event");
}

#[test]
fn old_drivers_take_the_parameters_from_the_ptx() {
    let fixture = software(Builder::new().version(12020));
    let stream = fixture.stream();
    let mix = fixture.kernel(MIX, "mix");
    let layout: Vec<_> = mix
        .parameters()
        .unwrap()
        .iter()
        .map(|p| (p.offset, p.size))
        .collect();
    assert_eq!(layout, [(0, 8), (8, 8), (16, 4)]);
    let mut x = DeviceBuffer::from_host(&stream, &[5_u32, 6]).unwrap();
    let y = DeviceBuffer::from_host(&stream, &[100_u32, 200]).unwrap();
    // SAFETY: the kernel touches two words of each; each has two. The second launch has too few
    // arguments and is refused.
    unsafe {
        stream.launch(
            &mix,
            LaunchConfig::for_num_elems(2).unwrap(),
            (&mut x, &y, 2_u32),
        )
    }
    .unwrap();
    // SAFETY: as above.
    let few = unsafe { stream.launch(&mix, LaunchConfig::for_num_elems(2).unwrap(), (&mut x, &y)) };
    assert!(matches!(few, Err(Error::Argument(_))), "{few:?}");
    assert_eq!(x.to_vec().unwrap(), [110, 212]);
}

#[test]
fn the_driver_and_the_ptx_agree_on_parameters() {
    let ptx = "
        .version 7.0
        .target sm_52
        .address_size 64
        .visible .entry k(.param .u8 a, .param .u16 b, .param .u64 .ptr .global .align 4 c, .param .f32 d,
            .param .align 16 .b8 e[48], .param .f64 f, .param .align 1 .b8 g[3], .param .u32 h) { ret; }";
    for fixture in everywhere() {
        let signatures = Ptx::new(ptx).unwrap().signatures().unwrap();
        assert_eq!(
            fixture.kernel(ptx, "k").parameters(),
            Some(signatures[0].parameters.as_slice()),
            "{}",
            fixture.name
        );
    }
}

/// Arguments are passed to the driver as one packed block if their layout matches the kernel's
/// parameters, and otherwise as an array of pointers. Here the kernel may or may not align the four
/// floats to 16 bytes.
#[test]
fn values_arrive_wherever_the_kernel_has_its_parameters() {
    let ptx = |align: u32| {
        format!(
            "
            .version 7.0
            .target sm_52
            .address_size 64
            .visible .entry k(.param .u8 a, .param .u64 out, .param .u16 c, .param .align {align} .b8 d[16], .param .f64 e)
            {{
                .reg .u64 %p;
                .reg .u32 %a, %c;
                .reg .u32 %d<4>;
                .reg .u64 %e;
                ld.param.u64 %p, [out];
                cvta.to.global.u64 %p, %p;
                ld.param.u8 %a, [a];
                ld.param.u16 %c, [c];
                ld.param.u32 %d0, [d];
                ld.param.u32 %d1, [d+4];
                ld.param.u32 %d2, [d+8];
                ld.param.u32 %d3, [d+12];
                ld.param.u64 %e, [e];
                st.global.u32 [%p], %a;
                st.global.u32 [%p+4], %c;
                st.global.u32 [%p+8], %d0;
                st.global.u32 [%p+12], %d1;
                st.global.u32 [%p+16], %d2;
                st.global.u32 [%p+20], %d3;
                st.global.u64 [%p+24], %e;
                ret;
            }}"
        )
    };
    for fixture in everywhere() {
        let stream = fixture.stream();
        for align in [4, 8, 16] {
            let kernel = fixture.kernel(&ptx(align), "k");
            let mut out = DeviceBuffer::<u32>::zeroed(&stream, 8).unwrap();
            let floats = [1.5_f32, -2.5, 3.25, f32::MAX];
            let args = (200_u8, &mut out, 60_000_u16, floats, 0.1_f64);
            // SAFETY: the kernel writes 32 bytes.
            unsafe { stream.launch(&kernel, LaunchConfig::new(1, 1), args) }.unwrap();
            let [a, b, c, d] = floats.map(f32::to_bits);
            let e = 0.1_f64.to_bits();
            let expected = [200, 60_000, a, b, c, d, e as u32, (e >> 32) as u32];
            assert_eq!(out.to_vec().unwrap(), expected, "{}, {align}", fixture.name);
        }
    }
}

#[test]
fn looking_up_a_kernel_makes_no_call_that_fails() {
    for version in [12020, 12040, 13000, 13050] {
        let fixture = software(Builder::new().version(version).trace(true));
        fixture.kernel(MIX, "mix");
        let trace = fixture.simulator.as_ref().unwrap().take_trace();
        let failed: Vec<_> = trace
            .iter()
            .filter(|entry| !entry.result.is_success())
            .collect();
        assert!(failed.is_empty(), "CUDA {version}: {failed:?}");
        assert!(trace.len() > 3);
    }
}
