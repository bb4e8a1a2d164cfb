//! Tests of the analysis on whole kernels, and of the layers of the library.

mod assembler;
mod breaks;
mod called;
mod coverage;
mod floats;
mod fuzz;
mod indices;
mod known;
mod layers;
mod objects;
mod open_numbers;
mod support;
mod tables;
mod text;
mod tiles;
