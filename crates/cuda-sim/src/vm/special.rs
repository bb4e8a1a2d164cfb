//! Special registers. To add one, add a row to the table.

use super::vector::{Over, each};
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::code::{Ins, Kind};
use super::fault::FaultKind;
use super::lane_fault::LaneFault;
use super::lanes::{MemoryOp, memory_fn};
use super::space::{Env, RESERVED_SHARED_BYTES, RESERVED_SHARED_USED};
use super::vector::LANES;
use super::warp::Warp;

/// A special register.
#[derive(Debug)]
pub(super) struct Special {
    /// The names of PTX for it.
    names: &'static [&'static str],
    /// Returns the function that executes a read of this register. The first argument says whether
    /// the destination has 64 bits, the second is the result of `wide_cpu`.
    kind: fn(bool, bool) -> Kind,
}

impl Special {
    /// Whether it is an address in the shared memory that is reserved for the system.
    pub(super) fn is_in_reserved_shared(&self) -> bool {
        self.names
            .iter()
            .any(|name| name.starts_with("%reserved_smem_offset_"))
    }
}

/// Declares the table of special registers. A row has the names of one register and its value in
/// each lane of a warp. A row of `vectors` has three registers, whose names end in `.x`, `.y` and
/// `.z`, and a value that depends on the axis.
macro_rules! registers {
    (
        vectors |$vw:ident, $ve:ident, $axis:ident| {
            $($vector:literal => $component:expr;)*
        }
        scalars |$sw:ident, $se:ident| {
            $($($name:literal)|+ => $value:expr;)*
        }
    ) => {
        /// All special registers but [`EXPLICIT_CLUSTER`].
        static REGISTERS: &[Special] = &[
            $(
                registers!(@row [concat!($vector, ".x")] |$vw, $ve| { let $axis = 0; $component }),
                registers!(@row [concat!($vector, ".y")] |$vw, $ve| { let $axis = 1; $component }),
                registers!(@row [concat!($vector, ".z")] |$vw, $ve| { let $axis = 2; $component }),
            )*
            $(registers!(@row [$($name),+] |$sw, $se| { $value }),)*
        ];
    };
    (@row [$($name:expr),+] |$w:ident, $env:ident| $value:block) => {{
        struct Register;

        impl Source for Register {
            #[inline(always)]
            fn value($w: &Warp, $env: &Env<'_>) -> [u64; LANES] {
                let _ = ($w, $env);
                $value
            }
        }

        Special {
            names: &[$($name),+],
            kind: kind::<Register>,
        }
    }};
}

registers! {
    vectors |w, env, axis| {
        "%tid" => w.tid[axis].over(u64::from);
        "%ntid" => all(env.launch.block[axis]);
        "%ctaid" => all(w.ctaid[axis]);
        "%nctaid" => all(env.launch.grid[axis]);
        "%clusterid" => all(w.ctaid[axis] / env.cluster[axis]);
        "%nclusterid" => all(env.launch.grid[axis] / env.cluster[axis]);
        "%cluster_ctaid" => all(w.ctaid[axis] % env.cluster[axis]);
        "%cluster_nctaid" => all(env.cluster[axis]);
    }
    scalars |w, env| {
        "%cluster_ctarank" => all(w.rank);
        "%cluster_nctarank" => all(env.cluster.iter().product::<u32>());
        "%laneid" => by_lane(|lane| lane);
        "%warpid" => all(w.index as u64);
        "%nwarpid" => all(64_u32);
        "%smid" => all(smid(w, env));
        "%nsmid" => all(env.launch.multiprocessors);
        "%gridid" => all(env.grid_id);
        "%clock" | "%clock64" => all(now());
        "%clock_hi" => all(now() >> 32);
        "%globaltimer" | "%globaltimer_lo" => all(now());
        "%globaltimer_hi" => all(now() >> 32);
        "%lanemask_eq" => by_lane(|lane| 1 << lane);
        "%lanemask_le" => by_lane(|lane| u32::MAX >> (31 - lane));
        "%lanemask_lt" => by_lane(|lane| (1 << lane) - 1);
        "%lanemask_ge" => by_lane(|lane| !((1 << lane) - 1));
        "%lanemask_gt" => by_lane(|lane| !(u32::MAX >> (31 - lane)));
        "%total_smem_size" | "%aggr_smem_size" => all(env.shared_bytes);
        "%dynamic_smem_size" => all(env.launch.dynamic_shared);
        // The reserved memory is unused but for what cooperative groups store at offset 1, and the
        // manual does not state its size: these are the values of a GPU of architecture 8.6.
        "%reserved_smem_offset_begin" | "%reserved_smem_offset_0" | "%reserved_smem_offset_1"
            => all(env.reserved_shared);
        "%reserved_smem_offset_end" => all(env.reserved_shared + RESERVED_SHARED_USED);
        "%reserved_smem_offset_cap" => all(env.reserved_shared + RESERVED_SHARED_BYTES);
        // The address of the memory of a grid barrier, in two parts.
        "%envreg1" => all(env.workspace >> 32);
        "%envreg2" => all(env.workspace & 0xffff_ffff);
    }
}

