//! Boxes of tensors, copied in and out, compared with host loops.

use super::device::{Device, Numbers};
use crate::vm::tensor_map::{Element, Swizzle, TensorMap};

/// A kernel that copies one box between the tensor and shared memory, and shared memory to or from
/// `%flat`.
fn kernel(rank: usize, copies: &str) -> String {
    let coordinates: String = (0..rank)
        .map(|d| format!("ld.global.s32 %c{d}, [%at+{}];", 4 * d))
        .collect();
    let list: Vec<String> = (0..rank).map(|d| format!("%c{d}")).collect();
    let copies = copies
        .replace("$rank", &format!("{rank}d"))
        .replace("$place", &format!("[%map, {{{}}}]", list.join(", ")));
    format!(
        ".visible .entry op(.param .u64 map, .param .u64 at, .param .u64 flat, .param .u64 bytes) {{
            .shared .align 1024 .b8 tile[65536]; .shared .align 8 .b8 barrier[8];
            .reg .b64 %map, %at, %flat; .reg .b32 %c<5>, %s, %b, %bytes; .reg .pred %p;
            ld.param.u64 %map, [map]; ld.param.u64 %at, [at]; ld.param.u64 %flat, [flat];
            ld.param.u32 %bytes, [bytes]; mov.u32 %s, tile; mov.u32 %b, barrier;
            {coordinates}
            mbarrier.init.shared::cta.b64 [%b], 1; fence.proxy.async;
            mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], %bytes;
            {copies}
            ret; }}"
    )
}

const LOAD: &str = "prefetch.tensormap [%map];
    cp.async.bulk.prefetch.tensor.$rank.L2.global.tile $place;
    cp.async.bulk.tensor.$rank.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s], $place, [%b];
    $wait: mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], 0; @!%p bra $wait;
    cp.async.bulk.global.shared::cta.bulk_group [%flat], [%s], %bytes;";

const STORE: &str =
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%flat], %bytes, [%b];
    $wait: mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], 0; @!%p bra $wait;
    cp.async.bulk.tensor.$rank.global.shared::cta.tile.bulk_group $place, [%s];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;";

/// A tensor in host memory.
struct Tensor {
    map: TensorMap,
    start: Vec<i64>,
    bytes: Vec<u8>,
}

impl Tensor {
    fn random(rank: usize, element: Element, swizzle: Swizzle, numbers: &mut Numbers) -> Self {
        let size = element.bytes();
        let mut below = |n: u64| numbers.next() % n;
        let mut map = TensorMap {
            element,
            swizzle,
            rank,
            ..TensorMap::default()
        };
        let row = swizzle.span().unwrap_or(16 * (1 + below(3)));
        let mut stride = 0;
        let mut start = Vec::new();
        for d in 0..rank {
            map.dims[d] = 1 + below(if d == 0 { 60 } else { 6 });
            map.extent[d] = if d == 0 { row / size } else { 1 + below(4) } as u16;
            map.steps[d] = if d == 0 { 1 } else { 1 + below(2) as u8 };
            // The box is often partly outside, on both sides.
            let reach = map.dims[d] + u64::from(map.extent[d]);
            let at = below(reach) as i64 - i64::from(map.extent[d]) / 2;
            // A row starts at a multiple of 16 bytes.
            let unit = if d == 0 { 16 / size as i64 } else { 1 };
            start.push(at.div_euclid(unit) * unit);
            if d + 1 < rank {
                stride = if d == 0 {
                    map.dims[0] * size
                } else {
                    stride * map.dims[d]
                };
                stride = stride.next_multiple_of(16) + 16 * below(2);
                map.strides[d] = stride;
            }
        }
        let last = if rank == 1 { size } else { stride };
        let bytes = (0..last * map.dims[rank - 1])
            .map(|_| below(256) as u8)
            .collect();
        Self { map, start, bytes }
    }

    /// This tensor, with the box moved so that no part of it is before the first element.
    fn behind_the_first(&self) -> Self {
        Self {
            map: self.map,
            start: self.start.iter().map(|&at| at.max(0)).collect(),
            bytes: self.bytes.clone(),
        }
    }

