//! Modules: images that are wrong.

use cuda_driver::prelude::*;
use cuda_driver::{Error, Status};
use cuda_sim::Rule;

use crate::support::{MIX, everywhere, late, software};

#[test]
fn ptx_that_is_garbage_empty_or_cut_off_is_an_error() {
    for bench in everywhere("ptx_that_is_garbage_empty_or_cut_off_is_an_error") {
        let cut = &MIX[..MIX.find("mul.wide").unwrap()];
        for text in ["this is no PTX", "", "\u{1F980} {{{", cut] {
            let error = Module::load(&bench.context, &Ptx::new(text).unwrap()).unwrap_err();
            let Error::Jit(jit) = &error else {
                panic!("{}: {text:?}: {error}", bench.name)
            };
            assert!(error.to_string().contains("cuModuleLoadDataEx"), "{error}");
            if text == cut {
                assert_eq!(jit.ptx_version(), Some((7, 0)));
            }
        }
        // The device goes on.
        Module::load(&bench.context, &Ptx::new(MIX).unwrap()).unwrap();
    }
}

#[test]
fn a_wrong_line_is_named_by_the_log() {
    for bench in everywhere("a_wrong_line_is_named_by_the_log") {
        let wrong = MIX.replace("st.global.u32 [%x], %u;", "st.global.u32 [%x], %nothing;");
        let line = 1 + wrong
            .lines()
            .position(|line| line.contains("%nothing"))
            .unwrap();
        let error = Module::load(&bench.context, &Ptx::new(wrong).unwrap()).unwrap_err();
        assert_eq!(
            error.status(),
            Some(Status::CUDA_ERROR_INVALID_PTX),
            "{}: {error}",
            bench.name
        );
        let text = error.to_string();
        assert!(
            text.contains(&format!("line {line}")),
            "{}: {text}",
            bench.name
        );
    }
}

#[test]
fn a_nul_byte_is_found_before_the_driver_sees_it() {
    assert_eq!(Ptx::new(b"ab\0c".to_vec()).unwrap_err().nul_position(), 2);
    for bench in everywhere("a_nul_byte_is_found_before_the_driver_sees_it") {
        let module = Module::load(&bench.context, &Ptx::new(MIX).unwrap()).unwrap();
        let error = module.function("mi\0x").unwrap_err();
        assert!(
            matches!(error, Error::NulByte { position: 2, .. }),
            "{error}"
        );
    }
}

#[test]
fn a_kernel_that_is_not_there_is_named() {
    for bench in everywhere("a_kernel_that_is_not_there_is_named") {
        let module = Module::load(&bench.context, &Ptx::new(MIX).unwrap()).unwrap();
        assert!(module.function("").is_err());
        for name in ["Mix", "no_such_kernel"] {
            let error = module.function(name).unwrap_err();
            assert_eq!(
                error,
                Error::NoSuchFunction {
                    name: name.to_owned()
                }
            );
        }
        let mix = module.function("mix").unwrap();
        let sizes: Vec<usize> = mix.parameters().unwrap().iter().map(|p| p.size).collect();
        assert_eq!(sizes, [8, 8, 4]);
    }
}

#[test]
fn a_function_keeps_its_module_loaded() {
    for bench in everywhere("a_function_keeps_its_module_loaded") {
        let stream = bench.stream();
        let module = Module::load(&bench.context, &Ptx::new(MIX).unwrap()).unwrap();
        let mix = module.function("mix").unwrap();
        drop(module);
        let mut x = DeviceBuffer::from_host(&stream, &[7_u32]).unwrap();
        let y = DeviceBuffer::from_host(&stream, &[1_u32]).unwrap();
        // SAFETY: the kernel touches one word of each.
        unsafe { stream.launch(&mix, LaunchConfig::for_num_elems(1), (&mut x, &y, 1_u32)) }
            .unwrap();
        // The kernel may not have run yet: unloading waits for it.
        drop(mix);
        assert_eq!(x.to_vec().unwrap(), [15], "{}", bench.name);
    }
}

#[test]
fn a_module_whose_kernels_may_still_run_stays_loaded() {
    let bench = software(late(5));
    let simulator = bench.simulator.unwrap();
    let module = Module::load(&bench.context, &Ptx::new(MIX).unwrap()).unwrap();
    simulator.add_rule(Rule::new(Status::CUDA_ERROR_UNKNOWN).function("cuCtxSynchronize"));
    drop(module);
    assert_eq!(simulator.calls().get("cuModuleUnload"), None);
    simulator.clear_rules();
    // It goes with its context, and keeps nothing else.
    drop(bench.context);
    assert!(simulator.live().is_empty(), "{}", simulator.live());
}
