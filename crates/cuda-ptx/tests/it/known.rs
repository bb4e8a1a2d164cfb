//! Exact results for well-known kernels, which NVRTC compiled.

use cuda_ptx::analysis::{Argument, Buffer, LaunchValues, Outcome, Reason, Root, Verdict};

use crate::support::{analysis, input, int, launch, output, reasons};

const TEXT: &str = include_str!("kernels/known.ptx");

fn evaluate(name: &str, launch: &LaunchValues) -> Verdict {
    analysis(TEXT, name).evaluate(launch)
}

/// 4 blocks of 256 threads.
fn line(arguments: impl IntoIterator<Item = Argument>) -> LaunchValues {
    launch([4, 1, 1], [256, 1, 1], arguments)
}

/// Checks that the kernel is proven if its buffers have these sizes, and that each size is the
/// smallest.
fn is_exact(name: &str, sizes: &[u64], launch: impl Fn(Vec<Argument>) -> LaunchValues) {
    let arguments = |sizes: &[u64]| sizes.iter().map(|&size| output(size)).collect();
    let verdict = evaluate(name, &launch(arguments(sizes)));
    assert!(verdict.is_proven(), "{verdict}");
    for index in 0..sizes.len() {
        let mut smaller = sizes.to_vec();
        smaller[index] -= 1;
        let verdict = evaluate(name, &launch(arguments(&smaller)));
        let out_of_range = |reason: &Reason| matches!(reason, Reason::OutOfRange { .. });
        let reasons = reasons(&verdict);
        assert!(!reasons.is_empty(), "{name}: buffer {index}");
        assert!(reasons.iter().all(out_of_range), "{name}: {verdict}");
    }
}

/// Works as [`is_exact`] for a kernel with these scalars after its buffers.
fn is_exact_with(name: &str, sizes: &[u64], scalars: &[i32], grid: [u32; 3], block: [u32; 3]) {
    is_exact(name, sizes, |mut arguments| {
        arguments.extend(scalars.iter().map(|&value| int(value)));
        launch(grid, block, arguments)
    });
}

#[test]
fn guarded_kernels_need_exactly_their_data() {
    let (grid, block) = ([4, 1, 1], [256, 1, 1]);
    is_exact_with("vector_add", &[4000; 3], &[1000], grid, block);
    is_exact_with("grid_stride", &[40_000; 2], &[10_000], grid, block);
    is_exact_with("clamped", &[4000; 2], &[1000], grid, block);
    is_exact_with("vectors", &[4000; 2], &[1003], grid, block);
    is_exact_with("histogram", &[4000, 1024], &[4000], grid, block);
    is_exact_with("unrolled", &[3996, 4096], &[999], grid, block);
    is_exact("vector_add_unguarded", &[4096; 3], line);
    is_exact("grid_stride_64", &[80_000; 2], |mut arguments| {
        arguments.push(Argument::scalar(10_000u64.to_le_bytes()));
        line(arguments)
    });
}

#[test]
fn two_dimensional_kernels_need_exactly_their_data() {
    let (grid, block) = ([7, 5, 1], [16, 16, 1]);
    let (width, height) = (100, 80);
    let all = 4 * width * height;
    // The output is written from row 1, column 1 to the last but one of both.
    let inner = 4 * (width * (height - 1) - 1);
    let scalars = [width as i32, height as i32];
    is_exact_with("stencil", &[all - 4, inner], &scalars, grid, block);
    is_exact_with("transpose", &[all; 2], &scalars, [4, 3, 1], [32, 8, 1]);
    let (m, n, k) = (80, 112, 50);
    let sizes = [4 * m * k, 4 * k * n, 4 * m * n];
    is_exact_with(
        "matmul",
        &sizes,
        &[m as i32, n as i32, k as i32],
        grid,
        block,
    );
    is_exact_with("matmul_naive", &[4 * 80 * 80; 3], &[80], grid, block);
    is_exact_with("divided", &[384, 4000], &[96, 1000], [4, 1, 1], [256, 1, 1]);
}

