//! Tests of the parts of the analysis.

mod bounds;
mod forms;
mod hostile;
