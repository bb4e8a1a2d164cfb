//! What is current is current on one thread.

use cuda_driver::prelude::*;

fn send<T: Send>(_: T) {}

fn away(context: &Context) {
    send(context.make_current().unwrap());
}

fn main() {}
