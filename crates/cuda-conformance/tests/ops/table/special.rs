//! Special registers, and barriers that reduce predicates.

use crate::kernel::BLOCK;
use crate::operation::{Operation, Source, below};

pub(crate) fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    lanes(&mut all);
    barriers(&mut all);
    elections(&mut all);
    all
}

fn lanes(all: &mut Vec<Operation>) {
    type OfLane = fn(u64) -> u64;
    let ones = |count: u64| (1_u64 << count) - 1;
    assert_eq!(ones(32), 0xffff_ffff);
    let list: [(&str, OfLane); 8] = [
        ("laneid", |lane| lane),
        ("lanemask_eq", |lane| 1 << lane),
        ("lanemask_lt", |lane| (1 << lane) - 1),
        ("lanemask_le", |lane| (2 << lane) - 1),
        ("lanemask_gt", |lane| 0xffff_ffff & !((2 << lane) - 1)),
        ("lanemask_ge", |lane| 0xffff_ffff & !((1 << lane) - 1)),
        ("ntid.x", |_| 128),
        ("nctaid.y", |_| 1),
    ];
    for (name, f) in list {
        let text = format!("mov.u32 %d, %{name};");
        let sources: [Source; 1] = ["b32".into()];
        let reference = move |_: &[Vec<u64>]| (0..32).map(|lane| [f(lane), 0]).collect();
        let one = Operation::warp(text, &sources, &["u32"], reference);
        all.push(one.named(format!("mov.u32 %{name}")));
    }
    let one = Operation::new("mov.u32 %d, WARP_SZ;", &["b32"], "u32", |_| 32);
    all.push(one.named("mov.u32 WARP_SZ"));
    let text = "setp.lt.u32 %p, %a, 5; @%p bra LESS; activemask.b32 %d; bra DONE; LESS: activemask.b32 %d; DONE:";
    let sources = [below("u32", 1)];
    // All lanes branch the same way, so that the set of active lanes is known.
    let reference = |_: &[Vec<u64>]| vec![[0xffff_ffff, 0]; 32];
    let one = Operation::warp(text, &sources, &["b32"], reference);
    all.push(one.named("activemask.b32"));
}

/// Barriers of the whole block.
fn barriers(all: &mut Vec<Operation>) {
    for (name, limit) in [("popc", 5), ("and", 11), ("or", 1), ("and", 12), ("or", 0)] {
        for (first, instruction) in ["bar.red", "barrier.cta.red"].into_iter().enumerate() {
            let text = match name {
                "popc" => {
                    format!("setp.lt.u32 %p, %a, {limit}; {instruction}.popc.u32 %d, {first}, %p;")
                }
                _ => format!(
                    "setp.lt.u32 %p, %a, {limit}; {instruction}.{name}.pred %q, {first}, %p; selp.u32 %d, 1, 0, %q;"
                ),
            };
            let reference = move |block: &[Vec<u64>]| {
                let yes = block.iter().filter(|v| v[0] < limit).count();
                let value = match name {
                    "popc" => yes as u64,
                    "and" => u64::from(yes == block.len()),
                    _ => u64::from(yes > 0),
                };
                vec![[value, 0]; block.len()]
            };
            let sources = [below("u32", 12)];
            let one = Operation::group(BLOCK, text, &sources, &["u32"], reference);
            let ty = if name == "popc" { "u32" } else { "pred" };
            all.push(one.named(format!("{instruction}.{name}.{ty}")));
        }
    }
}

fn elections(all: &mut Vec<Operation>) {
    let text = "elect.sync %d|%p, 0xffffffff; selp.u32 %e, 1, 0, %p; mov.u32 %d, 0;";
    let sources: [Source; 1] = ["b32".into()];
    // The ISA does not define which lane is elected, only that there is exactly one.
    let text = format!(
        "{text} setp.ne.u32 %q, %e, 0; vote.sync.ballot.b32 %e, %q, 0xffffffff; popc.b32 %e, %e;"
    );
    let reference = |_: &[Vec<u64>]| vec![[0, 1]; 32];
    let one = Operation::warp(text, &sources, &["b32", "b32"], reference);
    all.push(one.named("elect.sync").since(90));
}
