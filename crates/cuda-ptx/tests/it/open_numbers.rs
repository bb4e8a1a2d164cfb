//! Kernels that NVRTC compiled, proven for ranges of numbers and of the grid.

use cuda_ptx::analysis::{Argument, LaunchValues, Need, NumberRange, OpenNumber};

use crate::support::{analysis, int, launch, output};

/// The kernels of `known.rs`.
const TEXT: &str = include_str!("kernels/known.ptx");

/// 4 blocks of 256 threads.
fn line(arguments: impl IntoIterator<Item = Argument>) -> LaunchValues {
    launch([4, 1, 1], [256, 1, 1], arguments)
}

#[test]
fn a_range_of_numbers_has_one_proof() {
    let needs = |name: &str, buffers: usize, low: u64, high: u64| {
        let mut arguments = vec![output(1 << 62); buffers];
        arguments.push(int(1000));
        let number = OpenNumber::Argument {
            parameter: buffers as u32,
            offset: 0,
            size: 4,
        };
        let range = NumberRange { number, low, high };
        analysis(TEXT, name).evaluate_ranges(&line(arguments), &[range])
    };
    let most = 1 << 30;
    for (name, buffers) in [("vector_add", 3), ("grid_stride", 2)] {
        let found = needs(name, buffers, 1, most).unwrap();
        assert_eq!(found.len(), buffers, "{name}");
        for n in [1, 700, 1001, most] {
            let is_exact = |need: &Need| need.bytes(&[n]) == Some(4 * n);
            assert!(found.iter().all(is_exact), "{name}: {found:?}");
        }
    }
    // A sum cannot express the minimum of the number and the size of the grid.
    let clamped = needs("clamped", 2, 1, most).unwrap();
    let bytes = |n| clamped.iter().filter_map(|need| need.bytes(&[n])).max();
    assert_eq!((bytes(700), bytes(2000)), (Some(4092), Some(8000)));
    // The index of the loop wraps for the largest numbers.
    assert_eq!(needs("grid_stride", 2, 1, i32::MAX as u64), None);
    // Ranges have no negative numbers, and are not empty.
    assert_eq!(needs("vector_add", 3, 0, 1 << 31), None);
    assert_eq!(needs("vector_add", 3, 5, 4), None);
    // The product of the number and an index is not known for a range.
    assert_eq!(needs("matmul_naive", 3, 1, 100), None);
}

#[test]
fn a_range_of_grids_has_one_proof() {
    let blocks = |low, high| NumberRange {
        number: OpenNumber::Blocks { axis: 0 },
        low,
        high,
    };
    let needs = |name: &str, buffers: usize, numbers: &[i32], range: NumberRange| {
        let mut arguments = vec![output(1 << 62); buffers];
        arguments.extend(numbers.iter().copied().map(int));
        let launch = LaunchValues {
            cluster: None,
            dynamic_shared: 1024,
            ..line(arguments)
        };
        analysis(TEXT, name).evaluate_ranges(&launch, &[range])
    };
    let most = 1 << 22;
    let exactly = |needs: &[Need], size: fn(u64) -> u64| {
        let is_exact = |count| {
            let mut needs = needs.iter();
            needs.all(|need| need.bytes(&[count]) == Some(size(count)))
        };
        !needs.is_empty() && [1, 4, 77, 1 << 22].into_iter().all(is_exact)
    };
    // A guard ends the index; without one, it ends with the grid.
    for (name, buffers) in [("vector_add", 3), ("grid_stride", 2)] {
        let found = needs(name, buffers, &[1000], blocks(1, most)).unwrap();
        assert!(exactly(&found, |_| 4000), "{name}: {found:?}");
    }
    let found = needs("vector_add_unguarded", 3, &[], blocks(1, most)).unwrap();
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(exactly(&found, |count| 1024 * count), "{found:?}");
    // One element for each block.
    let found = needs("reduction", 2, &[1000], blocks(1, most)).unwrap();
    let (out, input): (Vec<Need>, Vec<Need>) = found.into_iter().partition(|it| it.is_written);
    assert!(exactly(&out, |count| 4 * count), "{out:?}");
    assert!(exactly(&input, |_| 4000), "{input:?}");
    // The index of a thread wraps.
    for (name, buffers) in [("vector_add", 3), ("grid_stride", 2)] {
        let range = blocks(1, i32::MAX as u64);
        assert_eq!(needs(name, buffers, &[1000], range), None, "{name}");
    }
    // A grid has 1 to 2³¹ - 1 blocks along an axis.
    for range in [blocks(0, 4), blocks(5, 4), blocks(1, 1 << 31)] {
        assert_eq!(needs("vector_add_unguarded", 3, &[], range), None);
    }
    let no_axis = NumberRange {
        number: OpenNumber::Blocks { axis: 3 },
        ..blocks(1, 4)
    };
    assert_eq!(needs("vector_add_unguarded", 3, &[], no_axis), None);
}

#[test]
fn ranges_of_numbers_and_of_the_grid_have_one_proof() {
    let number = |parameter, low, high| NumberRange {
        number: OpenNumber::Argument {
            parameter,
            offset: 0,
            size: 4,
        },
        low,
        high,
    };
    let blocks = |axis, high| NumberRange {
        number: OpenNumber::Blocks { axis },
        low: 1,
        high,
    };
    let arguments = [output(1 << 62), output(1 << 62), int(100), int(80)];
    let launch = launch([7, 5, 1], [16, 16, 1], arguments);
    // The width has one value, because the index of a row is multiplied by it.
    let ranges = [number(3, 1, 10_000), blocks(0, 1000), blocks(1, 1000)];
    let stencil = analysis(TEXT, "stencil");
    let needs = stencil.evaluate_ranges(&launch, &ranges).unwrap();
    for (height, grid) in [(80, [7, 5]), (10_000, [1000, 1000])] {
        let bytes = |is_written| {
            let needs = needs.iter().filter(|need| need.is_written == is_written);
            needs
                .map(|need| need.bytes(&[height, grid[0], grid[1]]))
                .max()
        };
        let all = 4 * 100 * height;
        assert_eq!(bytes(true), Some(Some(all - 404)), "{needs:?}");
        assert_eq!(bytes(false), Some(Some(all - 4)), "{needs:?}");
    }
    // Two ranges of one number.
    let twice = [blocks(0, 1000), blocks(0, 10)];
    assert_eq!(stencil.evaluate_ranges(&launch, &twice), None);
}
