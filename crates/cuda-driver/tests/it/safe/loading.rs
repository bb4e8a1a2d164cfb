//! The options with which safe modules are loaded.

use cuda_driver::Result;
use cuda_driver::device::ComputeCapability;
use cuda_driver::error::Error;
use cuda_driver::jit::{JitCacheMode, JitFallback, JitOptions, JitTarget, OptimizationLevel};
use cuda_driver::prelude::*;
use cuda_driver::safe::SafeModule;

use crate::support::{MIX, filled, software};

fn load(context: &Context, options: &JitOptions) -> Result<SafeModule> {
    SafeModule::load_with(context, &Ptx::new(MIX).unwrap(), options)
}

#[test]
fn options_without_a_judgement_are_refused() {
    let fixture = software(cuda_sim::Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let before = simulator.calls();
    let hopper = ComputeCapability { major: 9, minor: 0 };
    let target = JitOptions::new().target(JitTarget::new(hopper));
    let independent = JitOptions::new().position_independent_code(true);
    let overridden = JitOptions::new()
        .max_registers(64)
        .override_directives(true);
    for (options, name) in [
        (&target, "CU_JIT_TARGET"),
        (&independent, "CU_JIT_POSITION_INDEPENDENT_CODE"),
        (&overridden, "CU_JIT_OVERRIDE_DIRECTIVE_VALUES"),
    ] {
        let error = load(&fixture.context, options).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
        assert!(error.to_string().contains("`JitOptions::"), "{error}");
    }
    assert_eq!(simulator.calls(), before);
}

#[test]
fn other_options_are_accepted() {
    let fixture = software(cuda_sim::Builder::new());
    let stream = fixture.stream();
    let options = JitOptions::new()
        .max_registers(32)
        .debug_info(true)
        .line_info(true)
        .verbose(true)
        .optimization_level(OptimizationLevel::O0)
        .fallback(JitFallback::Ptx)
        .cache_mode(JitCacheMode::L2)
        .position_independent_code(false)
        .override_directives(false);
    let mix = load(&fixture.context, &options)
        .unwrap()
        .kernel("mix")
        .unwrap();
    let (mut x, y) = (filled(&stream, 100, 1), filled(&stream, 100, 5));
    let config = LaunchConfig::for_num_elems(100).unwrap();
    stream
        .launch_safe(&mix, config, (&mut x, &y, 100_u32))
        .unwrap();
    assert_eq!(x.to_vec().unwrap(), [7; 100]);
}
