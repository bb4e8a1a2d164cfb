//! Work whose memory is not declared is captured only by `unsafe` code.

use cuda_driver::Result;
use cuda_driver::graph::EagerCapture;

fn capture(capture: &EagerCapture) -> Result<()> {
    capture.foreign(|_stream| ())
}

fn main() {}
