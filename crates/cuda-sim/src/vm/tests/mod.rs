//! Tests of the interpreter against results that the host computes in another way.

mod basic;
mod bulk;
mod check;
mod cluster;
mod columns;
mod control;
mod device;
mod floats;
mod forms;
mod group;
mod helpers;
mod hints;
mod lines;
mod matrix;
mod mbarrier;
mod neighbours;
mod opcodes;
mod operations;
mod reading;
mod rows;
mod tensor;
mod tile;
