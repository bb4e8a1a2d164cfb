//! Diagnosis of deadlocked blocks.

use super::barrier::Common;
use super::check::threads;
use super::fault::{Detail, FaultKind};
use super::lane_fault::LaneFault;
use super::space::Env;
use super::warp::{Wait, Warp};

/// The reason why no thread of a block can make progress, as a fault of one of its warps, with
/// the number of that warp.
pub(super) fn stuck(warps: &[Warp], common: &Common, env: &Env<'_>) -> (usize, LaneFault) {
    let at_barrier = warps.iter().enumerate().find_map(|(index, warp)| {
        let mut waiting = warp.fragments.iter();
        waiting.find_map(|fragment| match fragment.wait {
            Wait::Barrier { id, .. } | Wait::Reduction { id, .. } if fragment.mask != 0 => {
                Some((index, fragment.mask, id))
            }
            _ => None,
        })
    });
    let begin = "no thread of the block can make progress";
    if let Some((index, mask, id)) = at_barrier {
        let (arrived, expected) = common.attendance(id);
        let there: u32 = arrived.iter().map(|lanes| lanes.count_ones()).sum();
        let message = match expected {
            Some(expected) => {
                format!("{begin}: {there} of {expected} threads have arrived at barrier {id}")
            }
            None => format!(
                "{begin}: {there} threads have arrived at barrier {id}, and the others never do"
            ),
        };
        let absent: Vec<u32> = warps
            .iter()
            .zip(arrived)
            .map(|(warp, &arrived)| warp.live & !arrived)
            .collect();
        return (index, lane_fault(warps, &absent, mask, message, env));
    }
    let index = warps.iter().position(|warp| warp.live != 0);
    let index = index.unwrap_or_default();
    let Some(warp) = warps.get(index) else {
        return (0, LaneFault::new(FaultKind::Timeout, 1, begin));
    };
    let first = warp.fragments.iter().find(|fragment| fragment.mask != 0);
    let mask = first.map_or(warp.live, |fragment| fragment.mask);
    let message = match first.map(|fragment| fragment.wait) {
        Some(Wait::Cluster) => {
            format!("{begin}: threads of the cluster never arrive at its barrier")
        }
        _ => format!("{begin}: lanes of a warp wait for lanes that never arrive"),
    };
    let mut absent = vec![0; warps.len()];
    absent[index] = warp.live & !mask;
    (index, lane_fault(warps, &absent, mask, message, env))
}

/// The fault of the lanes `mask`, which wait for the lanes `absent` of each warp.
fn lane_fault(
    warps: &[Warp],
    absent: &[u32],
    mask: u32,
    message: String,
    env: &Env<'_>,
) -> LaneFault {
    let mut missing = Vec::new();
    let mut first = None;
    for (warp, &absent) in warps.iter().zip(absent) {
        let these = threads(warp, absent);
        if let (None, Some(&thread)) = (&first, these.first()) {
            let lane = 1 << absent.trailing_zeros();
            let mut parts = warp.fragments.iter();
            let pc = parts.find(|part| part.mask & lane != 0);
            let pc = pc.map_or(0, |part| part.standing());
            first = Some(env.program.place(env.kernel, pc, warp.ctaid, thread));
        }
        missing.extend(these);
    }
    let detail = Detail::Barrier { missing, first };
    LaneFault::new(FaultKind::Timeout, mask, message).with(None, detail)
}
