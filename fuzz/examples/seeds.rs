//! `seeds OUT KERNELS…`: Writes the PTX of the kernels in this workspace as seeds, one kernel per
//! file.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::{env, fs};

use cuda_nvrtc::{Arch, Nvrtc, Options, Program};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args_os().skip(1);
    let out = args.next().ok_or("seeds OUT KERNELS…")?;
    let out = Path::new(&out);
    fs::create_dir_all(out)?;
    let nvrtc = Nvrtc::load()?;
    let mut seen = BTreeSet::new();
    for path in args {
        let text = fs::read_to_string(&path)?;
        let name = Path::new(&path)
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy();
        for (major, minor) in [(7, 5), (9, 0), (10, 0)] {
            let options = Options::new().arch(Arch::compute(major, minor));
            let program = Program::new(&nvrtc, text.as_str());
            // Some kernels need a newer device, or options.
            let Ok(compiled) = program.compile_ptx(&options) else {
                continue;
            };
            for (index, seed) in split(&compiled.image.to_text()).into_iter().enumerate() {
                if seen.insert(seed.clone()) {
                    fs::write(out.join(format!("{name}_{major}{minor}_{index}.ptx")), seed)?;
                }
            }
        }
    }
    println!("{} seeds in {}", seen.len(), out.display());
    Ok(())
}

/// Splits a text into texts with one kernel each, without comments.
fn split(text: &str) -> Vec<String> {
    let (mut shared, mut kernels) = (String::new(), Vec::new());
    let mut kernel: Option<String> = None;
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default().trim_end();
        if line.is_empty() {
            continue;
        }
        if line.contains(".entry ") {
            kernel = Some(String::new());
        }
        match &mut kernel {
            Some(kernel_text) => {
                kernel_text.push_str(line);
                kernel_text.push('\n');
                if line == "}" {
                    kernels.extend(kernel.take());
                }
            }
            None => {
                shared.push_str(line);
                shared.push('\n');
            }
        }
    }
    kernels
        .into_iter()
        .map(|kernel| format!("{shared}{kernel}"))
        .collect()
}