/// Returns the multiprocessor of a warp. The blocks are spread over all multiprocessors of the
/// launch.
fn smid(w: &Warp, env: &Env<'_>) -> u32 {
    let [x, y, z] = w.ctaid.map(u64::from);
    let [width, height, _] = env.launch.grid.map(u64::from);
    let block = x + width * (y + height * z);
    match env.launch.sms {
        [] => (block % u64::from(env.launch.multiprocessors.max(1))) as u32,
        sms => sms[(block % sms.len() as u64) as usize],
    }
}

/// The value of a special register.
trait Source {
    fn value(w: &Warp, env: &Env<'_>) -> [u64; LANES];
}

/// One value for all lanes.
#[inline(always)]
fn all(value: impl Into<u64>) -> [u64; LANES] {
    [value.into(); LANES]
}

/// A value that depends on the number of the lane.
#[inline(always)]
fn by_lane(value: impl Fn(u32) -> u32) -> [u64; LANES] {
    each(|lane| u64::from(value(lane as u32)))
}

/// The special register `name`, or `name.member` if `member` is not empty.
pub(super) fn parse(name: &str, member: &str) -> Option<&'static Special> {
    let is_it = |known: &&str| match known.strip_prefix(name) {
        Some("") => member.is_empty(),
        Some(rest) => !member.is_empty() && rest.strip_prefix('.') == Some(member),
        None => false,
    };
    let mut registers = REGISTERS.iter();
    registers.find(|special| special.names.iter().any(is_it))
}

/// Reads a special register into registers of 32 or 64 bits.
struct Read<S, const WIDE: bool>(PhantomData<S>);

impl<S: Source, const WIDE: bool> MemoryOp for Read<S, WIDE> {
    #[inline(always)]
    fn run(w: &mut Warp, env: &Env<'_>, i: &Ins, m: u32) -> Result<(), LaneFault> {
        let value = S::value(w, env);
        if WIDE {
            w.put64(i.d, m, &value);
        } else {
            w.put32(i.d, m, &value.over(|value| value as u32));
        }
        Ok(())
    }
}

fn kind<S: Source>(wide: bool, wide_cpu: bool) -> Kind {
    Kind::Memory(if wide {
        memory_fn::<Read<S, true>>(wide_cpu)
    } else {
        memory_fn::<Read<S, false>>(wide_cpu)
    })
}

/// The kind of an instruction that reads `special`, into a register of 64 bits if `wide`.
pub(super) fn read(special: &Special, wide: bool, wide_cpu: bool) -> Kind {
    (special.kind)(wide, wide_cpu)
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

/// The names of all special registers.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let names = REGISTERS.iter().flat_map(|special| special.names.iter());
    names.copied().chain([EXPLICIT_CLUSTER])
}

/// The name of the only special register that is a predicate.
pub(super) const EXPLICIT_CLUSTER: &str = "%is_explicit_cluster";

/// The kind of an instruction that reads it.
pub(super) fn explicit_cluster() -> Kind {
    Kind::Memory(memory_fn::<ExplicitCluster>(false))
}
