//! Arguments whose type contradicts the type of the parameter in the image.

use cuda_driver::error::{ArgumentError, Error};
use cuda_driver::prelude::*;

use crate::support::everywhere;

/// Writes the two words of its arguments to `out`.
fn kernel(first: &str, second: &str) -> String {
    format!(
        "
        .version 7.0
        .target sm_52
        .address_size 64
        .visible .entry k(.param .u64 out, .param {first} a, .param {second} b)
        {{
            .reg .u64 %p;
            .reg .b32 %v;
            ld.param.u64 %p, [out];
            cvta.to.global.u64 %p, %p;
            ld.param.b32 %v, [a];
            st.global.b32 [%p], %v;
            ld.param.b32 %v, [b];
            st.global.b32 [%p+4], %v;
            ret;
        }}"
    )
}

/// The name of the mismatched parameter and the type of its argument.
fn mismatch(result: Result<(), Error>) -> (String, Option<&'static str>) {
    match result {
        Err(Error::Argument(error)) => match *error {
            ArgumentError::Mismatch {
                parameter,
                given_type,
                ..
            } => (parameter.name.unwrap(), given_type),
            other => panic!("{other}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn floats_and_integers_are_not_confused() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let k = fixture.kernel(&kernel(".f32", ".s32"), "k");
        let mut out = DeviceBuffer::<u32>::zeroed(&stream, 2).unwrap();
        let config = LaunchConfig::new(1, 1);
        // SAFETY: the launch fails: the types of the arguments differ.
        let wrong = unsafe { stream.launch(&k, config, (&mut out, 1_u32, 1_u32)) };
        assert_eq!(mismatch(wrong), ("a".to_owned(), Some("u32")));
        // SAFETY: the kernel writes two words.
        unsafe { stream.launch(&k, config, (&mut out, 1.0_f32, 7_u32)) }.unwrap();
        assert_eq!(out.to_vec().unwrap(), [1.0_f32.to_bits(), 7]);
        // A successful launch does not permit other types of arguments.
        // SAFETY: the launch fails: the types of the arguments differ.
        let wrong = unsafe { stream.launch(&k, config, (&mut out, 1.0_f32, 1.0_f32)) };
        assert_eq!(mismatch(wrong), ("b".to_owned(), Some("f32")));
        let mut list = ArgList::new();
        list.push(&mut out).push(-1_i32).push(-1_i32);
        // SAFETY: the launch fails: the types of the arguments differ.
        let wrong = unsafe { stream.launch(&k, config, &list) };
        assert_eq!(mismatch(wrong), ("a".to_owned(), Some("i32")));
        // SAFETY: the kernel writes two words.
        unsafe { stream.launch(&k, config, (&mut out, 2.0_f32, -2_i32)) }.unwrap();
        assert_eq!(out.to_vec().unwrap(), [2.0_f32.to_bits(), u32::MAX - 1]);
    }
}

#[test]
fn types_known_only_by_size_match_every_parameter() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let mut out = DeviceBuffer::<u32>::zeroed(&stream, 2).unwrap();
        let config = LaunchConfig::new(1, 1);
        let bits = [1.5_f32.to_bits(), 9];
        let k = fixture.kernel(&kernel(".f32", ".u32"), "k");
        // SAFETY: the kernel writes two words.
        unsafe { stream.launch(&k, config, (&mut out, [bits[0]], [bits[1]])) }.unwrap();
        assert_eq!(out.to_vec().unwrap(), bits);
        let k = fixture.kernel(&kernel(".b32", ".b32"), "k");
        // SAFETY: as above.
        unsafe { stream.launch(&k, config, (&mut out, 1.5_f32, 9_u32)) }.unwrap();
        assert_eq!(out.to_vec().unwrap(), bits);
        // SAFETY: as above.
        unsafe { stream.launch(&k, config, (&mut out, bits[0], f32::from_bits(9))) }.unwrap();
        assert_eq!(out.to_vec().unwrap(), bits);
    }
}

#[test]
fn lists_of_more_than_sixteen_arguments_are_compared() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let parameters = (0..17).map(|index| format!(".param .f32 x{index}"));
        let parameters: Vec<String> = parameters.collect();
        let ptx = format!(
            ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry k({}) {{ ret; }}",
            parameters.join(", ")
        );
        let k = fixture.kernel(&ptx, "k");
        let launch = |last_is_float: bool| {
            let mut list = ArgList::new();
            for _ in 0..16 {
                list.push(0.0_f32);
            }
            match last_is_float {
                true => list.push(0.0_f32),
                false => list.push(0_u32),
            };
            // SAFETY: the kernel does nothing.
            unsafe { stream.launch(&k, LaunchConfig::new(1, 1), &list) }
        };
        launch(true).unwrap();
        assert_eq!(mismatch(launch(false)), ("x16".to_owned(), Some("u32")));
        launch(true).unwrap();
        stream.synchronize().unwrap();
    }
}
