//! Constant tables of a module, which no kernel of it can write: a kernel reads them like variables
//! of its own, as it is and in a checked copy.

use cuda_driver::launch::Using;
use cuda_driver::prelude::*;
use cuda_driver::safe::{SafeLaunchError, SafeModule, Unproven};
use cuda_driver::{Error, Result};
use cuda_sim::Builder;

use super::{HEAD, violation};
use crate::support::{Fixture, everywhere, filled, software};

/// `out[i] = table[index[i]]`: from global memory, from constant memory, and through a generic
/// address. A neighbour is on each side of each table.
const LOOKUP: &str = ".global .align 4 .u32 before[4] = {71, 72, 73, 74};
.global .align 4 .u32 crc[4] = {10, 20, 30, 40};
.global .align 4 .u32 after[4] = {75, 76, 77, 78};
.const .align 4 .u32 first[4] = {81, 82, 83, 84};
.const .align 4 .u32 sbox[4] = {5, 6, 7, 8};
.const .align 4 .u32 last[4] = {85, 86, 87, 88};
.visible .entry KERNEL(.param .u64 out, .param .u64 index) {
    .reg .b32 %r<3>; .reg .b64 %d<9>;
    ld.param.u64 %d1, [out];
    ld.param.u64 %d2, [index];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d3, %r1, 4;
    add.s64 %d4, %d2, %d3;
    ld.global.s32 %d5, [%d4];
    shl.b64 %d5, %d5, 2;
    BASE
    add.s64 %d7, %d6, %d5;
    LOAD %r2, [%d7];
    add.s64 %d8, %d1, %d3;
    st.global.u32 [%d8], %r2;
    ret;
}
";

fn module(fixture: &Fixture, text: &str) -> SafeModule {
    let ptx = Ptx::new(format!("{HEAD}{text}")).unwrap();
    SafeModule::load(&fixture.context, &ptx).unwrap()
}

fn lookup(base: &str, load: &str) -> String {
    let text = LOOKUP.replace("KERNEL", "lookup");
    text.replace("BASE", base).replace("LOAD", load)
}

#[track_caller]
fn refusal<T: std::fmt::Debug>(result: Result<T>) -> SafeLaunchError {
    match result {
        Err(Error::SafeLaunch(error)) => *error,
        other => panic!("expected a refusal: {other:?}"),
    }
}

#[test]
fn a_table_is_read_within_its_bounds() {
    let forms = [
        ("mov.u64 %d6, crc;", "ld.global.u32", [40, 10, 20, 30]),
        ("mov.u64 %d6, crc;", "ld.global.nc.u32", [40, 10, 20, 30]),
        (
            "mov.u64 %d6, crc; cvta.global.u64 %d6, %d6;",
            "ld.u32",
            [40, 10, 20, 30],
        ),
        ("mov.u64 %d6, sbox;", "ld.const.u32", [8, 5, 6, 7]),
    ];
    for fixture in everywhere() {
        let stream = fixture.stream();
        for (base, load, expected) in forms {
            let module = module(&fixture, &lookup(base, load));
            let kernel = module.kernel("lookup").unwrap();
            let index = DeviceBuffer::from_host(&stream, &[3, 0, 1, 2]).unwrap();
            let mut out = filled(&stream, 4, 1);
            let config = LaunchConfig::new(1, 4);
            let launch = stream
                .launch_safe(&kernel, config, (&mut out, &index))
                .unwrap();
            assert!(launch.is_checked(), "the index is loaded");
            launch.wait().unwrap();
            assert_eq!(out.to_vec().unwrap(), expected, "{base} {load}");
            // One element before, one behind, in another table, and far away.
            for wrong in [-1, 4, 8, i32::MAX, i32::MIN] {
                let index = DeviceBuffer::from_host(&stream, &[1, wrong, 1, 1]).unwrap();
                let launch = stream
                    .launch_safe(&kernel, config, (&mut out, &index))
                    .unwrap();
                let violation = violation(launch.wait());
                assert_eq!((violation.thread[0], violation.threads), (1, 1));
                assert_eq!(violation.argument, None, "{violation}");
                let found = out.to_vec().unwrap();
                assert_eq!(
                    found,
                    [expected[2], 0, expected[2], expected[2]],
                    "{base} {wrong}"
                );
            }
        }
    }
}

