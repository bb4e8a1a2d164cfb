//! Module variables.

use cuda_driver::Error;
use cuda_driver::jit::Global;
use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::support::{COPY, everywhere, gpu, late, software};

const VARIABLES: &str = include_str!("kernels/variables.ptx");

fn load(context: &Context) -> Module {
    Module::load(context, &Ptx::new(VARIABLES).unwrap()).unwrap()
}

#[test]
fn constants_and_globals_are_read_and_written() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let module = load(&fixture.context);
        let mut factors: Global<u32> = module.global("factors", &stream).unwrap();
        assert_eq!((factors.name(), factors.len()), ("factors", 4));
        assert_eq!(factors.to_vec().unwrap(), [1, 2, 3, 4], "{}", fixture.name);
        factors.copy_from_host(&[10, 20, 30, 40]).unwrap();
        factors.slice_mut(1..2).unwrap().fill(7).unwrap();
        let mut words = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3, 4]).unwrap();
        let scale = module.function("scale").unwrap();
        // SAFETY: the kernel scales 4 words, and reads the constants on the stream on which they
        // were written.
        unsafe { stream.launch(&scale, LaunchConfig::new(1, 4), (&mut words,)) }.unwrap();
        assert_eq!(
            words.to_vec().unwrap(),
            [10, 14, 90, 160],
            "{}",
            fixture.name
        );
        let counter: Global<u32> = module.global("counter", &stream).unwrap();
        let bump = module.function("bump").unwrap();
        for _ in 0..3 {
            // SAFETY: the kernel changes the counter on its owning stream.
            unsafe { stream.launch(&bump, LaunchConfig::new(1, 1), (10_u32,)) }.unwrap();
        }
        assert_eq!(counter.to_vec().unwrap(), [35], "{}", fixture.name);
        // The same bytes can be accessed as another type, and each module has its own variable.
        drop(counter);
        let signed: Global<[i8; 4]> = module.global("counter", &stream).unwrap();
        assert_eq!(signed.to_vec().unwrap(), [[35, 0, 0, 0]]);
        let second = load(&fixture.context);
        let counter: Global<u32> = second.global("counter", &stream).unwrap();
        assert_eq!(counter.to_vec().unwrap(), [5], "{}", fixture.name);
    }
}

#[test]
fn a_variable_has_one_owner_and_keeps_the_order_of_its_uses() {
    let fixtures = (0..16).map(|seed| software(late(seed)));
    for fixture in fixtures.chain(gpu()) {
        let (one, other, third) = (fixture.stream(), fixture.stream(), fixture.stream());
        let copy = fixture.kernel(COPY, "copy");
        let module = load(&fixture.context);
        let words = DeviceBuffer::from_host(&other, &[9_u32, 8, 7, 6]).unwrap();
        let mut factors: Global<u32> = module.global("factors", &one).unwrap();
        let error = module.global::<u32>("factors", &third).unwrap_err();
        assert_eq!(
            error,
            Error::GlobalInUse {
                name: "factors".to_owned()
            }
        );
        // SAFETY: the kernel reads 4 words of the one and writes 4 of the other; each has 4.
        unsafe {
            other.launch(
                &copy,
                LaunchConfig::new(1, 4),
                (&words, &mut factors, 4_u32),
            )
        }
        .unwrap();
        drop(factors);
        // The next owner has another owning stream and sees the earlier writes.
        let factors: Global<u32> = module.global("factors", &third).unwrap();
        assert_eq!(factors.stream(), &third);
        assert_eq!(factors.to_vec().unwrap(), [9, 8, 7, 6], "{}", fixture.name);
    }
}

#[test]
fn a_variable_keeps_its_module_and_its_stream() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut factors: Global<u32> = load(&fixture.context).global("factors", &stream).unwrap();
        drop((stream, fixture.context));
        factors.copy_from_host(&[4, 3, 2, 1]).unwrap();
        assert_eq!(factors.to_vec().unwrap(), [4, 3, 2, 1], "{}", fixture.name);
        drop(factors);
        if let Some(simulator) = &fixture.simulator {
            let live = simulator.live();
            assert!(live.is_empty(), "{live:?}");
        }
    }
}

#[test]
fn unknown_variables_are_errors() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let module = load(&fixture.context);
        let error = module.global::<u32>("nothing", &stream).unwrap_err();
        assert_eq!(
            error,
            Error::NoSuchGlobal {
                name: "nothing".to_owned()
            }
        );
        let error = module.global::<u32>("fac\0tors", &stream).unwrap_err();
        assert!(
            matches!(error, Error::NulByte { position: 3, .. }),
            "{error}"
        );
        let error = module.global::<[u8; 8]>("counter", &stream).unwrap_err();
        assert_eq!(
            error,
            Error::Uneven {
                variable: Some("counter".into()),
                bytes: 4,
                size: 8
            },
            "{}",
            fixture.name
        );
        let error = module.global::<[u8; 2]>("odd", &stream).unwrap_err();
        assert_eq!(
            error,
            Error::Uneven {
                variable: Some("odd".into()),
                bytes: 7,
                size: 2
            }
        );
        // A refused access leaves the variable available.
        assert_eq!(
            module
                .global::<u8>("odd", &stream)
                .unwrap()
                .to_vec()
                .unwrap(),
            [0; 7]
        );
        let elsewhere = software(Builder::new());
        let error = module.global::<u8>("odd", &elsewhere.stream()).unwrap_err();
        assert!(matches!(error, Error::OtherContext { .. }), "{error}");
    }
}
