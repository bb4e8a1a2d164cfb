//! Wrong claims, each of which the test must find.

use crate::item;
use crate::options::Options;
use crate::parent::{self, Ended};
use crate::planted::Defect;

/// The wrong claims, with instructions for which each must be found.
const PLANTED: &[(Defect, &[&str])] = &[
    (
        Defect::LessHigh,
        &[
            "add.u32 %r0, %r1, %r2;",
            "mul.wide.s32 %d0, %r1, %r2;",
            "and.b32 %r0, %r1, %r2;",
            "popc.b32 %r0, %r1;",
            "shr.s32 %r0, %r1, %r2;",
            "setp.lt.s32 %p0, %r",
            "mov.u32 %r0, %tid.x;",
            "ld.global.u8 %b0, [%a1",
        ],
    ),
    (
        Defect::LessLow,
        &[
            "sub.u64 %d0, %d",
            "min.s32 %r0, %r1, %r2;",
            "rem.u32 %r0, %r1, %r2;",
            "not.b64 %d0, %d",
        ],
    ),
    (Defect::Never, &["setp.lt.s32 %p0, %r"]),
    (
        Defect::Short,
        &[
            "ld.global.ca.b32 %r0, [%a1",
            "ld.shared.",
            "st.global.u32 [%a0], %r1;",
            "atom.shared.add.u32 %r0, [%a1",
            "ld.param.u32 %r0, [n];",
        ],
    ),
    (
        Defect::Long,
        &[
            "ld.global.ca.b32 %r0, [%a1",
            "st.global.u32 [%a0], %r1;",
            "atom.shared.add.u32 %r0, [%a1",
            "ld.param.u32 %r0, [n];",
        ],
    ),
    (
        Defect::Space,
        &[
            "ld.global.ca.b32 %r0, [%a1",
            "st.global.u32 [%a0], %r1;",
            "st.cs.",
        ],
    ),
];

/// Plants each wrong claim. Returns whether all are found, and nothing without them.
pub(crate) fn run(options: &Options) -> bool {
    let items = item::items();
    let runs = item::runs(&items);
    let mut is_right = true;
    let (mut planted, mut found) = (0, 0);
    for &(defect, texts) in PLANTED {
        let mut chosen = Vec::new();
        for text in texts {
            let number = runs
                .iter()
                .position(|run| items[run.item].text.starts_with(*text));
            match number {
                Some(number) => chosen.push(number),
                None => {
                    println!("no instruction of the list begins with {text}");
                    is_right = false;
                }
            }
        }
        for planted_defect in [None, Some(defect)] {
            let options = Options {
                defect: planted_defect,
                workers: 1,
                ..options.clone()
            };
            let outcomes = match parent::execute(&options, &items, &runs, &chosen) {
                Ok(outcomes) => outcomes,
                Err(message) => {
                    println!("no worker was started: {message}");
                    return false;
                }
            };
            for number in &chosen {
                let text = &items[runs[*number].item].text;
                let is_found = match outcomes.get(number) {
                    Some(Ended::Done(report)) => !report.faults.is_empty(),
                    other => {
                        println!("{text}: {other:?}");
                        is_right = false;
                        continue;
                    }
                };
                if planted_defect.is_some() {
                    planted += 1;
                    found += u32::from(is_found);
                }
                if is_found != planted_defect.is_some() {
                    println!(
                        "{text}: {} with {planted_defect:?}",
                        match is_found {
                            true => "a finding",
                            false => "no finding",
                        }
                    );
                    is_right = false;
                }
            }
        }
    }
    println!("self-test: {found} of {planted} wrong claims are found");
    is_right && found == planted && planted > 0
}
