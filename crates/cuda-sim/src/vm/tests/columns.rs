//! Columns of images (im2col), copied in and out, compared with the loops of a convolution.

use super::device::{Device, Numbers, TARGET};
use crate::vm::TargetInfo;
use crate::vm::tensor_map::{Columns, Element, Swizzle, TensorMap};

/// A kernel that copies one column between the images and shared memory, and shared memory to or
/// from `%flat`.
fn kernel(rank: usize, copies: &str) -> String {
    let reads: String = (0..rank)
        .map(|d| format!("ld.global.s32 %c{d}, [%at+{}];", 4 * d))
        .chain((0..rank - 2).map(|d| format!("ld.global.u16 %o{d}, [%at+{}];", 20 + 4 * d)))
        .collect();
    let list = |letter: char, count: usize| {
        let names: Vec<String> = (0..count).map(|d| format!("%{letter}{d}")).collect();
        names.join(", ")
    };
    let copies = copies
        .replace("$rank", &format!("{rank}d"))
        .replace("$place", &format!("[%map, {{{}}}]", list('c', rank)))
        .replace("$offsets", &format!("{{{}}}", list('o', rank - 2)));
    format!(
        ".visible .entry op(.param .u64 map, .param .u64 at, .param .u64 flat, .param .u64 bytes) {{
            .shared .align 1024 .b8 tile[65536]; .shared .align 8 .b8 barrier[8];
            .reg .b64 %map, %at, %flat; .reg .b32 %c<5>, %s, %b, %bytes; .reg .b16 %o<3>; .reg .pred %p;
            ld.param.u64 %map, [map]; ld.param.u64 %at, [at]; ld.param.u64 %flat, [flat];
            ld.param.u32 %bytes, [bytes]; mov.u32 %s, tile; mov.u32 %b, barrier;
            {reads}
            mbarrier.init.shared::cta.b64 [%b], 1; fence.proxy.async;
            mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], %bytes;
            {copies}
            ret; }}"
    )
}

const LOAD: &str = "cp.async.bulk.prefetch.tensor.$rank.L2.global.im2col $place, $offsets;
    cp.async.bulk.tensor.$rank.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%s], $place, [%b], $offsets;
    $wait: mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], 0; @!%p bra $wait;
    cp.async.bulk.global.shared::cta.bulk_group [%flat], [%s], %bytes;";

const STORE: &str =
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%flat], %bytes, [%b];
    $wait: mbarrier.try_wait.parity.shared::cta.b64 %p, [%b], 0; @!%p bra $wait;
    cp.async.bulk.tensor.$rank.global.shared::cta.im2col_no_offs.bulk_group $place, [%s];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;";

/// Images in host memory, and the start of a column of them.
struct Images {
    map: TensorMap,
    columns: Columns,
    start: Vec<i64>,
    offsets: Vec<i64>,
    bytes: Vec<u8>,
}

impl Images {
    /// The positions of filters along a dimension.
    fn filters(map: &TensorMap, columns: &Columns, d: usize) -> Vec<i64> {
        let first = i64::from(columns.lower[d - 1]);
        let behind = map.dims[d] as i64 + i64::from(columns.upper[d - 1]);
        (first..behind).step_by(map.steps[d].into()).collect()
    }

    /// `least` is the smallest coordinate of a corner.
    fn random(rank: usize, least: i64, swizzle: Swizzle, numbers: &mut Numbers) -> Self {
        let element = [Element::U8, Element::F16, Element::F32, Element::S64][rank % 4];
        let size = element.bytes();
        let mut below = |n: u64| numbers.next() % n;
        let row = swizzle.span().unwrap_or(16 * (1 + below(3)));
        let mut columns = Columns {
            pixels: 1 + below(60) as u16,
            ..Columns::default()
        };
        let mut map = TensorMap {
            element,
            swizzle,
            rank,
            ..TensorMap::default()
        };
        map.extent[0] = (row / size) as u16;
        map.dims[0] = 1 + below(3 * row / size);
        map.steps[0] = 1;
        // Channels start at a multiple of 16 bytes and may end beyond the tensor.
        let mut start = vec![(below(map.dims[0] / 2 + 1) * size / 16 * 16 / size) as i64];
        let mut offsets = Vec::new();
        map.strides[0] = (map.dims[0] * size).next_multiple_of(16) + 16 * below(2);
        for d in 1..rank - 1 {
            map.dims[d] = 3 + below(6);
            map.steps[d] = 1 + below(3) as u8;
            columns.lower[d - 1] = (least + below(4) as i64) as i16;
            let span = 1 + below(map.dims[d] + 2) as i64;
            let upper = i64::from(columns.lower[d - 1]) + span - map.dims[d] as i64;
            columns.upper[d - 1] = upper as i16;
            let filters = Self::filters(&map, &columns, d);
            start.push(filters[below(filters.len() as u64) as usize]);
            offsets.push(below(3) as i64);
            map.strides[d] = map.strides[d - 1] * map.dims[d] + 16 * below(2);
        }
        (map.dims[rank - 1], map.steps[rank - 1]) = (1 + below(8), 1);
        start.push(below(map.dims[rank - 1]) as i64);
        map.columns = Some(columns);
        let bytes = (0..map.strides[rank - 2] * map.dims[rank - 1])
            .map(|_| below(256) as u8)
            .collect();
        Self {
            map,
            columns,
            start,
            offsets,
            bytes,
        }
    }

