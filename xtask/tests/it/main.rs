//! What the tasks do when they are run as commands.

mod bundle;
mod scripts;
mod setup;
