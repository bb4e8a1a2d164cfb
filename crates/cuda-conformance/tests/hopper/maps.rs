//! `tensormap.replace`: kernels that change each field of a tensor map, and copy a box by it.

use std::fmt::Write;

use cuda_driver::prelude::*;
use cuda_driver::tensor_map::{TensorDataType, TensorLayout, TensorMap, TensorSwizzle};

use crate::fixture::{Fixture, everywhere};
use crate::products::no_reports;

/// The bytes of the tensor.
const TENSOR: usize = 1 << 16;
/// The bytes of shared memory that the kernel returns.
const BOX: usize = 4096;
/// The first element of the box along each dimension.
const AT: [usize; 3] = [16, 3, 1];

/// The fields of a tiled map of elements without a sign.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fields {
    /// The offset of the first element in the tensor's memory.
    offset: usize,
    rank: usize,
    extent: [usize; 3],
    dims: [usize; 3],
    strides: [usize; 2],
    steps: [usize; 3],
    /// The number of the element type in the manual, and its size in bytes.
    element: (u32, usize),
    /// The number of the swizzle mode, and the bytes of a row of its pattern.
    swizzle: (u32, usize),
}

/// The fields of the map that the host makes.
const BASE: Fields = Fields {
    offset: 0,
    rank: 2,
    extent: [16, 8, 2],
    dims: [64, 16, 4],
    strides: [256, 8192],
    steps: [1; 3],
    element: (7, 4),
    swizzle: (0, 16),
};

/// The numbers of the swizzle modes, and the bytes of a row of each pattern.
const SWIZZLES: [(u32, usize); 3] = [(1, 32), (2, 64), (3, 128)];

impl Fields {
    /// The box that a copy writes to shared memory, computed element by element.
    fn expected(&self, tensor: &[u8]) -> Vec<u8> {
        let size = self.element.1;
        let count = |d: usize| match d {
            _ if d >= self.rank => 1,
            0 => self.extent[0],
            _ => self.extent[d].div_ceil(self.steps[d]),
        };
        let mut out = vec![0xee; BOX];
        let pattern = self.swizzle.1;
        // Rows that are shorter than the pattern are kept apart.
        let gap = pattern.saturating_sub(count(0) * size);
        let mut to = 0;
        for z in 0..count(2) {
            for y in 0..count(1) {
                for x in 0..count(0) {
                    let at = [
                        AT[0] + x,
                        AT[1] + y * self.steps[1],
                        if self.rank == 3 {
                            AT[2] + z * self.steps[2]
                        } else {
                            0
                        },
                    ];
                    let is_inside = (0..self.rank).all(|d| at[d] < self.dims[d]);
                    let from = self.offset
                        + at[0] * size
                        + at[1] * self.strides[0]
                        + if self.rank == 3 {
                            at[2] * self.strides[1]
                        } else {
                            0
                        };
                    for byte in 0..size {
                        let place = to + byte;
                        let place = place ^ ((place / 128 * 16) & (pattern - 16));
                        out[place] = if is_inside { tensor[from + byte] } else { 0 };
                    }
                    to += size;
                }
                to += gap;
            }
        }
        out
    }

    fn bytes(&self) -> usize {
        let counts = (0..self.rank).map(|d| match d {
            0 => self.extent[0],
            _ => self.extent[d].div_ceil(self.steps[d]),
        });
        counts.product::<usize>() * self.element.1
    }

    /// The instructions that change the fields of `from`, or all fields, to these.
    fn replacements(&self, from: Option<&Self>, space: &str, map: &str) -> String {
        let mut text = String::new();
        let mut one = |field: &str, ty: &str, operands: String| {
            writeln!(
                text,
                "tensormap.replace.tile.{field}.{space}.b1024.{ty} [{map}], {operands};"
            )
            .unwrap();
        };
        let differs = |of: fn(&Self) -> usize| from.is_none_or(|from| of(from) != of(self));
        if differs(|fields| fields.offset) {
            one("global_address", "b64", "%tensor".into());
        }
        if differs(|fields| fields.rank) {
            one("rank", "b32", (self.rank - 1).to_string());
        }
        for d in 0..self.rank {
            let is_new = from.is_none_or(|from| d >= from.rank);
            let differs = |of: fn(&Self) -> [usize; 3]| {
                is_new || from.is_some_and(|from| of(from)[d] != of(self)[d])
            };
            if differs(|fields| fields.extent) {
                one("box_dim", "b32", format!("{d}, {}", self.extent[d]));
            }
            if differs(|fields| fields.dims) {
                one("global_dim", "b32", format!("{d}, {}", self.dims[d]));
            }
            if differs(|fields| fields.steps) {
                one("element_stride", "b32", format!("{d}, {}", self.steps[d]));
            }
            if d > 0 && (is_new || from.is_some_and(|f| f.strides[d - 1] != self.strides[d - 1])) {
                one(
                    "global_stride",
                    "b64",
                    format!("{}, {}", d - 1, self.strides[d - 1]),
                );
            }
        }
        if differs(|fields| fields.element.0 as usize) {
            one("elemtype", "b32", self.element.0.to_string());
        }
        if differs(|fields| fields.swizzle.0 as usize) {
            one("swizzle_mode", "b32", self.swizzle.0.to_string());
        }
        // These stay as they are: no interleaving, and zeros outside of the tensor.
        one("interleave_layout", "b32", "0".into());
        one("fill_mode", "b32", "0".into());
        text
    }

