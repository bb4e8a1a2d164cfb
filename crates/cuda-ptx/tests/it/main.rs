//! Tests of the analysis on whole kernels.

mod fuzz;
mod known;
mod support;
mod text;
