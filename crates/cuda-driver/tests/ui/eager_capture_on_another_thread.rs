//! An eager capture captures the calls of one thread, so it cannot be sent.

use cuda_driver::graph::EagerCapture;
use cuda_driver::prelude::*;

fn send<T: Send>(_: T) {}

fn away(stream: &Stream) {
    send(EagerCapture::begin(stream).unwrap());
}

fn main() {}