#[test]
fn shared_and_local_memory_is_proven() {
    let reduction = |bytes| LaunchValues {
        cluster: None,
        dynamic_shared: bytes,
        ..line([input(4000), output(16), int(1000)])
    };
    let verdict = evaluate("reduction", &reduction(1024));
    assert!(verdict.is_proven(), "{verdict}");
    // The last thread stores 4 bytes at 1020.
    let verdict = evaluate("reduction", &reduction(1020));
    let expected = Reason::OutOfRange {
        low: 0,
        high: 1024,
        bytes: 1020,
    };
    assert!(reasons(&verdict).contains(&expected), "{verdict}");
    let verdict = evaluate("local_array", &line([input(32), output(4096), int(1000)]));
    assert!(verdict.is_proven(), "{verdict}");
    let locals = verdict
        .contract()
        .unwrap()
        .accesses
        .iter()
        .filter(|access| {
            matches!(
                &access.outcome,
                Outcome::Proven {
                    root: Root::Variable(_),
                    ..
                }
            )
        });
    assert!(locals.count() > 0);
}

#[test]
fn an_index_from_memory_is_not_proven() {
    let verdict = evaluate(
        "gather",
        &line([input(4000), input(4000), output(4000), int(1000)]),
    );
    let contract = verdict.contract().unwrap();
    let proven = contract
        .accesses
        .iter()
        .filter(|a| matches!(a.outcome, Outcome::Proven { .. }));
    assert_eq!(proven.count(), 2);
    let [
        Reason::OutOfRange {
            low,
            high,
            bytes: 4000,
        },
    ] = reasons(&verdict)[..]
    else {
        panic!("{verdict}");
    };
    assert_eq!((low, high), (-4 << 31, 4 << 31));
}

#[test]
fn defects_are_not_proven() {
    let off = evaluate("off_by_one", &line([input(4000), output(4000), int(1000)]));
    let expected = Reason::OutOfRange {
        low: 0,
        high: 4004,
        bytes: 4000,
    };
    assert_eq!(reasons(&off), [expected.clone(), expected]);
    // A guard that is too wide for the buffers, and a negative number of elements.
    let buffers = || [input(4000), input(4000), output(4000)];
    let long = evaluate(
        "vector_add",
        &line(buffers().into_iter().chain([int(1001)])),
    );
    assert_eq!(reasons(&long).len(), 3);
    let none = evaluate("vector_add", &line(buffers().into_iter().chain([int(-1)])));
    let outcomes = &none.contract().unwrap().accesses;
    assert!(
        outcomes
            .iter()
            .all(|access| access.outcome == Outcome::Unreached)
    );
    // A write through a buffer that is passed for reading.
    let read = evaluate(
        "vector_add",
        &line([4000; 3].map(input).into_iter().chain([int(1000)])),
    );
    assert_eq!(reasons(&read), [Reason::ReadOnly]);
}

#[test]
fn a_wrapping_index_is_not_proven() {
    // Sixteen steps behind the limit, i passes 2³¹. An assembler may compute such numbers.
    let wide = |n| line([input(1 << 40), output(1 << 40), int(n)]);
    assert!(evaluate("grid_stride", &wide(i32::MAX - 16 * 1024)).is_proven());
    assert!(!evaluate("grid_stride", &wide(i32::MAX - 16 * 1024 + 1)).is_proven());
    // The product of row and width wraps.
    let stencil = |width, height| {
        let arguments = [input(1 << 40), output(1 << 40), int(width), int(height)];
        launch([1 << 12, 1 << 12, 1], [16, 16, 1], arguments)
    };
    assert!(evaluate("stencil", &stencil(1 << 15, 1 << 16)).is_proven());
    assert!(!evaluate("stencil", &stencil(1 << 16, 1 << 16)).is_proven());
}

#[test]
fn a_shared_address_that_wraps_is_not_proven() {
    // Only thread 512 stores: its register is that of `tile` again, since 512 · 2²³ is 2³². The
    // instruction takes 2³² away from it.
    let text = |offset| {
        format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.shared .align 4 .b8 tile[64];\n\
             .visible .entry k() {{\n.reg .pred %p<2>; .reg .b32 %r<5>;\nmov.u32 %r1, %tid.x;\n\
             setp.ne.u32 %p1, %r1, 512;\n@%p1 bra $end;\nshl.b32 %r2, %r1, 23;\n\
             mov.u32 %r3, tile;\nadd.u32 %r4, %r3, %r2;\nst.shared.u32 [%r4+{offset}], %r1;\n\
             $end: ret; }}"
        )
    };
    let proven = |offset| {
        let launch = launch([1, 1, 1], [1024, 1, 1], []);
        analysis(&text(offset), "k").evaluate(&launch).is_proven()
    };
    assert!(!proven("-4294967296"));
    assert!(!proven("4"));
}

