//! Tests that run the tasks as commands.

mod bundle;
mod dist;
mod documents;
mod scripts;
mod setup;

use std::fs;
use std::path::Path;

/// Returns the root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Appends all Rust files in a folder to `text`.
fn read(folder: &Path, text: &mut String) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            *text += &fs::read_to_string(&path).unwrap();
        }
    }
}
