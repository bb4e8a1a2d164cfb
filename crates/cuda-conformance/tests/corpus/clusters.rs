//! Clusters of blocks with distributed shared memory.

use cuda_driver::prelude::*;

use crate::support::{Fixture, Source, everywhere, numbers};

const SOURCE: Source =
    Source::new("clusters.cu", include_str!("kernels/clusters.cu")).with_headers();

#[track_caller]
fn with_clusters() -> impl Iterator<Item = Fixture> {
    everywhere().filter(|fixture| {
        let capability = fixture.context.device().compute_capability().unwrap();
        capability.major >= 9
    })
}

#[test]
fn histogram_over_the_blocks_of_a_cluster() {
    let mut random = numbers(31);
    let input: Vec<u32> = (0..5000).map(|_| random.u32(0..256)).collect();
    let mut expected = vec![0_u32; 256];
    for &value in &input {
        expected[value as usize] += 1;
    }
    for fixture in with_clusters() {
        let kernel = fixture.kernel(&SOURCE, "cluster_histogram");
        let (values, mut bins) = (fixture.upload(&input), fixture.zeroed::<u32>(256));
        let (config, cluster) = (LaunchConfig::new(8, 96), LaunchAttributes::new().cluster(4));
        let args = (&values, &mut bins, 5000_u32);
        // SAFETY: the kernel reads n values below 256, for which 4 blocks have counters, and adds
        // to 256 words.
        unsafe { fixture.stream.launch_with(&kernel, config, &cluster, args) }.unwrap();
        assert_eq!(
            fixture.values(&bins, "cluster_histogram"),
            expected,
            "{}",
            fixture.name
        );
    }
}

#[test]
fn sums_of_pairs_of_blocks() {
    let mut random = numbers(32);
    let input: Vec<i32> = (0..6 * 256).map(|_| random.i32(-1000..1000)).collect();
    let expected: Vec<i32> = input.chunks(512).map(|pair| pair.iter().sum()).collect();
    for fixture in with_clusters() {
        let kernel = fixture.kernel(&SOURCE, "cluster_sums");
        let (values, mut sums) = (fixture.upload(&input), fixture.zeroed::<i32>(3));
        let config = LaunchConfig::new(6, 256);
        // SAFETY: each block reads 256 ints, and each pair writes one.
        unsafe { fixture.stream.launch(&kernel, config, (&values, &mut sums)) }.unwrap();
        assert_eq!(
            fixture.values(&sums, "cluster_sums"),
            expected,
            "{}",
            fixture.name
        );
    }
}
