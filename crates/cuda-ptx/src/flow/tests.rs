use fastrand::Rng;

use super::graph::Graph;
use super::{Kernel, Op, Refused, Source, lower};

/// The kernel with this body, with registers `%r0` to `%r9`, `%d0` to `%d9`, `%p0` to `%p9`.
fn kernel(body: &str) -> Result<Kernel, Refused> {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n\
         .visible .entry k(.param .u64 x, .param .u32 n) {{\n\
         .reg .pred %p<10>; .reg .b32 %r<10>; .reg .b64 %d<10>;\n{body}\n}}\n"
    );
    let module = crate::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    lower(&module.variables, &module.functions[0])
}

/// Whether `to` is reachable from the entry without `avoided`.
fn is_reachable(succs: &[Vec<u32>], avoided: Option<u32>, to: u32) -> bool {
    let mut seen = vec![false; succs.len()];
    let mut work = vec![0];
    while let Some(block) = work.pop() {
        if Some(block) != avoided && !std::mem::replace(&mut seen[block as usize], true) {
            work.extend(&succs[block as usize]);
        }
    }
    seen[to as usize]
}

#[test]
fn dominators_agree_with_their_definition() {
    let mut rng = Rng::with_seed(1);
    for _ in 0..2000 {
        let count = rng.u32(1..12);
        let mut succs: Vec<Vec<u32>> = vec![Vec::new(); count as usize];
        for list in &mut succs {
            for _ in 0..rng.u32(..4) {
                let to = rng.u32(..count);
                // Nothing branches to the entry.
                if to != 0 && !list.contains(&to) {
                    list.push(to);
                }
            }
        }
        let graph = Graph::new(&succs).unwrap();
        for above in 0..count {
            for below in 0..count {
                if !is_reachable(&succs, None, below) || !is_reachable(&succs, None, above) {
                    continue;
                }
                let expected = above == below || !is_reachable(&succs, Some(above), below);
                assert_eq!(
                    graph.dominates(above, below),
                    expected,
                    "{above} {below} {succs:?}"
                );
            }
        }
        let reachable = (0..count).filter(|&block| is_reachable(&succs, None, block));
        assert_eq!(graph.order.len(), reachable.count());
    }
}

/// The operations of a kernel that define a value, by that value.
fn definitions(kernel: &Kernel) -> Vec<(u32, Op, Vec<u32>)> {
    let mut found = Vec::new();
    for block in &kernel.blocks {
        for ins in &block.ins {
            let sources = ins.sources.iter().filter_map(|source| match source {
                Source::Value(value) => Some(*value),
                _ => None,
            });
            found.extend(ins.target.map(|target| (target, ins.op, sources.collect())));
        }
    }
    found
}

#[test]
fn each_definition_is_one_value() {
    let kernel = kernel(
        "mov.u32 %r1, 1;\nadd.u32 %r1, %r1, %r1;\n{ .reg .b32 %r1; mov.u32 %r1, 2; }\n\
         add.u32 %r2, %r1, %r1;",
    )
    .unwrap();
    let found = definitions(&kernel);
    let [first, second, inner, last] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(second.2, [first.0, first.0]);
    assert!(inner.2.is_empty());
    assert_eq!(last.2, [second.0, second.0]);
    let mut values: Vec<u32> = found.iter().map(|(value, ..)| *value).collect();
    values.dedup();
    assert_eq!(values.len(), 4);
}

