//! Libraries: one loaded image for all contexts.

use cuda_driver::context::{CacheConfig, ContextFlags};
use cuda_driver::error::Status;
use cuda_driver::jit::{FunctionAttribute, Global, JitOptions};
use cuda_driver::prelude::*;
use cuda_driver::{Error, Library};
use cuda_sim::{Builder, Rule};

use crate::support::{MIX, everywhere, everywhere_since, late, new_stream, software};

const VARIABLES: &str = include_str!("kernels/variables.ptx");

fn load(driver: &Driver, ptx: &str) -> Library {
    Library::load(driver, &Ptx::new(ptx).unwrap(), &JitOptions::new()).unwrap()
}

/// Returns `2 * x + y` as computed on the device.
fn mix(stream: &Stream, function: &Function, x: &[u32], y: &[u32]) -> Vec<u32> {
    let mut out = DeviceBuffer::from_host(stream, x).unwrap();
    let y = DeviceBuffer::from_host(stream, y).unwrap();
    let n = x.len() as u32;
    // SAFETY: the kernel touches `n` words of each; each has `n`.
    unsafe {
        stream.launch(
            function,
            LaunchConfig::for_num_elems(n).unwrap(),
            (&mut out, &y, n),
        )
    }
    .unwrap();
    out.to_vec().unwrap()
}

#[test]
fn one_kernel_runs_in_every_context() {
    for fixture in everywhere() {
        let device = fixture.context.device();
        let own = Context::new(device, ContextFlags::empty()).unwrap();
        let library = load(device.driver(), MIX);
        let kernel = library.kernel("mix").unwrap();
        for context in [&fixture.context, &own, &fixture.context] {
            let stream = new_stream(context);
            let function = kernel.function(context).unwrap();
            assert_eq!(function.name(), "mix");
            assert_eq!(function.context(), context);
            let got = mix(&stream, &function, &[1, 2, 3], &[10, 20, 30]);
            assert_eq!(got, [12, 24, 36], "{}", fixture.name);
        }
        // A function keeps its library alive and runs only in its own context.
        let function = kernel.function(&own).unwrap();
        drop((library, kernel));
        let stream = fixture.stream();
        let mut x = DeviceBuffer::<u32>::zeroed(&stream, 1).unwrap();
        let y = DeviceBuffer::<u32>::zeroed(&stream, 1).unwrap();
        let config = LaunchConfig::for_num_elems(1).unwrap();
        // SAFETY: the launch is refused.
        let error = unsafe { stream.launch(&function, config, (&mut x, &y, 1_u32)) }.unwrap_err();
        assert!(matches!(error, Error::OtherContext { .. }), "{error}");
        let stream = new_stream(&own);
        assert_eq!(
            mix(&stream, &function, &[5], &[1]),
            [11],
            "{}",
            fixture.name
        );
        drop((function, stream, x, y, own));
        if let Some(simulator) = &fixture.simulator {
            assert_eq!(simulator.live().libraries, 0);
            assert_eq!(simulator.live().contexts, 1);
        }
    }
}

#[test]
fn kernels_are_enumerated_with_parameters_and_attributes() {
    for fixture in everywhere_since((12, 4)) {
        let device = fixture.context.device();
        let library = load(device.driver(), VARIABLES);
        let kernels = library.kernels().unwrap();
        let mut names: Vec<&str> = kernels.iter().map(|kernel| kernel.name()).collect();
        names.sort_unstable();
        assert_eq!(names, ["bump", "scale"], "{}", fixture.name);
        for kernel in &kernels {
            let parameters = kernel.parameters().unwrap().unwrap();
            let size = if kernel.name() == "bump" { 4 } else { 8 };
            assert_eq!(parameters.len(), 1);
            assert_eq!((parameters[0].offset, parameters[0].size), (0, size));
            // A kernel and its function report the same parameters and attributes.
            let function = kernel.function(&fixture.context).unwrap();
            assert_eq!(function.parameters(), Some(&parameters[..]));
            let most = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
            let most = kernel.attribute(most, device).unwrap();
            assert_eq!(most, function.max_threads_per_block() as i32);
            let carveout = FunctionAttribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
            kernel.set_attribute(carveout, 50, device).unwrap();
            assert_eq!(kernel.attribute(carveout, device).unwrap(), 50);
            assert_eq!(
                function.attribute(carveout).unwrap(),
                50,
                "{}",
                fixture.name
            );
            let error = kernel.set_attribute(carveout, 101, device).unwrap_err();
            assert_eq!(error.status(), Some(Status::CUDA_ERROR_INVALID_VALUE));
            let shared = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let error = kernel.set_attribute(shared, 0, device).unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
            kernel
                .set_cache_config(CacheConfig::SHARED, device)
                .unwrap();
        }
    }
}

