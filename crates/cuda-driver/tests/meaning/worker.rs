//! A worker: a process with its own context. It reads lists of runs from its standard input.

use std::io::{BufRead, Write};

use cuda_driver::{Error, Result};

use crate::check::{self, Prepared};
use crate::device::{Device, is_loss};
use crate::item::{self, Item, Place, Run};
use crate::kernel;
use crate::message::{self, Message};
use crate::options::Options;

fn say(message: &Message) {
    let mut out = std::io::stdout().lock();
    // A parent that has ended reads nothing.
    let _ = writeln!(out, "{}", message.text());
    let _ = out.flush();
}

/// Returns the reason for which the device has no such instruction.
fn missing(item: &Item, capability: (u32, u32)) -> Option<String> {
    let digits = item.target.trim_start_matches("sm_").trim_end_matches('a');
    let needed: u32 = digits.parse().ok()?;
    let found = 10 * capability.0 + capability.1;
    let is_own = item.target.ends_with('a') && needed != found;
    let is_missing = needed > found || is_own;
    is_missing.then(|| format!("it needs {}", item.target))
}

/// Serves lists of runs until the standard input ends.
pub(crate) fn serve(options: &Options) -> Result<()> {
    let device = Device::new(options.is_software)?;
    let items = item::items();
    let runs = item::runs(&items);
    let (major, minor) = device.capability;
    say(&Message::Ready(format!("{major}.{minor}")));
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let numbers = message::numbers(&line);
        let mut prepared = Vec::new();
        for number in numbers {
            let run = runs[number];
            let item = &items[run.item];
            let made = match missing(item, device.capability) {
                Some(reason) => Err(reason),
                None => check::prepare(item, run, options.sets, options.defect),
            };
            match made {
                Ok(made) => prepared.push((number, run, made)),
                Err(reason) => say(&Message::None(number, reason)),
            }
        }
        serve_runs(&device, &items, &prepared)?;
        say(&Message::End);
    }
    Ok(())
}

/// Loads one module for all runs, or two for halves of them if it is not assembled.
fn serve_runs(
    device: &Device,
    items: &[Item],
    prepared: &[(usize, Run, Prepared<'_>)],
) -> Result<()> {
    let Some((_, run, _)) = prepared.first() else {
        return Ok(());
    };
    let numbers: Vec<usize> = prepared.iter().map(|it| it.0).collect();
    let mut text = kernel::module(key(&items[run.item]).0, key(&items[run.item]).1);
    for (number, run, _) in prepared {
        text += &kernel::kernel(&format!("k{number}"), &items[run.item], *run);
    }
    say(&Message::Load(numbers.clone()));
    let module = match device.load(&text) {
        Ok(module) => module,
        Err(error) if is_loss(&error) => {
            say(&Message::Lost(numbers[0], error.to_string()));
            std::process::exit(0);
        }
        Err(error) => {
            if let [number] = numbers[..] {
                say(&Message::None(
                    number,
                    format!("not assembled: {}", reason(&error)),
                ));
                return Ok(());
            }
            let (first, second) = prepared.split_at(prepared.len() / 2);
            serve_runs(device, items, first)?;
            return serve_runs(device, items, second);
        }
    };
    for (number, run, prepared) in prepared {
        say(&Message::At(*number));
        let _ = run;
        match prepared.run(device, &module, &format!("k{number}")) {
            Ok(report) => say(&Message::Done(*number, report)),
            Err(error) if is_loss(&error) => {
                say(&Message::Lost(*number, error.to_string()));
                // The destructors would fail as the device is lost.
                std::process::exit(0);
            }
            Err(error) => say(&Message::None(
                *number,
                format!("not launched: {}", reason(&error)),
            )),
        }
    }
    Ok(())
}

/// What the runs of one module have in common: the PTX version, and whether it has constants.
pub(crate) fn key(item: &Item) -> (&'static str, bool) {
    let mut addresses = item.addresses.iter();
    let has_constants = addresses.any(|address| address.space == Some(Place::Const));
    (kernel::version(item), has_constants)
}

fn reason(error: &Error) -> String {
    let text = error.to_string();
    format!("{text:.400}")
}