    /// The positions of the filters of all images, in the order of an image, for dimensions from 1
    /// on.
    fn all_filters(&self, images: i64) -> Vec<Vec<i64>> {
        let inner = 1..self.map.rank - 1;
        let mut choices: Vec<Vec<i64>> = inner
            .map(|d| Self::filters(&self.map, &self.columns, d))
            .collect();
        choices.push((0..images).collect());
        let mut all = vec![Vec::new()];
        for choices in choices.iter().rev() {
            let with = |rest: &Vec<i64>| {
                let with = |at: &i64| [&[*at], &rest[..]].concat();
                choices.iter().map(with).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(with).collect();
        }
        all
    }

    /// For each element of the column: its offset in shared memory, and its index in the tensor if
    /// it is inside.
    fn places(&self, there: u64) -> Vec<(usize, Option<usize>)> {
        let map = &self.map;
        let size = map.element.bytes() as usize;
        let (channels, pixels) = (map.extent[0] as usize, self.columns.pixels as usize);
        let filters = self.all_filters(self.start[map.rank - 1] + 1 + pixels as i64);
        let first = filters.iter().position(|at| at[..] == self.start[1..]);
        let mut all = Vec::new();
        for (row, filter) in filters[first.unwrap()..][..pixels].iter().enumerate() {
            for channel in 0..channels {
                let byte = channel * size;
                // Chunk `j` of 16 bytes in line `i` of 128 bytes is moved to another position in
                // its row.
                let line = row * channels * size / 128;
                let flip = match map.swizzle {
                    Swizzle::None => 0,
                    Swizzle::Span32 => line % 2,
                    Swizzle::Span64 => line % 4,
                    Swizzle::Span128 => line % 8,
                };
                let shared = row * channels * size + ((byte / 16) ^ flip) * 16 + byte % 16;
                let at = self.start[0] + channel as i64;
                let mut place = (at < there as i64).then_some(at as usize * size);
                for (d, &filter) in (1..).zip(filter) {
                    let at = filter + self.offsets.get(d - 1).unwrap_or(&0);
                    let is_inside = at >= 0 && at < map.dims[d] as i64;
                    place = place
                        .filter(|_| is_inside)
                        .map(|sum| sum + at as usize * map.strides[d - 1] as usize);
                }
                all.push((shared, place));
            }
        }
        all
    }

    /// Runs `copies`; returns the flat bytes and the tensor afterwards.
    fn run(&self, copies: &str, flat: &[u8]) -> Result<(Vec<u8>, Vec<u8>), u32> {
        let device = Device::new(&kernel(self.map.rank, copies));
        let tensor = device.upload(&self.bytes);
        let map = TensorMap {
            address: tensor,
            ..self.map
        };
        let map = device.upload(&map.encode());
        let mut at = vec![0; 8];
        for (place, &number) in at.iter_mut().zip(&self.start) {
            *place = number as u32;
        }
        for (place, &number) in at[5..].iter_mut().zip(&self.offsets) {
            *place = number as u32;
        }
        let (at, out) = (device.upload32(&at), device.upload(flat));
        device
            .run_with(1, 1, &[map, at, out, flat.len() as u64], |params| {
                params.instruction_limit = Some(1 << 16);
            })
            .map_err(|fault| fault.kind.code())?;
        let (mut flat, mut bytes) = (flat.to_vec(), self.bytes.clone());
        device.arena.map().read(out, &mut flat).unwrap();
        device.arena.map().read(tensor, &mut bytes).unwrap();
        Ok((flat, bytes))
    }
}

const SWIZZLES: [Swizzle; 4] = [
    Swizzle::None,
    Swizzle::Span32,
    Swizzle::Span64,
    Swizzle::Span128,
];

fn each(least: i64, mut check: impl FnMut(&mut Images, &mut Numbers)) {
    let mut numbers = Numbers(91);
    for round in 0..120 {
        let swizzle = SWIZZLES[round / 3 % 4];
        let mut images = Images::random(3 + round % 3, least, swizzle, &mut numbers);
        check(&mut images, &mut numbers);
    }
}

#[test]
fn columns_are_loaded_with_zeros_around_the_images() {
    let (mut inside, mut outside) = (0, 0);
    each(-3, |images, _| {
        let (size, bytes) = (images.map.element.bytes() as usize, images.map.bytes());
        let mut expected = vec![0; bytes as usize];
        for (shared, place) in images.places(images.map.dims[0]) {
            if let Some(place) = place {
                expected[shared..shared + size].copy_from_slice(&images.bytes[place..place + size]);
                inside += 1;
            } else {
                outside += 1;
            }
        }
        let (flat, after) = images.run(LOAD, &vec![1; bytes as usize]).unwrap();
        let (map, start, offsets) = (&images.map, &images.start, &images.offsets);
        assert_eq!(flat, expected, "{map:?} at {start:?}, {offsets:?}");
        assert_eq!(after, images.bytes);
    });
    assert!(inside > 10_000 && outside > 10_000, "{inside}, {outside}");
}

#[test]
fn columns_are_stored_as_far_as_there_are_images() {
    each(0, |images, numbers| {
        images.offsets = Vec::new();
        let size = images.map.element.bytes() as usize;
        let flat: Vec<u8> = (0..images.map.bytes())
            .map(|_| numbers.next() as u8)
            .collect();
        let mut expected = images.bytes.clone();
        // Stores write whole 16-byte chunks, as on an H200.
        let written = (images.map.dims[0] * size as u64).next_multiple_of(16) / size as u64;
        for (shared, place) in images.places(written) {
            if let Some(place) = place {
                expected[place..place + size].copy_from_slice(&flat[shared..shared + size]);
            }
        }
        let (_, after) = images.run(STORE, &flat).unwrap();
        assert_eq!(after, expected, "{:?} at {:?}", images.map, images.start);
    });
}

/// Four channels of words, 6 pixels wide and 5 high, with filters from -1 to 5 and from -1 to 4.
fn small() -> Images {
    let columns = Columns {
        lower: [-1, -1, 0],
        upper: [0, 0, 0],
        pixels: 8,
    };
    let map = TensorMap {
        element: Element::U32,
        rank: 4,
        dims: [4, 6, 5, 2, 0],
        strides: [16, 96, 480, 0],
        extent: [4, 0, 0, 0, 0],
        steps: [1, 1, 1, 1, 0],
        columns: Some(columns),
        ..TensorMap::default()
    };
    Images {
        map,
        columns,
        start: vec![0, 0, 0, 0],
        offsets: vec![0, 0],
        bytes: vec![9; 960],
    }
}

#[test]
fn invalid_columns_are_faults() {
    let code = |copies: &str, change: &dyn Fn(&mut Images)| {
        let mut images = small();
        change(&mut images);
        images.run(copies, &[0; 128]).err().unwrap_or(0)
    };
    assert_eq!(code(LOAD, &|_| {}), 0);
    assert_eq!(code(LOAD, &|i| i.start = vec![0, -1, -1, 0]), 0);
    assert_eq!(code(LOAD, &|i| i.offsets = vec![255, 255]), 0);
    // The filter is outside of the box, the offset is too large, or the channels do not start at a
    // multiple of 16 bytes.
    assert_eq!(code(LOAD, &|i| i.start[1] = -2), 715);
    assert_eq!(code(LOAD, &|i| i.start[2] = 5), 715);
    assert_eq!(code(LOAD, &|i| i.offsets[1] = 256), 715);
    assert_eq!(code(LOAD, &|i| i.start[0] = 1), 715);
    // The map is tiled, or the copy is tiled and the map is not.
    assert_eq!(code(LOAD, &|i| i.map.columns = None), 715);
    let tiles = LOAD.replace(".im2col", ".tile").replace(", $offsets", "");
    assert_eq!(code(&tiles, &|_| {}), 715);
    // The write is before the first element, immediately or when the next row starts.
    assert_eq!(code(STORE, &|i| i.start[1] = -1), 715);
    assert_eq!(code(STORE, &|_| {}), 715);
    let behind = |i: &mut Images| {
        i.map.columns = Some(Columns {
            lower: [0; 3],
            ..i.columns
        })
    };
    assert_eq!(code(STORE, &behind), 0);
}

#[test]
fn unknown_forms_are_refused() {
    let loads = |rank: usize, copies: &str, strict: bool| {
        let target = TargetInfo { strict, ..TARGET };
        Device::load(&kernel(rank, copies), &target)
    };
    assert!(loads(3, LOAD, true).is_ok());
    let cases = [
        LOAD.replace(".im2col", ".im2col::w"),
        LOAD.replace(".im2col", ".tile::gather4"),
        LOAD.replace(".im2col", ".im2col_no_offs"),
        LOAD.replace("[%b], $offsets", "[%b]"),
        STORE.replace(".im2col_no_offs", ".im2col"),
        STORE.replace(".im2col_no_offs", ".tile::scatter4"),
    ];
    for text in cases {
        assert!(loads(3, &text, true).is_err(), "{text}");
        // The module loads if only executed instructions count; the message then names the
        // instruction.
        let device = loads(3, &text, false).unwrap();
        let place = device.upload(&[0; 128]);
        let fault = device.run(1, 1, &[place, place, place, 16]).unwrap_err();
        assert!(fault.to_string().contains("tensor"), "{fault}");
    }
}