#[test]
fn a_loop_merges_values_at_its_header() {
    let kernel = kernel(
        "mov.u32 %r1, 0;\n$top: add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 9;\n\
         @%p1 bra $top;\nadd.u32 %r2, %r1, %r1;",
    )
    .unwrap();
    let phis: Vec<_> = kernel.blocks.iter().flat_map(|block| &block.phis).collect();
    let merged = phis
        .iter()
        .find(|phi| phi.args.iter().all(|&arg| arg != 0))
        .unwrap();
    let found = definitions(&kernel);
    assert_eq!(found[1].2, [merged.target]);
    let mut args = merged.args.clone();
    args.sort_unstable();
    assert_eq!(args, [found[0].0, found[1].0]);
    // The loop has one back edge, from the block of its condition.
    let graph = &kernel.graph;
    let back = graph.order.iter().flat_map(|&to| {
        let preds = graph.preds[to as usize].iter();
        preds.filter(move |&&from| graph.is_back_edge(from, to))
    });
    assert_eq!(back.count(), 1);
}

#[test]
fn a_value_that_may_not_be_set_is_undefined() {
    let kernel = kernel(
        "setp.eq.u32 %p1, %r9, 0;\n@%p1 bra $skip;\nmov.u32 %r1, 1;\n$skip:\n\
         add.u32 %r2, %r1, 1;\nmov.u32 %r3, 4;",
    )
    .unwrap();
    let found = definitions(&kernel);
    let is_undefined = |index: usize| kernel.is_undefined[found[index].0 as usize];
    let undefined = found
        .iter()
        .map(|(value, ..)| kernel.is_undefined[*value as usize]);
    let expected = [true, true, true, false, true, false];
    assert_eq!(undefined.collect::<Vec<_>>(), expected, "{found:?}");
    assert!(is_undefined(4));
}

/// The loads from parameter space in a kernel with a struct of 24 bytes: the parameter, the offset
/// and the size of each, or `None` if its result is unknown.
fn loaded(body: &str) -> Vec<Option<(u32, u64, u32)>> {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n\
         .visible .entry k(.param .u64 x, .param .align 8 .b8 s[24]) {{\n\
         .reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 %d<5>;\n{body}\n}}\n"
    );
    let module = crate::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let kernel = lower(&module.variables, &module.functions[0]).unwrap();
    let ins = kernel.blocks.iter().flat_map(|block| &block.ins);
    let loads = ins.filter_map(|ins| match ins.op {
        Op::Param {
            param,
            offset,
            size,
            ..
        } => Some(Some((param, offset, size))),
        Op::Unknown { .. } => Some(None),
        _ => None,
    });
    loads.collect()
}

#[test]
fn parameters_are_loaded_through_registers() {
    for (body, expected) in [
        (
            "mov.b64 %d1, s; ld.param.u32 %r1, [%d1];",
            vec![Some((1, 0, 4))],
        ),
        (
            "mov.u64 %d1, s+8; ld.param.u32 %r1, [%d1+4];",
            vec![Some((1, 12, 4))],
        ),
        (
            "mov.b64 %d1, s; add.s64 %d2, %d1, 16; mov.b64 %d1, x; ld.param.u64 %d3, [%d2];",
            vec![Some((1, 16, 8))],
        ),
        (
            "mov.b64 %d1, s; add.s64 %d2, %d1, -8; ld.param.v2.u32 {%r1, %r2}, [%d2+16];",
            vec![Some((1, 8, 4)), Some((1, 12, 4))],
        ),
        (
            "mov.b64 %d1, x; bra $next; $next: ld.param.u64 %d2, [%d1];",
            vec![Some((0, 0, 8))],
        ),
        // A store or a call between them does not change a parameter of a kernel.
        (
            "mov.b64 %d1, s; st.shared.u32 [%d2], %r1; ld.param.u32 %r1, [%d1+20];",
            vec![Some((1, 20, 4))],
        ),
    ] {
        assert_eq!(loaded(body), expected, "{body}");
    }
}

