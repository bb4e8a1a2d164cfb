//! Special registers.

use super::lanes::{Over, each};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::code::{Ins, Kind, LaneFault};
use super::fault::FaultKind;
use super::lanes::{LANES, MemoryOp, memory_fn};
use super::space::Env;
use super::warp::Warp;

/// A special register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    Cluster(u8),
    Clusters(u8),
    InCluster(u8),
    ClusterSize(u8),
    Rank,
    Ranks,
    Lane,
    Warp,
    Warps,
    Sm,
    Sms,
    Grid,
    Clock,
    ClockHigh,
    Timer,
    TimerHigh,
    LaneMaskEq,
    LaneMaskLe,
    LaneMaskLt,
    LaneMaskGe,
    LaneMaskGt,
    SharedBytes,
    DynamicSharedBytes,
    WorkspaceLow,
    WorkspaceHigh,
}

/// All special registers, in the order of their numbers in `Ins::imm`.
const ALL: [Special; 45] = {
    use Special::*;
    [
        Tid(0),
        Tid(1),
        Tid(2),
        Ntid(0),
        Ntid(1),
        Ntid(2),
        Ctaid(0),
        Ctaid(1),
        Ctaid(2),
        Nctaid(0),
        Nctaid(1),
        Nctaid(2),
        Cluster(0),
        Cluster(1),
        Cluster(2),
        Clusters(0),
        Clusters(1),
        Clusters(2),
        InCluster(0),
        InCluster(1),
        InCluster(2),
        ClusterSize(0),
        ClusterSize(1),
        ClusterSize(2),
        Rank,
        Ranks,
        Lane,
        Warp,
        Warps,
        Sm,
        Sms,
        Grid,
        Clock,
        ClockHigh,
        Timer,
        TimerHigh,
        LaneMaskEq,
        LaneMaskLe,
        LaneMaskLt,
        LaneMaskGe,
        LaneMaskGt,
        SharedBytes,
        DynamicSharedBytes,
        WorkspaceLow,
        WorkspaceHigh,
    ]
};

/// The special register `name.member`.
pub(super) fn parse(name: &str, member: &str) -> Option<Special> {
    let axis = match member {
        "x" => Some(0),
        "y" => Some(1),
        "z" => Some(2),
        _ => None,
    };
    if let Some(axis) = axis {
        return match name {
            "%tid" => Some(Special::Tid(axis)),
            "%ntid" => Some(Special::Ntid(axis)),
            "%ctaid" => Some(Special::Ctaid(axis)),
            "%nctaid" => Some(Special::Nctaid(axis)),
            "%clusterid" => Some(Special::Cluster(axis)),
            "%nclusterid" => Some(Special::Clusters(axis)),
            "%cluster_ctaid" => Some(Special::InCluster(axis)),
            "%cluster_nctaid" => Some(Special::ClusterSize(axis)),
            _ => None,
        };
    }
    if !member.is_empty() {
        return None;
    }
    Some(match name {
        "%laneid" => Special::Lane,
        "%warpid" => Special::Warp,
        "%nwarpid" => Special::Warps,
        "%smid" => Special::Sm,
        "%nsmid" => Special::Sms,
        "%gridid" => Special::Grid,
        "%clock" | "%clock64" => Special::Clock,
        "%clock_hi" => Special::ClockHigh,
        "%globaltimer" | "%globaltimer_lo" => Special::Timer,
        "%globaltimer_hi" => Special::TimerHigh,
        "%lanemask_eq" => Special::LaneMaskEq,
        "%lanemask_le" => Special::LaneMaskLe,
        "%lanemask_lt" => Special::LaneMaskLt,
        "%lanemask_ge" => Special::LaneMaskGe,
        "%lanemask_gt" => Special::LaneMaskGt,
        "%total_smem_size" | "%aggr_smem_size" => Special::SharedBytes,
        "%dynamic_smem_size" => Special::DynamicSharedBytes,
        "%envreg1" => Special::WorkspaceHigh,
        "%envreg2" => Special::WorkspaceLow,
        "%cluster_ctarank" => Special::Rank,
        "%cluster_nctarank" => Special::Ranks,
        _ => return None,
    })
}

/// Reads a 32-bit special register; [`read`] sets `imm`.
struct Read32<const N: usize>;
struct Read64<const N: usize>;

impl<const N: usize> MemoryOp for Read32<N> {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let value = value(w, env, ALL[N]).over(|value| value as u32);
        w.put32(i.d, m, &value);
        Ok(())
    }
}

impl<const N: usize> MemoryOp for Read64<N> {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let value = value(w, env, ALL[N]);
        w.put64(i.d, m, &value);
        Ok(())
    }
}

/// The kind of an instruction that reads `special`, into a register of 64 bits if `wide`.
pub(super) fn read(special: Special, wide: bool, wide_cpu: bool) -> Kind {
    macro_rules! table {
        ($($n:literal)*) => {
            match ALL.iter().position(|&other| other == special) {
                $(Some($n) if wide => memory_fn::<Read64<$n>>(wide_cpu),)*
                $(Some($n) => memory_fn::<Read32<$n>>(wide_cpu),)*
                _ => memory_fn::<Read32<0>>(wide_cpu),
            }
        };
    }
    Kind::Memory(
        table!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29
        30 31 32 33 34 35 36 37 38 39 40 41 42 43 44),
    )
}