#[test]
fn each_context_has_its_own_variables() {
    for fixture in everywhere() {
        let device = fixture.context.device();
        let own = Context::new(device, ContextFlags::empty()).unwrap();
        let library = load(device.driver(), VARIABLES);
        let bump = library.kernel("bump").unwrap();
        let streams = [&fixture.context, &own].map(new_stream);
        for (stream, by) in streams.iter().zip([10_u32, 100]) {
            let bump = bump.function(stream.context()).unwrap();
            let counter: Global<u32> = library.global("counter", stream).unwrap();
            let error = library.global::<u32>("counter", stream).unwrap_err();
            assert!(matches!(error, Error::GlobalInUse { .. }), "{error}");
            // SAFETY: the kernel changes the counter on its owning stream.
            unsafe { stream.launch(&bump, LaunchConfig::new(1, 1), (by,)) }.unwrap();
            assert_eq!(counter.to_vec().unwrap(), [5 + by], "{}", fixture.name);
        }
        // The next owner, on another stream, takes over the recorded uses.
        let [first, _] = &streams;
        let mut counter: Global<u32> = library.global("counter", first).unwrap();
        counter.as_mut_slice().fill(7).unwrap();
        drop(counter);
        let other = fixture.stream();
        let counter: Global<u32> = library.global("counter", &other).unwrap();
        assert_eq!(counter.to_vec().unwrap(), [7], "{}", fixture.name);
        let error = library.global::<u32>("nothing", &other).unwrap_err();
        assert!(matches!(error, Error::NoSuchGlobal { .. }), "{error}");
    }
}

#[test]
fn a_library_waits_for_every_context_that_it_was_used_in() {
    for seed in 0..8 {
        let fixture = software(late(seed));
        let simulator = fixture.simulator.as_ref().unwrap();
        let device = fixture.context.device();
        let own = Context::new(device, ContextFlags::empty()).unwrap();
        let library = load(device.driver(), MIX);
        let mut outputs = Vec::new();
        for context in [&fixture.context, &own] {
            let stream = new_stream(context);
            let mut x = DeviceBuffer::from_host(&stream, &[7_u32]).unwrap();
            let y = DeviceBuffer::from_host(&stream, &[1_u32]).unwrap();
            let mix = library.kernel("mix").unwrap().function(context).unwrap();
            let config = LaunchConfig::for_num_elems(1).unwrap();
            // SAFETY: the kernel touches one word of each.
            unsafe { stream.launch(&mix, config, (&mut x, &y, 1_u32)) }.unwrap();
            outputs.push((x, y));
        }
        let before = simulator
            .calls()
            .get("cuCtxSynchronize")
            .copied()
            .unwrap_or(0);
        drop(library);
        let after = simulator
            .calls()
            .get("cuCtxSynchronize")
            .copied()
            .unwrap_or(0);
        assert_eq!(after - before, 2);
        assert_eq!(simulator.live().libraries, 0);
        for (x, _) in outputs {
            assert_eq!(x.to_vec().unwrap(), [15]);
        }
    }
}

#[test]
fn a_library_whose_kernels_may_still_run_stays_loaded() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let library = load(fixture.context.driver(), MIX);
    library
        .kernel("mix")
        .unwrap()
        .function(&fixture.context)
        .unwrap();
    simulator.add_rule(Rule::new(Status::CUDA_ERROR_UNKNOWN).function("cuCtxSynchronize"));
    drop(library);
    assert_eq!(simulator.calls().get("cuLibraryUnload"), None);
    simulator.clear_rules();
    assert_eq!(simulator.live().libraries, 1);
}

#[test]
fn unknown_names_in_a_library_are_errors() {
    for fixture in everywhere() {
        let driver = fixture.context.driver();
        let library = load(driver, MIX);
        let error = library.kernel("nothing").unwrap_err();
        assert_eq!(
            error,
            Error::NoSuchFunction {
                name: "nothing".to_owned(),
                kernels: Some(vec!["mix".to_owned()]),
            }
        );
        let error = library.kernel("mi\0x").unwrap_err();
        assert!(
            matches!(error, Error::NulByte { position: 2, .. }),
            "{error}"
        );
        // A context of another driver, whose handles are not valid here.
        let elsewhere = software(Builder::new());
        let mix = library.kernel("mix").unwrap();
        let error = mix.function(&elsewhere.context).unwrap_err();
        assert!(matches!(error, Error::OtherContext { .. }), "{error}");
        let most = FunctionAttribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
        let error = mix.attribute(most, elsewhere.context.device()).unwrap_err();
        assert!(matches!(error, Error::OtherContext { .. }), "{error}");
        // A driver may defer compilation to the first use.
        let wrong = Ptx::new("not a PTX text").unwrap();
        let found = Library::load(driver, &wrong, &JitOptions::new())
            .and_then(|library| library.kernel("mix"))
            .and_then(|kernel| kernel.function(&fixture.context));
        assert!(found.is_err(), "{}", fixture.name);
    }
}
