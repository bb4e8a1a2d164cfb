//! Tests of the analysis.

mod bounds;
mod forms;
mod hostile;
