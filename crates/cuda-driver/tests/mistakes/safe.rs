//! Mistakes in safe launches: the violations, and pointers to other types.

use cuda_driver::launch::KernelArgs;
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::cases::{Fixture, Texts, fixture, text};

/// Returns a kernel with the parameter `x`, which is the address of the memory that `%x` points to.
fn kernel(fixture: &Fixture, variables: &str, body: &str) -> SafeKernel {
    let ptx = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n{variables}\n\
         .visible .entry k(.param .u64 x) {{\n\
         .reg .u64 %x;\n.reg .u64 %y;\n.reg .u32 %v;\n.reg .u32 %t;\n\
         ld.param.u64 %x, [x];\nmov.u32 %t, %tid.x;\n\
         mul.wide.u32 %y, %t, 4;\n{body}\nret;\n}}"
    );
    let module = SafeModule::load(&fixture.context, &Ptx::new(ptx).unwrap()).unwrap();
    module.kernel("k").unwrap()
}

/// Returns the text of the violation of a launch with one block.
fn violation<A: KernelArgs>(
    fixture: &Fixture,
    kernel: &SafeKernel,
    (threads, shared): (u32, u32),
    args: A,
) -> String {
    let config = LaunchConfig::new(1, threads).with_shared_bytes(shared);
    match fixture.stream.launch_safe(kernel, config, args) {
        Ok(launch) => text(launch.wait()),
        Err(error) => format!("refused: {error}"),
    }
}

pub(crate) fn all() -> Texts {
    let fixture = fixture(Builder::new());
    let mut x = DeviceBuffer::<u32>::zeroed(&fixture.stream, 64).unwrap();
    let dynamic = kernel(
        &fixture,
        ".extern .shared .align 4 .b8 tile[];",
        "mov.u64 %x, tile;\nadd.u64 %x, %x, %y;\nst.shared.u32 [%x], %t;",
    );
    let fixed = kernel(
        &fixture,
        ".shared .align 4 .b8 _ZZ1kPjE4tile[64];",
        "mov.u64 %x, _ZZ1kPjE4tile;\nadd.u64 %x, %x, %y;\nst.shared.u32 [%x], %t;",
    );
    let store = kernel(&fixture, "", "add.u64 %x, %x, %y;\nst.global.u32 [%x], %t;");
    let odd = kernel(&fixture, "", "add.u64 %x, %x, 2;\nst.global.u32 [%x], %t;");
    let mut texts = vec![
        (
            "dynamic shared memory forgotten",
            violation(&fixture, &dynamic, (32, 0), (&mut x,)),
        ),
        (
            "dynamic shared memory too small",
            violation(&fixture, &dynamic, (32, 64), (&mut x,)),
        ),
        (
            "shared array too small",
            violation(&fixture, &fixed, (32, 0), (&mut x,)),
        ),
        (
            "null pointer",
            violation(&fixture, &store, (1, 0), (0_u64,)),
        ),
        (
            "& in a safe launch of a kernel that writes",
            violation(&fixture, &store, (32, 0), (&x,)),
        ),
        (
            "store at an odd address",
            violation(&fixture, &odd, (1, 0), (&mut x,)),
        ),
        (
            "more threads than elements",
            violation(&fixture, &store, (65, 0), (&mut x,)),
        ),
    ];
    let doubles = DeviceBuffer::<f64>::zeroed(&fixture.stream, 64).unwrap();
    let mangled = ".version 8.0\n.target sm_90\n.address_size 64\n\
                   .visible .entry _Z1kPKf(.param .u64 x) { ret; }";
    let module = SafeModule::load(&fixture.context, &Ptx::new(mangled).unwrap()).unwrap();
    let kernel = module.kernel("_Z1kPKf").unwrap();
    texts.push((
        "buffer of f64 for a pointer to float",
        text(
            fixture
                .stream
                .launch_safe(&kernel, LaunchConfig::new(1, 1), (&doubles,)),
        ),
    ));
    texts.push((
        "signature of f64 for a pointer to float",
        text(kernel.clone().typed::<(Reads<f64>,)>()),
    ));
    texts.push((
        "no arguments",
        text(
            fixture
                .stream
                .launch_safe(&kernel, LaunchConfig::new(1, 1), ()),
        ),
    ));
    texts
}