/// The mask keeps the index in the table.
#[test]
fn a_masked_index_is_proven() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let text = lookup("and.b64 %d5, %d5, 12; mov.u64 %d6, sbox;", "ld.const.u32");
        let module = module(&fixture, &text);
        let kernel = module.kernel("lookup").unwrap();
        let index = DeviceBuffer::from_host(&stream, &[3, -8, 5, i32::MAX]).unwrap();
        let mut out = filled(&stream, 4, 1);
        let config = LaunchConfig::new(1, 4);
        for _ in 0..2 {
            let launch = stream
                .launch_safe(&kernel, config, (&mut out, &index))
                .unwrap();
            assert!(!launch.is_checked());
            assert_eq!(out.to_vec().unwrap(), [8, 5, 6, 8]);
        }
    }
}

/// The program may have changed a table that it has looked up. A copy would have the old contents.
#[test]
fn a_table_that_was_looked_up_is_a_variable() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let config = LaunchConfig::new(1, 4);
        let index = DeviceBuffer::from_host(&stream, &[3, 0, 1, 2]).unwrap();
        let mut out = filled(&stream, 4, 1);
        let text = lookup("and.b64 %d5, %d5, 12; mov.u64 %d6, crc;", "ld.global.u32");
        let proven = module(&fixture, &text);
        let kernel = proven.kernel("lookup").unwrap();
        let other = proven.module().global::<u32>("before", &stream).unwrap();
        let mut crc = proven.module().global::<u32>("crc", &stream).unwrap();
        crc.copy_from_host(&[1, 2, 3, 4]).unwrap();
        let error = refusal(stream.launch_safe(&kernel, config, (&mut out, &index)));
        let text = "uses the variable crc of its module; pass its `Global` with \
                    `Using::new(args, (&global,))`";
        assert!(error.to_string().contains(text), "{error}");
        let args = Using::new((&mut out, &index), (&other,));
        refusal(stream.launch_safe(&kernel, config, args));
        for _ in 0..2 {
            let args = Using::new((&mut out, &index), (&crc,));
            let launch = stream.launch_safe(&kernel, config, args).unwrap();
            assert!(!launch.is_checked());
            assert_eq!(out.to_vec().unwrap(), [4, 1, 2, 3]);
        }
        drop(crc);
        refusal(stream.launch_safe(&kernel, config, (&mut out, &index)));
        // The variable can still be looked up.
        let crc = proven.module().global::<u32>("crc", &stream).unwrap();
        assert_eq!(crc.to_vec().unwrap(), [1, 2, 3, 4]);

        let checked = module(&fixture, &lookup("mov.u64 %d6, crc;", "ld.global.u32"));
        let kernel = checked.kernel("lookup").unwrap();
        let crc = checked.module().global::<u32>("crc", &stream).unwrap();
        let args = Using::new((&mut out, &index), (&crc,));
        let error = refusal(stream.launch_safe(&kernel, config, args));
        let text = "would have its own variable crc instead of that of the module";
        assert!(error.to_string().contains(text), "{error}");
        stream.synchronize().unwrap();
    }
}