#[test]
fn bit_operations_keep_the_low_zeros() {
    // A swizzle: both operands are multiples of 16, so the address is.
    let verdict = |operation: &str, factor: u32, bytes: u32| {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n\
             .visible .entry k() {{\n.reg .b32 %r<9>;\n\
             .shared .align 16 .b8 tile[{bytes}];\nmov.u32 %r1, %tid.x;\n\
             mul.lo.u32 %r2, %r1, {factor};\nmul.lo.u32 %r3, %r1, 48;\n\
             {operation}.b32 %r4, %r2, %r3;\nmov.u32 %r5, tile;\nadd.u32 %r5, %r5, %r4;\n\
             st.shared.v4.u32 [%r5], {{%r1, %r1, %r1, %r1}};\nret; }}"
        );
        let launch = launch([1, 1, 1], [32, 1, 1], []);
        analysis(&text, "k").evaluate(&launch)
    };
    for operation in ["xor", "or", "and"] {
        assert!(verdict(operation, 16, 2048).is_proven(), "{operation}");
    }
    // The largest result is below a power of two. It is exact only for `and`, which the smaller
    // operand limits.
    assert!(!verdict("xor", 16, 1024).is_proven());
    assert!(verdict("and", 16, 31 * 16 + 16).is_proven());
    assert!(!verdict("and", 16, 31 * 16 + 15).is_proven());
    let misaligned = [Reason::Misaligned { align: 16 }];
    assert_eq!(reasons(&verdict("xor", 24, 4096)), misaligned);
    assert_eq!(reasons(&verdict("or", 24, 4096)), misaligned);
    assert!(verdict("and", 24, 4096).is_proven());
}

#[test]
fn rows_of_matrices_are_proven() {
    // Each thread names a row of 16 bytes, at `stride` times its number.
    let verdict = |stride: u32, bytes: u32, instruction: &str| {
        let text = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n\
             .visible .entry k() {{\n.reg .b32 %r<9>;\n\
             .shared .align 16 .b8 tile[{bytes}];\nmov.u32 %r1, %tid.x;\n\
             mov.u32 %r2, tile;\nmad.lo.u32 %r3, %r1, {stride}, %r2;\n{instruction};\nret; }}"
        );
        let launch = launch([1, 1, 1], [32, 1, 1], []);
        analysis(&text, "k").evaluate(&launch)
    };
    let load = "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r4, %r5, %r6, %r7}, [%r3]";
    let store = "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r3], {%r4, %r5}";
    for instruction in [load, store] {
        assert!(verdict(16, 512, instruction).is_proven());
        assert!(verdict(80, 31 * 80 + 16, instruction).is_proven());
        assert!(!verdict(16, 511, instruction).is_proven());
        assert!(!verdict(80, 31 * 80 + 15, instruction).is_proven());
        assert_eq!(
            reasons(&verdict(24, 4096, instruction)),
            [Reason::Misaligned { align: 16 }]
        );
    }
}

#[test]
fn alignment_is_part_of_the_proof() {
    let buffer = |align| {
        Argument::buffer(Buffer {
            bytes: 4000,
            align,
            is_writable: true,
        })
    };
    let vectors = |align| line([buffer(16), buffer(align), int(1000)]);
    assert!(evaluate("vectors", &vectors(16)).is_proven());
    assert_eq!(
        reasons(&evaluate("vectors", &vectors(8))),
        [Reason::Misaligned { align: 16 }]
    );
}