    /// For each element of the box: its offset in shared memory, and its index in the tensor if it
    /// is inside.
    fn places(&self) -> Vec<(usize, Option<usize>)> {
        let map = &self.map;
        let size = map.element.bytes() as usize;
        let counts: Vec<usize> = (0..map.rank)
            .map(|d| match d {
                0 => map.extent[0] as usize,
                _ => map.extent[d].div_ceil(map.steps[d].into()) as usize,
            })
            .collect();
        let row_bytes = counts[0] * size;
        let mut index = vec![0; map.rank];
        let mut all = Vec::new();
        for number in 0..counts.iter().product::<usize>() {
            let row = number / counts[0];
            let byte = index[0] * size;
            // Chunk `j` of 16 bytes in line `i` of 128 bytes is moved to another position in its
            // row.
            let line = row * row_bytes / 128;
            let flip = match map.swizzle {
                Swizzle::None => 0,
                Swizzle::Span32 => line % 2,
                Swizzle::Span64 => line % 4,
                Swizzle::Span128 => line % 8,
            };
            let shared = row * row_bytes + ((byte / 16) ^ flip) * 16 + byte % 16;
            let mut place = Some(0);
            for (d, &number) in index.iter().enumerate() {
                let at = self.start[d] + (number * map.steps[d] as usize) as i64;
                let stride = if d == 0 {
                    size
                } else {
                    map.strides[d - 1] as usize
                };
                let is_inside = at >= 0 && (at as u64) < map.dims[d];
                place = place
                    .filter(|_| is_inside)
                    .map(|sum: usize| sum + at as usize * stride);
            }
            all.push((shared, place));
            for (at, &count) in index.iter_mut().zip(&counts) {
                *at += 1;
                if *at < count {
                    break;
                }
                *at = 0;
            }
        }
        all
    }

    /// Runs `copies`; returns the flat bytes and the tensor afterwards.
    fn run(&self, copies: &str, flat: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let device = Device::new(&kernel(self.map.rank, copies));
        let tensor = device.upload(&self.bytes);
        let map = TensorMap {
            address: tensor,
            ..self.map
        };
        let map = device.upload(&map.encode());
        let at: Vec<u32> = self.start.iter().map(|&at| at as u32).collect();
        let (at, out) = (device.upload32(&at), device.upload(flat));
        device
            .run_with(1, 1, &[map, at, out, flat.len() as u64], |params| {
                params.instruction_limit = Some(1 << 16);
            })
            .unwrap();
        let (mut flat, mut bytes) = (flat.to_vec(), self.bytes.clone());
        device.arena.map().read(out, &mut flat).unwrap();
        device.arena.map().read(tensor, &mut bytes).unwrap();
        (flat, bytes)
    }
}

const ELEMENTS: [Element; 5] = [
    Element::U8,
    Element::F16,
    Element::F32,
    Element::S64,
    Element::U16,
];
const SWIZZLES: [Swizzle; 4] = [
    Swizzle::None,
    Swizzle::Span32,
    Swizzle::Span64,
    Swizzle::Span128,
];

fn each(mut check: impl FnMut(&Tensor, usize, &mut Numbers)) {
    let mut numbers = Numbers(77);
    for round in 0..120 {
        let tensor = Tensor::random(
            1 + round % 5,
            ELEMENTS[round / 5 % 5],
            SWIZZLES[round / 2 % 4],
            &mut numbers,
        );
        let bytes = tensor.map.bytes() as usize;
        check(&tensor, bytes, &mut numbers);
    }
}

#[test]
fn boxes_are_loaded_with_zeros_around_the_tensor() {
    each(|tensor, bytes, _| {
        let size = tensor.map.element.bytes() as usize;
        let mut expected = vec![0; bytes];
        for (shared, place) in tensor.places() {
            if let Some(place) = place {
                expected[shared..shared + size].copy_from_slice(&tensor.bytes[place..place + size]);
            }
        }
        let (flat, after) = tensor.run(LOAD, &vec![1; bytes]);
        assert_eq!(flat, expected, "{:?} at {:?}", tensor.map, tensor.start);
        assert_eq!(after, tensor.bytes);
    });
}

