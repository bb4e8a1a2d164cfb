//! Tests of bounds, of linear forms and of hostile input.

mod bounds;
mod forms;
mod hostile;
