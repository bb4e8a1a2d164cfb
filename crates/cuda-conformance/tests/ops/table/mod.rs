//! The tables of operations.

pub(crate) mod approximate;
pub(crate) mod atomic;
pub(crate) mod bits;
pub(crate) mod byte_float;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod float;
pub(crate) mod half;
pub(crate) mod integer;
pub(crate) mod memory;
pub(crate) mod special;
pub(crate) mod warp;

use crate::operation::Operation;

/// The operations of all tables.
pub(crate) fn all() -> Vec<Operation> {
    [
        integer::operations(),
        bits::operations(),
        float::operations(),
        half::operations(),
        compare::operations(),
        convert::operations(),
        approximate::operations(),
        warp::operations(),
        special::operations(),
        memory::operations(),
        atomic::operations(),
        byte_float::operations(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
