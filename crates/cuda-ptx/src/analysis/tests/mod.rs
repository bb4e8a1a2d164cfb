//! Tests of the parts of the analysis.

mod bounds;
mod choices;
mod forms;
mod hostile;
mod limits;
mod quotients;
