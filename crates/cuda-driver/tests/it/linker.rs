//! The driver's linker.

use std::time::Duration;

use cuda_driver::error::{Error, Status};
use cuda_driver::jit::{Global, JitOptions, LinkFile, Linker, Severity};
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::{MIX, everywhere, software};
use crate::task::until;

/// A kernel that calls `weigh` and reads `offset`, both defined in another module: `x[i] =
/// weigh(x[i]) + offset`.
const CALLER: &str = include_str!("kernels/link_caller.ptx");
/// A module that defines `weigh(x) = 3 * x + bias` with its own `bias`, and `offset`, which is
/// 1000.
const CALLEE: &str = include_str!("kernels/link_callee.ptx");

fn ptx(text: &str) -> Ptx {
    Ptx::new(text).unwrap()
}

fn linker(context: &Context) -> Linker {
    Linker::new(context, &JitOptions::new()).unwrap()
}

#[test]
fn functions_and_variables_are_found_across_modules() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        for order in [[CALLER, CALLEE], [CALLEE, CALLER]] {
            let mut linker = linker(&fixture.context);
            for (index, text) in order.iter().enumerate() {
                linker.add(&ptx(text), &format!("part {index}")).unwrap();
            }
            let linked = linker.complete().unwrap();
            let module = Module::load(&fixture.context, &linked.cubin).unwrap();
            let weigh_all = module.function("weigh_all").unwrap();
            let sizes = weigh_all.parameters().unwrap().iter().map(|p| p.size);
            assert!(sizes.eq([8, 4]), "{}", fixture.name);
            let mut x = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3, 4]).unwrap();
            // SAFETY: the kernel touches 4 words.
            unsafe { stream.launch(&weigh_all, LaunchConfig::new(1, 32), (&mut x, 4_u32)) }
                .unwrap();
            let want: Vec<u32> = (1..=4).map(|x| 3 * x + 11 + 1000).collect();
            assert_eq!(x.to_vec().unwrap(), want, "{}", fixture.name);
            // Both names refer to the same variable.
            let mut offset: Global<u32> = module.global("offset", &stream).unwrap();
            offset.copy_from_host(&[5]).unwrap();
            x.copy_from_host(&[0, 0, 0, 0]).unwrap();
            // SAFETY: as above; the variable was written on the same stream.
            unsafe { stream.launch(&weigh_all, LaunchConfig::new(1, 32), (&mut x, 4_u32)) }
                .unwrap();
            assert_eq!(x.to_vec().unwrap(), [16; 4], "{}", fixture.name);
        }
    }
}

#[test]
fn an_unlinked_half_does_not_load() {
    for fixture in everywhere() {
        let error = Module::load(&fixture.context, &ptx(CALLER)).unwrap_err();
        assert!(matches!(error, Error::Jit(_)), "{}: {error}", fixture.name);
    }
}

#[test]
fn linked_images_can_be_linked_again() {
    for fixture in everywhere() {
        let mut first = linker(&fixture.context);
        first.add(&ptx(CALLEE), "callee").unwrap();
        first.add(&ptx(CALLER), "caller").unwrap();
        let first = first.complete().unwrap();
        let mut second = linker(&fixture.context);
        second.add(&ptx(MIX), "mix").unwrap();
        let second = second.complete().unwrap();
        for (cubin, kernel) in [(&first.cubin, "weigh_all"), (&second.cubin, "mix")] {
            let module = Module::load(&fixture.context, cubin).unwrap();
            assert_eq!(module.function(kernel).unwrap().name(), kernel);
        }
        let names: Vec<&str> = second
            .cubin
            .signatures()
            .unwrap()
            .iter()
            .map(|signature| signature.kernel.as_str())
            .collect();
        assert_eq!(names, ["mix"], "{}", fixture.name);
    }
}