    /// The map that the host encodes.
    fn encoded(&self, tensor: &DeviceBuffer<u8>) -> Vec<u64> {
        assert_eq!(self.element.0, 7, "the host encodes maps of `f32`");
        let swizzle = match self.swizzle.0 {
            0 => TensorSwizzle::None,
            1 => TensorSwizzle::Bytes32,
            2 => TensorSwizzle::Bytes64,
            _ => TensorSwizzle::Bytes128,
        };
        let numbers = |all: &[usize]| all.iter().map(|&n| n as u64).collect::<Vec<u64>>();
        let layout = TensorLayout::new(TensorDataType::F32, &numbers(&self.dims[..self.rank]))
            .strides(&numbers(&self.strides[..self.rank - 1]))
            .swizzle(swizzle);
        let extent: Vec<u32> = self.extent[..self.rank].iter().map(|&n| n as u32).collect();
        let map = TensorMap::tiled(&tensor.as_slice(), &layout, &extent).unwrap();
        map.as_raw().opaque.to_vec()
    }
}

/// A kernel that makes the map `to` of the map at its first parameter, and copies a box.
fn text(to: &Fields, from: Option<&Fields>, in_shared: bool) -> String {
    let (change, publish) = if in_shared {
        (
            to.replacements(from, "shared::cta", "%local"),
            "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned \
             [%scratch], [%local], 128;",
        )
    } else {
        (
            to.replacements(from, "global", "%scratch"),
            "fence.proxy.tensormap::generic.release.gpu;",
        )
    };
    let store = if in_shared {
        "add.u32 %x, %local, %y;\nst.shared.b32 [%x], %z;"
    } else {
        "add.s64 %at, %scratch, %at;\nst.global.b32 [%at], %z;"
    };
    let rank = to.rank;
    let at: Vec<String> = AT[..rank].iter().map(|at| at.to_string()).collect();
    let at = at.join(", ");
    format!(
        "
.version 8.3
.target sm_90a
.address_size 64
.visible .entry replace(.param .u64 map, .param .u64 tensor, .param .u64 scratch, .param .u64 out) {{
.reg .pred %p, %first;
.reg .b64 %map, %tensor, %scratch, %out, %at;
.reg .b32 %t, %x, %y, %z, %k, %local;
.shared .align 1024 .b8 box[{BOX}];
.shared .align 128 .b8 copy[128];
.shared .align 8 .b64 barrier;
ld.param.b64 %map, [map];
ld.param.b64 %tensor, [tensor];
ld.param.b64 %scratch, [scratch];
ld.param.b64 %out, [out];
mov.u32 %t, %tid.x;
setp.eq.u32 %first, %t, 0;
mov.u32 %local, copy;
shl.b32 %y, %t, 2;
cvt.u64.u32 %at, %y;
add.s64 %map, %map, %at;
ld.global.b32 %z, [%map];
{store}
mov.u32 %k, 0;
clear:
shl.b32 %x, %k, 7;
add.u32 %x, %x, %y;
mov.u32 %z, box;
add.u32 %x, %x, %z;
st.shared.b32 [%x], 0xeeeeeeee;
add.u32 %k, %k, 1;
setp.lt.u32 %p, %k, {lines};
@%p bra clear;
@%first mbarrier.init.shared.b64 [barrier], 1;
fence.proxy.async;
bar.sync 0;
@!%first bra changed;
{change}changed:
bar.sync 0;
{publish}
bar.sync 0;
fence.proxy.tensormap::generic.acquire.gpu [%scratch], 128;
@!%first bra copied;
mbarrier.arrive.expect_tx.shared.b64 _, [barrier], {bytes};
cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes \
         [box], [%scratch, {{{at}}}], [barrier];
copied:
mbarrier.try_wait.parity.shared.b64 %p, [barrier], 0;
@!%p bra copied;
mov.u32 %k, 0;
cvt.u64.u32 %at, %y;
add.s64 %out, %out, %at;
store:
shl.b32 %x, %k, 7;
add.u32 %x, %x, %y;
mov.u32 %z, box;
add.u32 %x, %x, %z;
ld.shared.b32 %z, [%x];
st.global.b32 [%out], %z;
add.s64 %out, %out, 128;
add.u32 %k, %k, 1;
setp.lt.u32 %p, %k, {lines};
@%p bra store;
ret;
}}
",
        lines = BOX / 128,
        bytes = to.bytes(),
    )
}