/// A launch does not record that it reads a table, and neither does a graph. So the program must
/// not write it afterwards.
#[test]
fn a_table_that_a_launch_reads_cannot_be_looked_up() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let config = LaunchConfig::new(1, 4);
        let index = DeviceBuffer::from_host(&stream, &[3, 0, 1, 2]).unwrap();
        let mut out = filled(&stream, 4, 1);
        let proven = "and.b64 %d5, %d5, 12; mov.u64 %d6, crc;";
        for (base, is_graph) in [
            (proven, false),
            (proven, true),
            ("mov.u64 %d6, crc;", false),
            ("mov.u64 %d6, crc;", true),
        ] {
            let module = module(&fixture, &lookup(base, "ld.global.u32"));
            let kernel = module.kernel("lookup").unwrap();
            let mut graph = Graph::new(&fixture.context).unwrap();
            if is_graph {
                graph
                    .add_kernel_safe(&[], &kernel, config, (&mut out, &index))
                    .unwrap();
            } else {
                for _ in 0..2 {
                    stream
                        .launch_safe(&kernel, config, (&mut out, &index))
                        .unwrap();
                }
            }
            let refused = module.module().global::<u32>("crc", &stream);
            let name = "crc".to_owned();
            assert_eq!(
                refused.map(drop),
                Err(Error::ConstantVariable { name }),
                "{}, {base}, graph: {is_graph}",
                fixture.name
            );
            // Other variables can be looked up, and the launches are not affected.
            let other = module.module().global::<u32>("before", &stream).unwrap();
            assert_eq!(other.to_vec().unwrap(), [71, 72, 73, 74]);
            if is_graph {
                graph.instantiate().unwrap().launch(&stream).unwrap();
            } else {
                stream
                    .launch_safe(&kernel, config, (&mut out, &index))
                    .unwrap();
            }
            assert_eq!(out.to_vec().unwrap(), [40, 10, 20, 30]);
        }
    }
}

/// `*out = shown`, and a store to an address from memory.
const POKE: &str = ".visible .entry poke(.param .u64 out, .param .u64 at) {
    .reg .b32 %r; .reg .b64 %d<4>;
    ld.param.u64 %d1, [out];
    ld.param.u64 %d2, [at];
    ld.global.u32 %r, [shown];
    st.global.u32 [%d1], %r;
    ld.global.u64 %d3, [%d2];
    st.u32 [%d3], 99;
    ret;
}
";

#[test]
fn a_table_cannot_be_written_through_an_unknown_address() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let text = format!(".global .align 4 .u32 shown = 7;\n{POKE}");
        let module = module(&fixture, &text);
        let kernel = module.kernel("poke").unwrap();
        let mut out = filled(&stream, 1, 1);
        let config = LaunchConfig::new(1, 1);
        // The table may be anywhere, and the buffer is one place that may not be written.
        let index = filled(&stream, 1, 1);
        let at = DeviceBuffer::from_host(&stream, &[index.as_raw()]).unwrap();
        let launch = stream
            .launch_safe(&kernel, config, (&mut out, &at))
            .unwrap();
        violation(launch.wait());
        assert_eq!(out.to_vec().unwrap(), [7]);
        assert_eq!(index.to_vec().unwrap(), [1]);
    }
}

/// The store has an unknown address, so it is checked, and no check permits the variable.
#[test]
fn a_message_says_that_a_variable_is_written_only_if_it_is() {
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let text = format!(".visible .global .align 4 .u32 shown = 7;\n{POKE}");
    let module = module(&fixture, &text);
    let kernel = module.kernel("poke").unwrap();
    let mut out = filled(&stream, 1, 1);
    let at = DeviceBuffer::from_host(&stream, &[0_u64]).unwrap();
    let config = LaunchConfig::new(1, 1);
    let error = refusal(stream.launch_safe(&kernel, config, (&mut out, &at)));
    let text = "uses the variable shown of its module; pass its `Global` with \
                `Using::new(args, (&global,))`";
    assert!(error.to_string().contains(text), "{error}");
}

#[test]
fn a_table_is_in_copies_with_all_checks() {
    for fixture in everywhere() {
        let stream = fixture.stream();
        let module = module(&fixture, &lookup("mov.u64 %d6, crc;", "ld.global.u32"));
        let kernel = module.kernel("lookup").unwrap();
        let index = DeviceBuffer::from_host(&stream, &[3, 0, 1, 2]).unwrap();
        let mut out = filled(&stream, 4, 1);
        let config = LaunchConfig::new(1, 4);
        let all = kernel.clone().with_unproven(Unproven::CheckAll);
        stream
            .launch_safe(&all, config, (&mut out, &index))
            .unwrap();
        assert_eq!(out.to_vec().unwrap(), [40, 10, 20, 30], "{}", fixture.name);
        let none = kernel.with_unproven(Unproven::Reject);
        let error = refusal(stream.launch_safe(&none, config, (&mut out, &index)));
        assert!(
            matches!(error, SafeLaunchError::NotProven { .. }),
            "{error}"
        );
    }
}