#[test]
fn an_undefined_name_is_in_the_log() {
    for fixture in everywhere() {
        let mut linker = linker(&fixture.context);
        linker.add(&ptx(CALLER), "caller").unwrap();
        let error = linker.complete().unwrap_err();
        let Error::Jit(jit) = &error else {
            panic!("{}: {error}", fixture.name)
        };
        let found = jit.log().diagnostics();
        let about = |name: &str| {
            found
                .iter()
                .any(|one| one.severity.is_error() && one.message.contains(name))
        };
        assert!(
            about("weigh") && about("offset"),
            "{}: {error}",
            fixture.name
        );
        assert!(error.to_string().contains("cuLinkComplete"), "{error}");
    }
}

#[test]
fn a_name_that_two_define_is_in_the_log() {
    for fixture in everywhere() {
        let mut linker = linker(&fixture.context);
        let error = linker
            .add(&ptx(CALLEE), "first")
            .and_then(|linker| linker.add(&ptx(CALLEE), "second").map(drop))
            .and_then(|()| linker.complete().map(drop))
            .unwrap_err();
        assert!(
            error.to_string().contains("weigh"),
            "{}: {error}",
            fixture.name
        );
    }
}

#[test]
fn invalid_ptx_error_names_the_line() {
    for fixture in everywhere() {
        let wrong = MIX.replace("ld.param", "no.such.instruction");
        let mut linker = linker(&fixture.context);
        let error = linker
            .add(&ptx(&format!("{wrong}\n}}")), "wrong")
            .map(drop)
            .and_then(|()| linker.complete().map(drop))
            .unwrap_err();
        let Error::Jit(jit) = &error else {
            panic!("{}: {error}", fixture.name)
        };
        assert!(
            jit.log()
                .diagnostics()
                .iter()
                .any(|one| one.severity >= Severity::Error && one.line.is_some()),
            "{}: {error}",
            fixture.name
        );
    }
}

#[test]
fn files_are_linked_too() {
    let dir = std::env::temp_dir().join(format!("cuda-driver-linker-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let [caller, callee] = [("caller.ptx", CALLER), ("callee.ptx", CALLEE)].map(|(name, text)| {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path
    });
    for fixture in everywhere() {
        let mut linker = linker(&fixture.context);
        for path in [&caller, &callee] {
            // SAFETY: the file is PTX.
            unsafe { linker.add_file(LinkFile::Ptx, path) }.unwrap();
        }
        let linked = linker.complete().unwrap();
        let module = Module::load(&fixture.context, &linked.cubin).unwrap();
        module.function("weigh_all").unwrap();
        let mut linker = self::linker(&fixture.context);
        // SAFETY: the file does not exist, so nothing is read.
        let error = unsafe { linker.add_file(LinkFile::Cubin, dir.join("none")) }.unwrap_err();
        assert!(matches!(error, Error::File { .. }), "{error}");
        // SAFETY: the file is refused before it reaches the driver.
        let error = unsafe { linker.add_file(LinkFile::Fatbin, &caller) }.unwrap_err();
        assert!(matches!(error, Error::Image(_)), "{error}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// The buffers of the link stay alive until another thread destroys it; AddressSanitizer checks
/// this.
#[test]
fn a_host_function_may_drop_a_linker() {
    let fixture = software(Builder::new());
    let simulator = fixture.simulator.as_ref().unwrap();
    let mut linker = linker(&fixture.context);
    linker.add(&ptx(CALLEE), "callee").unwrap();
    let call = fixture.stream().launch_host(move || drop(linker)).unwrap();
    call.wait().unwrap();
    until("the link ends", Duration::from_secs(1), || {
        simulator.live().links == 0
    });
}

#[test]
fn software_linker_reports_unsupported_input_without_leaks() {
    let fixture = software(Builder::new());
    let mut linker = linker(&fixture.context);
    // SAFETY: the software device does not read the bytes.
    let cubin = unsafe { Cubin::from_bytes(b"\x7fELF".to_vec()) };
    let error = linker.add(&cubin, "machine code").unwrap_err();
    assert_eq!(error.status(), Some(Status::CUDA_ERROR_NOT_SUPPORTED));
    assert!(error.to_string().contains("links PTX only"), "{error}");
    let simulator = fixture.simulator.as_ref().unwrap();
    assert_eq!(simulator.live().links, 1);
    drop(linker);
    assert_eq!(simulator.live().links, 0);
}