/// Runs the kernel on the map `from`, or on zeros. Returns the reason of a difference.
fn run(fixture: &Fixture, from: Option<&Fields>, to: &Fields, in_shared: bool) -> Option<String> {
    let tensor: Vec<u8> = (0..TENSOR).map(|at| (at * 7 + at / 251) as u8).collect();
    let memory = fixture.upload(&tensor);
    let map = match from {
        Some(from) => from.encoded(&memory),
        None => vec![0; 16],
    };
    let kernel = match fixture.kernel(&text(to, from, in_shared), "replace") {
        Ok(kernel) => kernel,
        Err(error) => return Some(error),
    };
    let map = fixture.upload(&map);
    let (mut scratch, mut out) = (fixture.zeroed::<u64>(16), fixture.zeroed::<u8>(BOX));
    let first = memory.as_slice().as_raw() + to.offset as u64;
    let config = LaunchConfig::new(1, 32);
    // SAFETY: the kernel reads 128 bytes of `map` and the part of the tensor that the map
    // describes, and writes 128 bytes of `scratch`, which is aligned to 256, and `BOX` bytes of
    // `out`.
    let launched = unsafe {
        fixture
            .stream
            .launch(&kernel, config, (&map, first, &mut scratch, &mut out))
    };
    launched.unwrap();
    let out = match fixture.values(&out) {
        Ok(out) => out,
        Err(error) => return Some(error),
    };
    let expected = to.expected(&tensor);
    let first = out.iter().zip(&expected).position(|(a, b)| a != b)?;
    let count = out.iter().zip(&expected).filter(|(a, b)| a != b).count();
    Some(format!(
        "{count} bytes differ, the first at {first}: {} instead of {}",
        out[first], expected[first]
    ))
}

/// Changes a map.
type Change = fn(&mut Fields);

/// The maps, each with the one that it is made of; `None` for zeros.
fn cases() -> Vec<(&'static str, Option<Fields>, Fields)> {
    let with = |change: Change| {
        let mut fields = BASE;
        change(&mut fields);
        fields
    };
    let three = with(|fields| fields.rank = 3);
    let changes: [(&str, Change); 14] = [
        ("global_address", |fields| fields.offset = 512),
        ("rank", |fields| fields.rank = 3),
        ("box_dim 0", |fields| fields.extent[0] = 8),
        ("box_dim 1", |fields| fields.extent[1] = 5),
        ("global_dim 0", |fields| fields.dims[0] = 20),
        ("global_dim 1", |fields| fields.dims[1] = 6),
        ("global_stride", |fields| fields.strides[0] = 512),
        ("element_stride", |fields| fields.steps[1] = 2),
        ("elemtype u8", |fields| fields.element = (0, 1)),
        ("elemtype u16", |fields| fields.element = (1, 2)),
        ("elemtype f64", |fields| fields.element = (9, 8)),
        ("elemtype bf16", |fields| fields.element = (10, 2)),
        ("swizzle_mode 64B", |fields| fields.swizzle = (2, 64)),
        ("swizzle_mode 128B", |fields| fields.swizzle = (3, 128)),
    ];
    let mut cases: Vec<_> = changes
        .into_iter()
        .map(|(name, change)| (name, Some(BASE), with(change)))
        .collect();
    cases.push(("rank 2 of 3", Some(three), BASE));
    cases.push((
        "second global_stride",
        Some(three),
        Fields {
            strides: [256, 4096],
            ..three
        },
    ));
    cases.push(("zeros to two dimensions", None, BASE));
    cases.push(("zeros to three dimensions", None, three));
    for swizzle in SWIZZLES {
        for width in [4, 8, 16, 32] {
            if width * 4 > swizzle.1 {
                continue;
            }
            let map = Fields {
                extent: [width, 8, 2],
                ..BASE
            };
            let swizzled = Fields { swizzle, ..map };
            cases.push(("swizzle_mode of a row", Some(map), swizzled));
            cases.push(("an encoded swizzle", Some(swizzled), swizzled));
        }
    }
    cases
}

#[test]
fn replaced_fields_change_copies() {
    for fixture in everywhere() {
        let (mut wrong, mut total) = (Vec::new(), 0);
        for (name, from, to) in cases() {
            for in_shared in [true, false] {
                total += 1;
                if let Some(why) = run(&fixture, from.as_ref(), &to, in_shared) {
                    let why: String = why.chars().take(300).collect();
                    let (row, pattern) = (to.extent[0] * to.element.1, to.swizzle.1);
                    wrong.push(format!(
                        "{name}, rows of {row} bytes, pattern of {pattern}, in shared memory: \
                         {in_shared}: {why}"
                    ));
                }
            }
        }
        println!(
            "tensormap.replace on {}: {} of {total} are equal",
            fixture.name,
            total - wrong.len()
        );
        for line in wrong.iter().take(12) {
            println!("{line}");
        }
        assert!(wrong.is_empty(), "{}: {}", fixture.name, wrong.len());
        no_reports(&fixture);
    }
}
