//! Matrices of `wmma.load` and `wmma.store` on the software device: a safe launch is proven exactly
//! if a plain launch accesses nothing outside of its memory.
//!
//! `CUDA_FULL=1` runs the full number of programs.

#[path = "../../../../cuda-ptx/tests/it/tiles/forms.rs"]
mod forms;

use std::env;

use cuda_driver::memory::Unpooled;
use cuda_driver::prelude::*;
use cuda_driver::safe::Unproven;
use cuda_driver::{Error, Result};
use cuda_sim::{Builder, Report};
use fastrand::Rng;

use super::mutants::is_foreign;
use crate::support::{Fixture, software};
use forms::{align, bits, elements, forms, instruction, layouts, size};

/// The number of programs, and that with `CUDA_FULL=1`.
const PROGRAMS: u64 = 600;
const FULL_PROGRAMS: u64 = 30_000;

/// A kernel with one matrix, and the sizes of its memory.
#[derive(Debug)]
struct Program {
    text: String,
    /// The offset of the matrix in its memory, and the distance between its lines in elements.
    at: u64,
    stride: u64,
    /// The bytes of the buffer or of the shared memory.
    bytes: u64,
    is_shared: bool,
}

fn program(rng: &mut Rng) -> Program {
    let all = forms();
    let form = all[rng.usize(..all.len())];
    let all = layouts(form);
    let layout = all[rng.usize(..all.len())];
    let space = [".global", "", ".shared"][rng.usize(..3)];
    let align = align(form, layout);
    let unit = align * 8 / bits(form.1);
    let packed = elements(form, layout).next_multiple_of(unit);
    let stride = packed + unit * [0, 1, rng.u64(..4), rng.u64(..60)][rng.usize(..4)];
    // The operand can be left out if lines without gaps are aligned.
    let (stride, operand) = match packed == elements(form, layout) && rng.u32(..5) == 0 {
        true => (packed, ""),
        false => (stride, ", %s"),
    };
    let at = align * rng.u64(..6);
    // Sizes near the last byte, one line less or more, and any other.
    let lines = size(form).into_iter().product::<u64>() / elements(form, layout);
    let line = elements(form, layout) * bits(form.1) / 8;
    let need = at + (lines - 1) * stride * bits(form.1) / 8 + line;
    let bytes = match rng.u32(..6) {
        0 => need,
        1 => need - 1,
        2 => need.saturating_sub(rng.u64(..2 * line)).max(1),
        3 => need + rng.u64(..2 * line),
        4 => need.saturating_sub(stride * bits(form.1) / 8).max(1),
        _ => rng.u64(1..2 * need),
    };
    // Dynamic shared memory has any size, up to 48 KiB.
    let (address, bytes) = match space {
        ".shared" => ("[%q]", bytes.min(48 << 10)),
        _ => ("[%p]", bytes),
    };
    let code = instruction(form, layout, space, address, operand);
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n\
         .extern .shared .align 64 .b8 tile[];\n\
         .visible .entry k(.param .u64 x, .param .u32 at, .param .u32 stride) {{\n\
         .reg .b32 %v<9>, %s, %at, %q; .reg .f64 %f<9>; .reg .b64 %d<9>, %p;\n\
         ld.param.u64 %d0, [x]; ld.param.u32 %at, [at]; ld.param.u32 %s, [stride];\n\
         cvt.u64.u32 %d1, %at; add.s64 %p, %d0, %d1;\n\
         mov.u32 %q, tile; add.u32 %q, %q, %at;\n{code}\nret; }}"
    );
    Program {
        text,
        at,
        stride,
        bytes,
        is_shared: space == ".shared",
    }
}

/// The result of a launch, and what the software device found.
fn run(fixture: &Fixture, program: &Program, is_safe: bool) -> (Result<()>, Vec<Report>) {
    let stream = fixture.stream();
    let bytes = program.bytes as usize;
    let mut x = DeviceBuffer::<u8>::zeroed_in(&Unpooled, &stream, bytes).unwrap();
    stream.synchronize().unwrap();
    let launched = launch(fixture, &stream, program, &mut x, is_safe);
    let simulator = fixture.simulator.as_ref().expect("a software device");
    (launched, simulator.take_reports())
}

fn launch(
    fixture: &Fixture,
    stream: &Stream,
    program: &Program,
    x: &mut DeviceBuffer<u8>,
    is_safe: bool,
) -> Result<()> {
    let module = SafeModule::load(&fixture.context, &Ptx::new(program.text.as_str())?)?;
    let shared = if program.is_shared { program.bytes } else { 0 };
    let config = LaunchConfig::new(1, 32).with_shared_bytes(shared);
    let args = (x, program.at as u32, program.stride as u32);
    if is_safe {
        let launch = stream.launch_safe(&module.kernel("k")?, config, args)?;
        assert!(!launch.is_checked(), "a matrix cannot be checked");
        return stream.synchronize();
    }
    let function = module.module().function("k")?;
    // SAFETY: none: the matrix may be outside of the buffer. The software device stops it.
    unsafe { stream.launch(&function, config, args) }?;
    stream.synchronize()
}