#[test]
fn boxes_are_stored_as_far_as_there_is_a_tensor() {
    each(|tensor, bytes, numbers| {
        let tensor = tensor.behind_the_first();
        let size = tensor.map.element.bytes() as usize;
        let flat: Vec<u8> = (0..bytes).map(|_| numbers.next() as u8).collect();
        let mut expected = tensor.bytes.clone();
        for (shared, place) in tensor.places() {
            if let Some(place) = place {
                expected[place..place + size].copy_from_slice(&flat[shared..shared + size]);
            }
        }
        let (_, after) = tensor.run(STORE, &flat);
        assert_eq!(after, expected, "{:?} at {:?}", tensor.map, tensor.start);
    });
}

#[test]
fn boxes_are_added_to_a_tensor() {
    let copies = STORE
        .replace("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor")
        .replace("shared::cta.tile", "shared::cta.add.tile");
    each(|tensor, _, numbers| {
        let element = [Element::U32, Element::U64][tensor.map.rank % 2];
        let tensor = Tensor::random(tensor.map.rank, element, tensor.map.swizzle, numbers);
        let tensor = tensor.behind_the_first();
        let flat: Vec<u8> = (0..tensor.map.bytes())
            .map(|_| numbers.next() as u8)
            .collect();
        let size = element.bytes() as usize;
        let mut expected = tensor.bytes.clone();
        for (shared, place) in tensor.places() {
            let Some(place) = place else { continue };
            let mut carry = 0u16;
            for byte in 0..size {
                let sum =
                    u16::from(expected[place + byte]) + u16::from(flat[shared + byte]) + carry;
                expected[place + byte] = sum as u8;
                carry = sum >> 8;
            }
        }
        let (_, after) = tensor.run(&copies, &flat);
        assert_eq!(after, expected, "{:?} at {:?}", tensor.map, tensor.start);
    });
}

#[test]
fn invalid_maps_and_boxes_are_faults() {
    let tensor = Tensor::random(2, Element::U32, Swizzle::None, &mut Numbers(1));
    let code = |copies: &str, rank: usize, change: &dyn Fn(&mut [u8; 128])| {
        let device = Device::new(&kernel(rank, copies));
        let mut bytes = TensorMap {
            address: device.upload(&tensor.bytes),
            ..tensor.map
        }
        .encode();
        change(&mut bytes);
        let params = [
            device.upload(&bytes),
            device.upload32(&[0; 5]),
            device.upload(&[0; 4096]),
            tensor.map.bytes(),
        ];
        device
            .run(1, 1, &params)
            .map_or_else(|fault| fault.kind.code(), |_| 0)
    };
    assert_eq!(code(LOAD, 2, &|_| {}), 0);
    assert_eq!(code(LOAD, 3, &|_| {}), 715);
    assert_eq!(code(LOAD, 2, &|bytes| bytes[0] ^= 1), 715);
    assert_eq!(code(LOAD, 2, &|bytes| bytes[8..16].fill(0x10)), 700);
    let elsewhere = LOAD.replace("[%s], $place", "[%s+64], $place");
    assert_eq!(code(&elsewhere, 2, &|_| {}), 716);
    let float = STORE
        .replace("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor")
        .replace("shared::cta.tile", "shared::cta.inc.tile");
    assert_eq!(code(&float, 2, &|bytes| bytes[16] = 7), 715);
}

/// The expected codes are those of an H200.
#[test]
fn tensor_boxes_are_aligned_and_stay_in_bounds() {
    let tensor = Tensor::random(2, Element::U32, Swizzle::None, &mut Numbers(1));
    let code = |copies: &str, x: i32, y: i32| {
        let device = Device::new(&kernel(2, copies));
        let map = TensorMap {
            address: device.upload(&tensor.bytes),
            ..tensor.map
        };
        let params = [
            device.upload(&map.encode()),
            device.upload32(&[x as u32, y as u32]),
            device.upload(&[0; 4096]),
            tensor.map.bytes(),
        ];
        device
            .run(1, 1, &params)
            .map_or_else(|fault| fault.kind.code(), |_| 0)
    };
    for (x, y, load, store) in [
        (0, 0, 0, 0),
        (4, 1, 0, 0),
        (200, 60, 0, 0),
        (-4, -3, 0, 715),
        (-32, 0, 0, 715),
        (0, -8, 0, 715),
        (1, 0, 715, 715),
        (2, 0, 715, 715),
        (-5, 0, 715, 715),
    ] {
        assert_eq!(code(LOAD, x, y), load, "from {x}, {y}");
        assert_eq!(code(STORE, x, y), store, "to {x}, {y}");
    }
}
