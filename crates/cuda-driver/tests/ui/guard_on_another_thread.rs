//! The current context belongs to one thread, so its guard cannot be sent.

use cuda_driver::prelude::*;

fn send<T: Send>(_: T) {}

fn away(context: &Context) {
    send(context.make_current().unwrap());
}

fn main() {}