#[inline(always)]
fn value(w: &Warp, env: &Env<'_>, special: Special) -> [u64; LANES] {
    let launch = env.launch;
    let by_lane = |f: fn(u32) -> u32| each(|lane| u64::from(f(lane as u32)));
    let one = match special {
        Special::Tid(axis) => return w.tid[axis as usize].over(u64::from),
        Special::Ntid(axis) => launch.block[axis as usize].into(),
        Special::Ctaid(axis) => w.ctaid[axis as usize].into(),
        Special::Nctaid(axis) => launch.grid[axis as usize].into(),
        Special::Lane => return by_lane(|lane| lane),
        Special::LaneMaskEq => return by_lane(|lane| 1 << lane),
        Special::LaneMaskLt => return by_lane(|lane| (1 << lane) - 1),
        Special::LaneMaskLe => return by_lane(|lane| u32::MAX >> (31 - lane)),
        Special::LaneMaskGt => return by_lane(|lane| !(u32::MAX >> (31 - lane))),
        Special::LaneMaskGe => return by_lane(|lane| !((1 << lane) - 1)),
        Special::Warp => w.index as u64,
        Special::Warps => 64,
        Special::Sm => u64::from(w.ctaid[0] % launch.multiprocessors.max(1)),
        Special::Sms => launch.multiprocessors.into(),
        Special::Grid => env.grid_id,
        Special::Clock => now(),
        Special::ClockHigh => now() >> 32,
        Special::Timer => now(),
        Special::TimerHigh => now() >> 32,
        Special::SharedBytes => env.shared_bytes.into(),
        Special::DynamicSharedBytes => launch.dynamic_shared.into(),
        Special::WorkspaceLow => env.workspace & 0xffff_ffff,
        Special::WorkspaceHigh => env.workspace >> 32,
        Special::Cluster(axis) => {
            let axis = axis as usize;
            (w.ctaid[axis] / env.cluster[axis]).into()
        }
        Special::Clusters(axis) => {
            let axis = axis as usize;
            (launch.grid[axis] / env.cluster[axis]).into()
        }
        Special::InCluster(axis) => {
            let axis = axis as usize;
            (w.ctaid[axis] % env.cluster[axis]).into()
        }
        Special::ClusterSize(axis) => env.cluster[axis as usize].into(),
        Special::Rank => w.rank.into(),
        Special::Ranks => env.cluster.iter().product::<u32>().into(),
    };
    [one; LANES]
}

/// Nanoseconds, which never run backwards: the time of day at the first call, plus the time elapsed
/// since.
fn now() -> u64 {
    static START: OnceLock<(Instant, Duration)> = OnceLock::new();
    let (start, time) = START.get_or_init(|| {
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        (Instant::now(), time.unwrap_or_default())
    });
    (*time + start.elapsed()).as_nanos() as u64
}

struct DynamicShared<const WIDE: bool>;

impl<const WIDE: bool> MemoryOp for DynamicShared<WIDE> {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let value = u64::from(env.static_shared).wrapping_add(i.imm);
        if WIDE {
            w.put64(i.d, m, &[value; LANES]);
        } else {
            w.put32(i.d, m, &[value as u32; LANES]);
        }
        Ok(())
    }
}

/// The kind of an instruction that computes the start of dynamic shared memory, plus `imm`.
pub(super) fn dynamic_shared(wide: bool) -> Kind {
    Kind::Memory(if wide {
        memory_fn::<DynamicShared<true>>(false)
    } else {
        memory_fn::<DynamicShared<false>>(false)
    })
}

struct CommonShared<const WIDE: bool>;

impl<const WIDE: bool> MemoryOp for CommonShared<WIDE> {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let starts = env.program.shared.get(env.kernel);
        let start = starts.and_then(|starts| starts.get(&(i.a as usize)));
        let Some(&start) = start else {
            let message =
                String::from("the kernel's shared memory has no place for this shared variable");
            return Err(LaneFault::new(FaultKind::IllegalInstruction, m, message));
        };
        let value = u64::from(start).wrapping_add(i.imm);
        if WIDE {
            w.put64(i.d, m, &[value; LANES]);
        } else {
            w.put32(i.d, m, &[value as u32; LANES]);
        }
        Ok(())
    }
}

/// The kind of an instruction that computes the kernel's offset of shared variable number `a` (of
/// functions and modules), plus `imm`.
pub(super) fn common_shared(wide: bool) -> Kind {
    Kind::Memory(if wide {
        memory_fn::<CommonShared<true>>(false)
    } else {
        memory_fn::<CommonShared<false>>(false)
    })
}

struct ExplicitCluster;

impl MemoryOp for ExplicitCluster {
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        w.put_pred(i.d, m, u32::from(env.explicit_cluster).wrapping_neg());
        Ok(())
    }
}

/// The name of the only special register that is a predicate.
pub(super) const EXPLICIT_CLUSTER: &str = "%is_explicit_cluster";

/// The kind of an instruction that reads it.
pub(super) fn explicit_cluster() -> Kind {
    Kind::Memory(memory_fn::<ExplicitCluster>(false))
}
