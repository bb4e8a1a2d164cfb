//! Tests of the analysis on whole kernels, and of the layers of the library.

mod assembler;
mod breaks;
mod called;
mod coverage;
mod crashes;
mod floats;
mod forms;
mod fuzz;
mod indices;
mod known;
mod layers;
mod liberties;
mod objects;
mod open_numbers;
mod parameter_limit;
mod printed;
mod reading;
mod support;
mod tables;
mod text;
mod tiles;
