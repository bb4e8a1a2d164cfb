//! Executes every permitted instruction form, and compares the results and the accessed bytes with
//! what the analysis says. README.md describes the program.

mod check;
mod claim;
mod device;
mod extra;
mod inputs;
mod item;
mod kernel;
mod memory;
mod message;
mod objects;
mod options;
mod parent;
mod planted;
mod report;
mod self_test;
mod values;
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
    let is_right = match options.mode {
        Mode::Test => test(&options),
        Mode::Run => run(&options),
        Mode::SelfTest => self_test::run(&options),
        Mode::Print => {
            print(&options);
            true
        }
        Mode::Worker => match worker::serve(&options) {
            Ok(()) => true,
            Err(error) => {
                eprintln!("the worker fails: {error}");
                false
            }
        },
    };
    if is_right {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The runs that the options choose.
fn chosen(options: &Options, items: &[item::Item], runs: &[item::Run]) -> Vec<usize> {
    let mut counts = std::collections::BTreeMap::new();
    let mut chosen = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        let item = &items[run.item];
        let has = |text: &String| item.row.contains(text.as_str()) || item.text.contains(&**text);
        if !options.only.as_ref().is_none_or(has) {
            continue;
        }
        let count: &mut usize = counts.entry(item.row).or_default();
        *count += 1;
        if options.examples == 0 || *count <= options.examples {
            chosen.push(number);
        }
    }
    chosen
}

/// Executes the chosen instructions. Returns whether there is no finding.
fn run(options: &Options) -> bool {
    let start = std::time::Instant::now();
    let items = item::items();
    let runs = item::runs(&items);
    let chosen = chosen(options, &items, &runs);
    let outcomes = match parent::execute(options, &items, &runs, &chosen) {
        Ok(outcomes) => outcomes,
        Err(message) => {
            println!("no worker was started: {message}");
            return false;
        }
    };
    let summary = report::Summary::new(&items, &runs, &chosen, &outcomes);
    if let Some(folder) = &options.folder {
        let written = std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(folder.join("meaning.txt"), summary.details()));
        if let Err(error) = written {
            println!("{} was not written: {error}", folder.display());
        }
    }
    print!("{}", summary.text());
    println!("{:.1} s", start.elapsed().as_secs_f64());
    summary.is_right()
}

fn print(options: &Options) {
    let items = item::items();
    let runs = item::runs(&items);
    for number in chosen(options, &items, &runs) {
        let run = runs[number];
        let item = &items[run.item];
        if number == 0 || options.only.is_some() {
            print!(
                "{}",
                kernel::module(worker::key(item).0, worker::key(item).1)
            );
        }
        print!("{}", kernel::kernel(&format!("k{number}"), item, run));
    }
}

/// A short run on the software device.
fn test(options: &Options) -> bool {
    const NAME: &str = "instructions_do_what_the_analysis_says_on_a_software_device";
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
    let options = Options {
        is_software: true,
        workers: 2,
        sets: 128,
        examples: 2,
        ..options.clone()
    };
    println!("{} sets and 2 instructions of each row", options.sets);
    self_test::run(&options) && run(&options)
}
