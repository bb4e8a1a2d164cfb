//! The closure of a capture borrows it, so it can neither end nor keep it.

use cuda_driver::graph::EagerCapture;
use cuda_driver::prelude::*;

fn end(stream: &Stream) {
    let _ = Graph::capture_eager(stream, |capture| {
        capture.end()?;
        Ok(())
    });
}

fn keep<'a>(stream: &Stream, kept: &mut Option<&'a EagerCapture>) {
    let _ = Graph::capture_eager(stream, |capture| {
        *kept = Some(capture);
        Ok(())
    });
}

fn main() {}
