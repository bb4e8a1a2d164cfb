//! Operations across the lanes of a warp.

use crate::number::{F32, Mode, Number};
use crate::operation::{Operation, Source, Ty, below, bits};
use crate::table::float::{greater, smaller};
use crate::table::integer::int;

/// The mask of the participating lanes: a lane belongs to the group that its source `%c` selects.
///
/// The lanes of a group take their own branch, so that each instruction runs with several masks.
const ALL: u32 = 0xffff_ffff;

/// The participating lanes: the even and the odd ones as separate groups, or all of them as one.
fn groups(apart: bool) -> Vec<Vec<usize>> {
    match apart {
        false => vec![(0..32).collect()],
        true => vec![(0..32).step_by(2).collect(), (1..32).step_by(2).collect()],
    }
}

/// Code that runs `text`, where `MASK` is the mask, for all lanes, or separately for the even and
/// the odd ones.
fn spread(text: &str, apart: bool) -> String {
    if !apart {
        return text.replace("MASK", &format!("{ALL:#x}"));
    }
    let (even, odd) = (
        text.replace("MASK", "0x55555555"),
        text.replace("MASK", "0xaaaaaaaa"),
    );
    format!(
        "{{ .reg .b32 %lane; .reg .pred %odd; mov.u32 %lane, %laneid; and.b32 %lane, %lane, 1;
setp.eq.u32 %odd, %lane, 1; @%odd bra ODD;
{even}
bra DONE;
ODD:
{odd}
DONE: }}"
    )
}

/// Adds one operation for all lanes, and one for two groups. `f` gets the lane's index within its
/// group, and the sources of the group.
fn both(
    all: &mut Vec<Operation>,
    name: &str,
    text: &str,
    sources: &[Source],
    to: &[Ty],
    f: impl Fn(usize, &[(usize, &[u64])]) -> [u64; 2] + Copy + 'static,
) {
    for apart in [false, true] {
        let reference = move |warp: &[Vec<u64>]| {
            let mut results = vec![[0; 2]; 32];
            for group in groups(apart) {
                let members: Vec<(usize, &[u64])> =
                    group.iter().map(|&lane| (lane, &warp[lane][..])).collect();
                for (at, &lane) in group.iter().enumerate() {
                    results[lane] = f(at, &members);
                }
            }
            results
        };
        let one = Operation::warp(spread(text, apart), sources, to, reference);
        all.push(one.named(name));
    }
}

pub(crate) fn operations() -> Vec<Operation> {
    let mut all = Vec::new();
    shuffles(&mut all);
    votes(&mut all);
    matches(&mut all);
    reductions(&mut all);
    float_reductions(&mut all);
    all
}

fn shuffles(all: &mut Vec<Operation>) {
    type Choose = fn(i64, i64) -> i64;
    let modes: [(&str, Choose); 4] = [
        ("up", |lane, by| lane - by),
        ("down", |lane, by| lane + by),
        ("bfly", |lane, by| lane ^ by),
        ("idx", |_, by| by),
    ];
    for (mode, choose) in modes {
        // Segments of 32, 16 and 8 lanes.
        for width in [32_i64, 16, 8] {
            let clamp = if mode == "up" { 0 } else { 31 };
            let shape = (32 - width) << 8 | clamp;
            let text = format!(
                "shfl.sync.{mode}.b32 %d|%p, %a, %b, {shape:#x}, {ALL:#x}; selp.u32 %e, 1, 0, %p;"
            );
            let reference = move |warp: &[Vec<u64>]| {
                (0..32_i64)
                    .map(|lane| {
                        let by = warp[lane as usize][1] as i64 & 31;
                        let first = lane / width * width;
                        let from = match mode {
                            "idx" => first + by % width,
                            _ => choose(lane, by),
                        };
                        let inside = match mode {
                            "up" => from >= first,
                            _ => from < first + width,
                        };
                        let from = if inside { from } else { lane };
                        [warp[from as usize][0], u64::from(inside)]
                    })
                    .collect()
            };
            let sources = ["b32".into(), below("u32", 32)];
            let one = Operation::warp(text, &sources, &["b32", "u32"], reference);
            all.push(one.named(format!("shfl.sync.{mode}.b32")));
        }
    }
}