#[test]
fn buffers_in_structs_are_roots() {
    let view = |length: i32, bytes| {
        let mut data = vec![0; 8];
        data.extend(length.to_le_bytes());
        data.extend([0; 4]);
        let buffer = Buffer {
            bytes,
            align: 4,
            is_writable: true,
        };
        line([Argument::scalar(data).with_buffer(0, buffer)])
    };
    let verdict = evaluate("of_struct", &view(700, 2800));
    assert!(verdict.is_proven(), "{verdict}");
    assert!(
        verdict
            .to_string()
            .contains("4·of_struct_param_0[8] ≤ bytes(of_struct_param_0)")
    );
    assert!(!evaluate("of_struct", &view(700, 2799)).is_proven());
    assert!(!evaluate("of_struct", &view(701, 2800)).is_proven());
}

#[test]
fn the_linkage_of_a_kernel_does_not_matter() {
    let text = TEXT.replace(".visible .entry vector_add(", ".weak .entry vector_add(");
    assert_ne!(text, TEXT);
    let arguments = [input(4000), input(4000), output(4000), int(1000)];
    assert!(
        analysis(&text, "vector_add")
            .evaluate(&line(arguments))
            .is_proven()
    );
}

#[test]
fn a_contract_prints_preconditions_with_lines() {
    let arguments = [input(4000), input(4000), output(4000), int(1000)];
    let verdict = evaluate("vector_add", &line(arguments));
    let expected = "\
vector_add:
  4·vector_add_param_3 ≤ bytes(vector_add_param_1), reads, PTX line 56, known.cu:5; aligned to 4
  4·vector_add_param_3 ≤ bytes(vector_add_param_0), reads, PTX line 57, known.cu:5; aligned to 4
  4·vector_add_param_3 ≤ bytes(vector_add_param_2), writes, PTX line 63, known.cu:5; aligned to 4
";
    assert_eq!(verdict.to_string(), expected);
    let sizes = verdict
        .contract()
        .unwrap()
        .preconditions
        .iter()
        .map(|p| (p.bytes, p.is_written));
    assert_eq!(
        sizes.collect::<Vec<_>>(),
        [(4000, false), (4000, false), (4000, true)]
    );
    let verdict = evaluate("off_by_one", &line([input(4000), output(4000), int(1000)]));
    let expected = "  not proven: ld.global.f32, PTX line 1158, known.cu:120: \
                    it may access the bytes 0..4004, but the memory has 4000 bytes\n";
    assert!(verdict.to_string().contains(expected), "{verdict}");
}

/// A kernel that loads word `tid & mask` of a constant array with four words.
fn constant_table(mask: u32) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n\
         .const .align 4 .b32 t[4] = {{10, 20, 30, 40}};\n\
         .visible .entry k(.param .u64 out) {{\n\
         .reg .b32 %r<4>; .reg .b64 %d<5>;\n\
         ld.param.u64 %d1, [out];\nmov.u32 %r1, %tid.x;\nand.b32 %r2, %r1, {mask};\n\
         mul.wide.u32 %d2, %r2, 4;\nmov.u64 %d3, t;\nadd.s64 %d3, %d3, %d2;\n\
         ld.const.u32 %r3, [%d3];\nmul.wide.u32 %d2, %r1, 4;\nadd.s64 %d4, %d1, %d2;\n\
         st.global.u32 [%d4], %r3;\nret;\n}}\n"
    )
}

#[test]
fn an_index_in_a_constant_bank_is_proven_or_not() {
    let evaluate = |mask, threads| {
        let launch = launch([1, 1, 1], [threads, 1, 1], [output(128)]);
        analysis(&constant_table(mask), "k").evaluate(&launch)
    };
    let verdict = evaluate(3, 32);
    assert!(verdict.is_proven(), "{verdict}");
    // No instruction can write the table, so the kernel reads it like a variable of its own.
    assert_eq!(verdict.contract().unwrap().variables, [""; 0]);
    assert_eq!(analysis(&constant_table(3), "k").tables(), ["t"]);
    let visible = constant_table(3).replace(".const .align", ".visible .const .align");
    assert_eq!(analysis(&visible, "k").variables(), ["t"]);
    let verdict = evaluate(7, 32);
    let expected = Reason::OutOfRange {
        low: 0,
        high: 32,
        bytes: 16,
    };
    assert_eq!(reasons(&verdict), [expected], "{verdict}");
    assert!(verdict.to_string().contains("ld.const.u32, PTX line 13"));
    // Only four threads.
    assert!(evaluate(7, 4).is_proven());
    assert!(!evaluate(7, 5).is_proven());
}
