//! Launches of kernels that were compiled for one shape of cluster.

use cuda_driver::prelude::*;
use cuda_sim::Builder;

use crate::cases::{Texts, fixture, module, text};

const EIGHT: &str = "
    .version 7.8
    .target sm_90
    .address_size 64
    .visible .entry eight() .explicitcluster .reqnctapercluster 8, 1, 1 { ret; }";

pub(crate) fn texts() -> Texts {
    let fixture = fixture(Builder::new());
    let eight = module(&fixture.context, EIGHT).function("eight").unwrap();
    let launch = |blocks: u32, attributes: &LaunchAttributes<'_>| {
        let config = LaunchConfig::new(blocks, 32);
        // SAFETY: the kernel uses no memory.
        text(unsafe { fixture.stream.launch_with(&eight, config, attributes, ()) })
    };
    // SAFETY: as above.
    let plain = unsafe { fixture.stream.launch(&eight, LaunchConfig::new(12, 32), ()) };
    vec![
        ("part of a cluster of the kernel", text(plain)),
        (
            "part of a cluster of the kernel, with attributes",
            launch(12, &LaunchAttributes::new().priority(0)),
        ),
        (
            "another cluster than that of the kernel",
            launch(8, &LaunchAttributes::new().cluster(4)),
        ),
    ]
}
