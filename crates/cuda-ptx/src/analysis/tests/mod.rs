mod bounds;
mod forms;
mod hostile;
