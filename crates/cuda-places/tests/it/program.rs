//! The environment and the folder of the running program.

use std::env;
use std::path::PathBuf;

use cuda_places::{Setup, path_variable};

#[test]
fn a_path_variable_is_a_path_or_nothing() {
    assert_eq!(
        path_variable("PATH"),
        env::var_os("PATH").map(PathBuf::from)
    );
    assert_eq!(path_variable("CUDA_PLACES_TEST_UNSET"), None);
}

#[test]
fn the_setup_is_in_the_target_folder_of_the_program() {
    let program = env::current_exe().unwrap();
    // `target/debug/deps/it-…`, or `target/<triple>/debug/deps/it-…`
    let mut folders = program.ancestors().map(|dir| dir.join("cuda-setup"));
    let expected = folders.find(|dir| dir.is_dir());
    let found = Setup::around_this_program();
    assert_eq!(found.map(|setup| setup.dir), expected);
}