#[test]
fn other_loads_from_parameter_space_are_unknown() {
    for body in [
        // The address is beyond the parameter, or before it.
        "mov.b64 %d1, s; ld.param.u32 %r1, [%d1+24];",
        "mov.b64 %d1, s; ld.param.u64 %d2, [%d1+20];",
        "mov.b64 %d1, s; ld.param.u32 %r1, [%d1+-4];",
        // The register may have another value.
        "mov.b64 %d1, x; @%p1 mov.b64 %d1, s; ld.param.u32 %r1, [%d1];",
        "mov.b64 %d1, x; @%p1 bra $next; mov.b64 %d1, s; $next: ld.param.u32 %r1, [%d1];",
        "mov.b64 %d1, s; $top: ld.param.u32 %r1, [%d1]; add.s64 %d1, %d1, 4; @%p1 bra $top;",
        "@%p1 mov.b64 %d1, s; ld.param.u32 %r1, [%d1];",
        "ld.param.u32 %r1, [%d1];",
        // The distance from the start is not a number.
        "mov.b64 %d1, s; add.s64 %d1, %d1, %d2; ld.param.u32 %r1, [%d1];",
    ] {
        assert_eq!(loaded(body), [None], "{body}");
    }
}

/// The line on which the body of [`kernel`] begins.
const BODY: u32 = 6;

#[test]
fn unmodelled_instructions_are_refused_with_their_line() {
    // The last number is the line in the body.
    for (body, expected, line) in [
        ("ret;\ncall helper;", "call of a function", 1),
        ("st.param.u32 [x], %r1;", "call of a function", 0),
        ("\n\nst.const.u32 [%d1], %r1;", "store to constants", 2),
        (
            "tex.2d.v4.f32.s32\n{%r1, %r2, %r3, %r4}, [%d1, {%r5, %r6}];",
            "textures and surfaces",
            0,
        ),
        (
            "mov.u32 %r1, 1; /*\n*/ frobnicate.u32 %r1, %r2;",
            "unknown instruction",
            1,
        ),
        (
            "\nld.shared::cluster.u32 %r1, [%r2];",
            "shared memory of another block",
            1,
        ),
        (
            "mapa.shared::cluster.u32 %r1, %r2, %r3;\nst.shared::cluster.u32 [%r1], %r2;",
            "shared memory of another block",
            1,
        ),
        (
            "\ncp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%d1], 16, [%r2];",
            "bulk copies",
            1,
        ),
        (
            "\n\ncp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes \
             [%r1], [%d1, {%r2}], [%r3];",
            "bulk copies",
            2,
        ),
        (
            "\ntensormap.replace.tile.global_address.global.b1024.b64 [%d1], %d2;",
            "unknown instruction: tensormap",
            1,
        ),
        ("\nst.async.u32 [%r1], %r2;", "asynchronous", 1),
        (
            "\nwgmma.fence.sync.aligned;",
            "unknown instruction: wgmma",
            1,
        ),
        (
            "\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2];",
            "unknown instruction: tcgen05",
            1,
        ),
        ("\nbra $nowhere;", "label $nowhere is not defined", 1),
        ("$a:\n$a:", "label $a is defined twice", 1),
        (
            "$a: $t: .branchtargets $a, $a;\n{ mov.u32 %r1, 1; $t: .branchtargets $a, $a; }",
            "table $t is defined twice",
            1,
        ),
        ("\nld.global.x7 %r1, [%d1];", "unknown type", 1),
    ] {
        let refused = kernel(body).unwrap_err();
        let reason = &refused.reason;
        assert!(reason.contains(expected), "{body}: {reason}");
        assert_eq!(refused.line, BODY + line, "{body}: {reason}");
    }
}

#[test]
fn a_grid_that_counts_clusters_is_refused() {
    let text = ".version 9.0\n.target sm_100\n.visible .entry\nk()\n\
                .reqntid 32 .reqnctapercluster 2 .blocksareclusters\n{ ret; }";
    let module = crate::parse(text).unwrap();
    let refused = lower(&module.variables, &module.functions[0]).unwrap_err();
    assert_eq!(
        (refused.reason.as_str(), refused.line),
        ("`.blocksareclusters`", 4)
    );
}
