//! Safe launches of kernels that `SafeModule::from_source` compiled.

use cuda_driver::nvrtc::Source;
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use super::violation;
use crate::nvrtc::{Folder, nvrtc};
use crate::support::{Fixture, everywhere, software};

const SCALE: &str = r#"
extern "C" __global__ void scale(float *x, float a, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= a;
}
"#;

/// Scales three numbers, and then more than there are.
#[track_caller]
fn check(fixture: &Fixture, scale: &SafeKernel) {
    let stream = fixture.stream();
    let mut x = DeviceBuffer::from_host(&stream, &[1.0_f32, 2.0, 3.0]).unwrap();
    let config = LaunchConfig::for_num_elems(3).unwrap();
    let args = (&mut x, 10.0_f32, 3_u32);
    stream.launch_safe(scale, config, args).unwrap();
    let launch = stream.launch_safe(scale, config, (&mut x, 2.0_f32, 4_u32));
    let violation = violation(launch.unwrap().wait());
    assert_eq!((violation.argument, violation.offset), (Some(1), 12));
    let source = violation.source.as_deref().unwrap_or_default();
    assert_eq!(source, "scale.cu:4");
    let contract = scale.contract(config, (&mut x, 2.0_f32, 3_u32)).unwrap();
    let contract = contract.to_string();
    assert!(contract.contains("scale.cu:4; aligned to 4"), "{contract}");
    assert_eq!(x.to_vec().unwrap(), [20.0, 40.0, 60.0], "{}", fixture.name);
}

#[test]
fn a_source_is_compiled_for_safe_launches() {
    if nvrtc().is_none() {
        return;
    }
    let folder = Folder::new();
    for fixture in everywhere() {
        let source = Source::from(SCALE).name("scale.cu").cache(&folder.open());
        let module = SafeModule::from_source(&fixture.context, source).unwrap();
        check(&fixture, &module.kernel("scale").unwrap());
    }
}

#[test]
fn a_safe_module_finds_kernels_by_expression() {
    if nvrtc().is_none() {
        return;
    }
    let folder = Folder::new();
    let template = SCALE.replace("extern \"C\"", "template <typename T>");
    let template = template.replace("float", "T");
    for fixture in everywhere() {
        let source = Source::new(template.as_str()).name("scale.cu");
        let source = source.name_expression("scale<float>").cache(&folder.open());
        let module = SafeModule::from_source(&fixture.context, source).unwrap();
        check(&fixture, &module.kernel("scale<float>").unwrap());
        assert!(module.kernel("scale<double>").is_err());
    }
}

#[test]
fn ptx_of_a_newer_compiler_is_loaded_as_older_ptx() {
    let Some(nvrtc) = nvrtc() else { return };
    if nvrtc.version().number() < 12_010 {
        crate::support::skip("PTX of a newer compiler: NVRTC is that of CUDA 12.0");
        return;
    }
    let folder = Folder::new();
    let fixture = software(Builder::new().version(12_000));
    let source = Source::from(SCALE).name("scale.cu").cache(&folder.open());
    let module = SafeModule::from_source(&fixture.context, source).unwrap();
    check(&fixture, &module.kernel("scale").unwrap());

    // A kernel with an instruction that is not modelled is left out of the text.
    let newer = SCALE.replace("x[i] *= a;", "asm volatile(\"of_the_future.b32;\");");
    let source = Source::from(newer).cache(&folder.open());
    let module = SafeModule::from_source(&fixture.context, source).unwrap();
    for error in [
        module.kernel("scale").unwrap_err(),
        module.module().function("scale").unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(
            text.contains("unknown instruction: of_the_future.b32"),
            "{text}"
        );
    }
}