fn votes(all: &mut Vec<Operation>) {
    // Sources that are often equal in all lanes.
    let sources: [Source; 1] = [below("u32", 12)];
    for (name, limit) in [
        ("any", 1),
        ("all", 11),
        ("uni", 1),
        ("any", 0),
        ("all", 12),
        ("uni", 0),
    ] {
        for negated in [false, true] {
            let not = if negated { "!" } else { "" };
            let text = format!(
                "setp.lt.u32 %p, %a, {limit}; vote.sync.{name}.pred %q, {not}%p, MASK; selp.u32 %d, 1, 0, %q;"
            );
            let full = format!("vote.sync.{name}.pred");
            both(all, &full, &text, &sources, &["u32"], move |_, group| {
                let yes = group
                    .iter()
                    .filter(|(_, v)| (v[0] < limit) != negated)
                    .count();
                let holds = match name {
                    "any" => yes > 0,
                    "all" => yes == group.len(),
                    _ => yes == 0 || yes == group.len(),
                };
                [holds.into(), 0]
            });
        }
    }
    let text = "setp.lt.u32 %p, %a, 5; vote.sync.ballot.b32 %d, %p, MASK;";
    both(
        all,
        "vote.sync.ballot.b32",
        text,
        &sources,
        &["b32"],
        |_, group| {
            let yes = group.iter().filter(|(_, v)| v[0] < 5);
            [yes.map(|(lane, _)| 1 << lane).sum(), 0]
        },
    );
}

fn matches(all: &mut Vec<Operation>) {
    for ty in ["b32", "b64"] {
        for limit in [1, 3, 40] {
            let sources: [Source; 1] = [below(ty, limit)];
            let name = format!("match.any.sync.{ty}");
            let text = format!("{name} %d, %a, MASK;");
            both(all, &name, &text, &sources, &["b32"], |at, group| {
                let alike = group.iter().filter(|(_, v)| v[0] == group[at].1[0]);
                [alike.map(|(lane, _)| 1 << lane).sum(), 0]
            });
            let name = format!("match.all.sync.{ty}");
            let text = format!("{name} %d|%p, %a, MASK; selp.u32 %e, 1, 0, %p;");
            both(all, &name, &text, &sources, &["b32", "u32"], |_, group| {
                let alike = group.iter().all(|(_, v)| v[0] == group[0].1[0]);
                match alike {
                    true => [group.iter().map(|(lane, _)| 1 << lane).sum(), 1],
                    false => [0, 0],
                }
            });
        }
    }
}

fn reductions(all: &mut Vec<Operation>) {
    type Combine = fn(i128, i128) -> i128;
    let list: [(&str, Ty, Combine); 9] = [
        ("add", "u32", |a, b| a + b),
        ("add", "s32", |a, b| a + b),
        ("min", "u32", |a, b| a.min(b)),
        ("min", "s32", |a, b| a.min(b)),
        ("max", "u32", |a, b| a.max(b)),
        ("max", "s32", |a, b| a.max(b)),
        ("and", "b32", |a, b| a & b),
        ("or", "b32", |a, b| a | b),
        ("xor", "b32", |a, b| a ^ b),
    ];
    let from = all.len();
    for (name, ty, combine) in list {
        let name = format!("redux.sync.{name}.{ty}");
        let text = format!("{name} %d, %a, MASK;");
        let sources: [Source; 1] = [ty.into()];
        both(all, &name, &text, &sources, &[ty], move |_, group| {
            let values = group.iter().map(|(_, v)| int(ty, v[0]));
            [values.reduce(combine).unwrap() as u64, 0]
        });
    }
    for one in all.drain(from..).collect::<Vec<_>>() {
        all.push(one.since(80));
    }
}

/// Reductions of floats, from `sm_100` on.
fn float_reductions(all: &mut Vec<Operation>) {
    assert_eq!(bits("f32"), 32);
    for (name, is_max) in [("min", false), ("max", true)] {
        for abs in [false, true] {
            for nan in [false, true] {
                let suffix = format!(
                    "{}{}",
                    if abs { ".abs" } else { "" },
                    if nan { ".NaN" } else { "" }
                );
                let name = format!("redux.sync.{name}{suffix}.f32");
                let text = format!("{name} %d, %a, {ALL:#x};");
                let reference = move |warp: &[Vec<u64>]| {
                    let numbers = warp.iter().map(|v| {
                        let bits = if abs { v[0] & !F32.sign() } else { v[0] };
                        Number::read(bits, F32)
                    });
                    let choose = if is_max { greater } else { smaller };
                    let chosen = numbers.reduce(|a, b| choose(&a, &b, nan)).unwrap();
                    vec![[chosen.round(F32, Mode::Near), 0]; 32]
                };
                let sources: [Source; 1] = ["f32".into()];
                let one = Operation::warp(text, &sources, &["f32"], reference);
                all.push(one.since(100).version(8, 6));
            }
        }
    }
}
