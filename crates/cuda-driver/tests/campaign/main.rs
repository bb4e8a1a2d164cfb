//! Random kernels that are launched safely inside of one buffer, whose other words nothing may
//! change. README.md describes the program.

mod arena;
mod attacks;
mod child;
mod generate;
mod message;
mod module;
mod options;
mod parent;
mod planted;
mod self_test;
mod session;
mod worker;

use std::process::ExitCode;

use options::{Mode, Options};

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    let code = |is_right: bool| match is_right {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    };
    match options.mode {
        Mode::Test => code(test(&options)),
        Mode::Campaign => code(parent::campaign(&options)),
        Mode::SelfTest => code(self_test::run(&options)),
        Mode::Attacks => code(attacks::run(&options)),
        Mode::Attack => code(attacks::run_one(&options)),
        Mode::Print => {
            print(&options);
            ExitCode::SUCCESS
        }
        Mode::Worker => match worker::serve(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                worker::report(&error);
                ExitCode::FAILURE
            }
        },
    }
}

/// Prints the text of a module, of one kernel, or of attacks.
fn print(options: &Options) {
    if !options.names.is_empty() {
        return attacks::print(options);
    }
    let plan = match options.seed {
        Some(seed) => module::Plan::of_kernel(seed),
        None => module::Plan::new(options.first, module::Part::Main, options.kernels),
    };
    let kernels: Vec<usize> = (0..plan.kernels.len())
        .filter(|kernel| {
            options
                .seed
                .is_none_or(|seed| plan.kernels[*kernel].seed == seed)
        })
        .collect();
    print!("{}", plan.text(&kernels).0);
}

/// A short run of all modes on the software device.
fn test(options: &Options) -> bool {
    // The options of the test harness: a list of tests, and the names of tests to run.
    const NAME: &str = "random_kernels_stay_in_their_arguments_on_a_software_device";
    let has = |option: &str| options.names.iter().any(|name| name == option);
    let mut filters = options.names.iter().filter(|name| !name.starts_with('-'));
    let is_wanted = filters.clone().next().is_none() || filters.any(|name| NAME.contains(&**name));
    if has("--ignored") || !is_wanted {
        return true;
    }
    if has("--list") {
        println!("{NAME}: test");
        return true;
    }
    let folder = std::env::temp_dir().join(format!("cuda-campaign-{}", std::process::id()));
    // Module 1 has a register that is named `%clock`, which the software device does not read.
    let arguments = [
        "--run",
        "--software",
        "--workers",
        "2",
        "--first",
        "2",
        "--modules",
        "2",
        "--kernels",
        "120",
    ];
    let arguments = arguments.map(str::to_owned).into_iter();
    let mut options = match Options::parse(arguments) {
        Ok(options) => options,
        Err(message) => panic!("{message}"),
    };
    options.folder = Some(folder.clone());
    let is_right = self_test::run(&options) && attacks::run(&options) && parent::campaign(&options);
    let _ = std::fs::remove_dir_all(folder);
    is_right
}
