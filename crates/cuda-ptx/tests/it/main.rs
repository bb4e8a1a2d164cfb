//! Tests of the analysis on whole kernels.

mod called;
mod coverage;
mod fuzz;
mod known;
mod support;
mod text;