#[test]
fn matrices_are_proven_exactly_if_they_are_inside() {
    let is_full = env::var("CUDA_FULL").is_ok_and(|value| value == "1");
    let programs = if is_full { FULL_PROGRAMS } else { PROGRAMS };
    let safe = software(Builder::new().check_read_only(true));
    let mut plain: Option<Fixture> = None;
    let (mut inside, mut outside) = (0, 0);
    for seed in 0..programs {
        let program = program(&mut Rng::with_seed(seed));
        let what = || format!("seed {seed}: {program:#?}");
        // A device is lost after an access outside of the memory.
        let device = plain.take();
        let device = device.unwrap_or_else(|| software(Builder::new().check_read_only(true)));
        let (launched, reports) = run(&device, &program, false);
        let is_inside = !reports.iter().any(is_foreign);
        assert_eq!(launched.is_ok(), is_inside, "{reports:?} {}", what());
        plain = is_inside.then_some(device);
        let (launched, reports) = run(&safe, &program, true);
        assert!(!reports.iter().any(is_foreign), "{reports:?} {}", what());
        assert_eq!(launched.is_ok(), is_inside, "{launched:?} {}", what());
        match launched {
            Ok(()) => inside += 1,
            Err(Error::SafeLaunch(_)) => outside += 1,
            Err(error) => panic!("{error}: {}", what()),
        }
    }
    println!("{inside} proven, {outside} refused");
    assert!(inside * 5 > programs && outside * 5 > programs);
}

#[test]
fn the_refusal_of_a_matrix_has_its_reason() {
    let fixture = software(Builder::new());
    let load = "wmma.load.a.sync.aligned.row.m16n16k16.f16";
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n\
         .visible .entry k(.param .u64 x, .param .u32 stride) {{\n\
         .reg .b32 %v<9>, %s; .reg .b64 %p;\n\
         ld.param.u64 %p, [x]; ld.param.u32 %s, [stride];\n\
         {load} {{%v0, %v1, %v2, %v3, %v4, %v5, %v6, %v7}}, [%p], %s;\nret; }}"
    );
    let module = SafeModule::load(&fixture.context, &Ptx::new(text).unwrap()).unwrap();
    let stream = fixture.stream();
    let x = DeviceBuffer::<u16>::zeroed(&stream, 256).unwrap();
    let config = LaunchConfig::new(1, 32);
    let message = |unproven, stride: u32| {
        let kernel = module.kernel("k").unwrap().with_unproven(unproven);
        let launch = stream.launch_safe(&kernel, config, (&x, stride));
        launch.err().map(|error| error.to_string())
    };
    assert_eq!(message(Unproven::Check, 16), None);
    for (stride, reason) in [
        (32, "it needs 992 bytes"),
        (
            24,
            "the stride is not known to be a multiple of 16 elements from 16 to 2³¹ - 1",
        ),
    ] {
        let message = message(Unproven::Check, stride).expect("it is refused");
        let expected =
            format!("PTX line 7: {load} cannot be checked, and it is not proven: {reason}");
        assert!(message.contains(&expected), "{message}");
    }
    // This mode checks every access, and a matrix cannot be checked.
    let message = message(Unproven::CheckAll, 16).expect("it is refused");
    assert!(
        message.contains(&format!("{load} cannot be checked")),
        "{message}"
    );
}

#[test]
fn a_checked_copy_contains_proven_matrices() {
    let fixture = software(Builder::new().check_read_only(true));
    let names = "{%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}";
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n\
         .visible .entry k(.param .u64 x, .param .u64 y, .param .u64 at) {{\n\
         .reg .b32 %i; .reg .f32 %f<8>; .reg .b64 %x, %y, %at, %d;\n\
         ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; ld.param.u64 %at, [at];\n\
         wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {names}, [%x], 16;\n\
         wmma.store.d.sync.aligned.col.m16n16k16.global.f32 [%y], {names}, 24;\n\
         ld.global.u32 %i, [%at]; mul.wide.u32 %d, %i, 4; add.s64 %d, %y, %d;\n\
         st.global.u32 [%d], %i;\nret; }}"
    );
    let module = SafeModule::load(&fixture.context, &Ptx::new(text).unwrap()).unwrap();
    let kernel = module.kernel("k").unwrap();
    let stream = fixture.stream();
    let numbers: Vec<f32> = (0..256).map(|i| i as f32).collect();
    let x = DeviceBuffer::from_host(&stream, &numbers).unwrap();
    // The columns of the result are 24 elements apart; the gap after the first gets `at`.
    let len = 15 * 24 + 16;
    for at in [20_u32, len as u32] {
        let mut y = DeviceBuffer::<f32>::zeroed(&stream, len).unwrap();
        let index = DeviceBuffer::from_host(&stream, &[at]).unwrap();
        let args = (&x, &mut y, &index);
        let launch = stream.launch_safe(&kernel, LaunchConfig::new(1, 32), args);
        let launch = launch.unwrap();
        assert!(launch.is_checked());
        let result = launch.wait();
        let mut expected = vec![0.0; len];
        for (i, number) in numbers.iter().enumerate() {
            expected[i % 16 * 24 + i / 16] = *number;
        }
        match expected.get_mut(at as usize) {
            Some(word) => {
                result.unwrap();
                *word = f32::from_bits(at);
            }
            None => {
                let violation = super::violation(result);
                assert_eq!(
                    (violation.argument, violation.offset),
                    (Some(2), 4 * len as i128)
                );
            }
        }
        assert_eq!(y.to_vec().unwrap(), expected);
    }
    let simulator = fixture.simulator.as_ref().expect("a software device");
    assert!(!simulator.take_reports().iter().any(is_foreign));
}
