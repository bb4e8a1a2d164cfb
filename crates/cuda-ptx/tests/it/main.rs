//! Tests of the analysis on whole kernels.

mod assembler;
mod called;
mod coverage;
mod fuzz;
mod known;
mod support;
mod text;
