//! The known attacks. Each is launched safely in a process of its own, because some lose the
//! device or end the process, and is judged by the words outside of its arguments.

mod attack;
mod loops;
mod memory;
mod objects;
mod programs;
mod warps;

use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, thread};

use cuda_driver::error::Status;
use cuda_driver::launch::ArgList;
use cuda_driver::prelude::*;
use cuda_driver::safe::{SafeModule, Unproven};
use cuda_driver::{Error, Result};

use crate::arena::Arena;
use crate::options::Options;
use crate::session::first_line;
use crate::worker::open;
use attack::Attack;

/// The value of the words of a variable that no kernel may change.
const UNTOUCHED: u32 = 0x1234_5678;
/// The begin of a line that reports a defect.
const BROKEN: &str = "BROKEN";
/// The begin of a line that reports that the device is lost.
const LOST: &str = "BROKEN: the device is lost";
/// The attacks that are known to lose the software device. On a GPU none may lose it.
const KNOWN: [&str; 1] = ["ldmatrix of one thread"];

fn all() -> Vec<Attack> {
    let mut all = programs::programs();
    all.extend(loops::loops());
    all.extend(objects::objects());
    all.extend(memory::memory());
    all.extend(warps::warps());
    all
}

/// The attacks whose names contain one of the names of the options, or all.
fn wanted(options: &Options) -> impl Iterator<Item = Attack> {
    let names = &options.names;
    all().into_iter().filter(move |attack| {
        names.is_empty() || names.iter().any(|name| attack.name.contains(name.as_str()))
    })
}

/// Prints the texts of attacks.
pub(crate) fn print(options: &Options) {
    for attack in wanted(options) {
        println!("// {}\n{}", attack.name, attack.text);
    }
}

/// Runs attacks. Returns whether all of them are refused, checked or right.
pub(crate) fn run(options: &Options) -> bool {
    let mut is_right = true;
    for attack in wanted(options) {
        let line = in_process(options, &attack);
        let is_known =
            options.is_software && line.starts_with(LOST) && KNOWN.contains(&attack.name);
        is_right &= is_known || !line.starts_with(BROKEN);
        println!(
            "{} {line}{}",
            attack.name,
            if is_known { " (known)" } else { "" }
        );
    }
    is_right
}

/// Runs one attack in a process, and returns its result.
fn in_process(options: &Options, attack: &Attack) -> String {
    let program = env::current_exe().expect("the path of this program");
    let mut arguments = options.for_worker();
    arguments[0] = "--attack".to_owned();
    let child = Command::new(program)
        .args(arguments)
        .arg(attack.name)
        .stdout(Stdio::piped())
        .spawn();
    let child = child.expect("a process");
    let output = child.wait_with_output().expect("its output");
    let text = String::from_utf8_lossy(&output.stdout);
    let result = text.lines().find_map(|line| line.strip_prefix("result: "));
    match result {
        Some(result) => result.to_owned(),
        None => format!("{BROKEN}: the process ended with {}", output.status),
    }
}

/// Runs the attack that the options name, and prints its result.
pub(crate) fn run_one(options: &Options) -> bool {
    let name = options.names.first().map_or("", String::as_str);
    let Some(attack) = all().into_iter().find(|attack| attack.name == name) else {
        println!("result: {BROKEN}: no attack has the name {name:?}");
        return false;
    };
    let result = launch(options, &attack);
    let text = match &result {
        Ok(text) => text.clone(),
        Err(Error::SafeLaunch(error)) => format!("refused: {error}"),
        Err(Error::Jit(error)) => format!("refused by the driver: {error}"),
        Err(error) if error.status() == Some(Status::CUDA_ERROR_LAUNCH_TIMEOUT) => {
            "endless".to_owned()
        }
        Err(error) if crate::session::is_loss(error) => format!("{LOST}: {error}"),
        Err(error) => format!("not launched: {error}"),
    };
    println!("result: {}", first_line(&text));
    std::process::exit(i32::from(text.starts_with(BROKEN)));
}

/// Prints the result of a kernel that does not end, and ends the process at once, because
/// destructors and handlers of the driver would wait for the kernel.
fn end_endless(result: &str) -> ! {
    println!("result: {result}");
    std::process::abort();
}

/// Launches an attack, and returns what it did.
fn launch(options: &Options, attack: &Attack) -> Result<String> {
    let (_simulator, context) = open(options.is_software)?;
    let mut arena = Arena::new(&context, options.side_words(), options.is_software)?;
    let module = SafeModule::load_with(&context, &Ptx::new(&*attack.text)?, &attack.options)?;
    let stream = arena.stream.clone();
    let global = |name: Option<&'static str>| {
        name.map(|name| module.module().global::<u32>(name, &stream))
            .transpose()
    };
    let (mut variable, mut untouched) = (global(attack.variable)?, global(attack.untouched)?);
    if let Some(untouched) = &mut untouched {
        let words = vec![UNTOUCHED; untouched.len()];
        untouched.copy_from_host(&words)?;
    }
    // `x` is followed by the words of the other two buffers, which are not used.
    let ranges = [(0, attack.words), (attack.words, 0), (attack.words, 0)];
    let mut words = vec![attack.value; attack.words];
    if let Some((at, value)) = attack.word {
        words[at] = value;
    }
    let grid = if options.is_software {
        attack.grid.min(8)
    } else {
        attack.grid
    };
    let config = LaunchConfig::new(grid, attack.block).with_shared_bytes(attack.shared_bytes);
    let unproven = [Unproven::Check, Unproven::CheckAll][usize::from(attack.is_check_all)];
    let mut how = String::from("right");
    for _ in 0..attack.repeat {
        for name in attack.before.into_iter().chain(["k"]) {
            let kernel = module.kernel(name)?.with_unproven(unproven);
            let [mut x, ..] = arena.buffers(ranges)?;
            x.copy_from_host(&words)?;
            let is_checked = {
                let mut args = ArgList::new();
                args.push(&mut x).push(attack.n).push(attack.m);
                if let Some(variable) = &mut variable {
                    args.uses(variable);
                }
                stream.launch_safe(&kernel, config, &args)?.is_checked()
            };
            let end = std::time::Instant::now() + Duration::from_millis(options.patience_ms);
            while !stream.is_done()? {
                if std::time::Instant::now() > end {
                    let state = if is_checked { "checked" } else { "proven" };
                    end_endless(&format!("{state}, endless"));
                }
                thread::sleep(Duration::from_millis(1));
            }
            how = match stream.synchronize() {
                Ok(()) if is_checked => "checked: no violation".to_owned(),
                Ok(()) => how,
                Err(Error::Violation(violation)) => format!("checked: {violation}"),
                Err(error) => return Err(error),
            };
        }
    }
    let (changes, changed) = arena.compare(&ranges)?;
    if changes > 0 {
        return Ok(format!(
            "{BROKEN}: {changes} words have changed, such as {changed:?}; {how}"
        ));
    }
    if let Some(untouched) = untouched {
        let words = untouched.to_vec()?;
        if let Some(at) = words.iter().position(|word| *word != UNTOUCHED) {
            let name = untouched.name();
            return Ok(format!(
                "{BROKEN}: word {at} of variable {name} has changed; {how}"
            ));
        }
    }
    Ok(how)
}
