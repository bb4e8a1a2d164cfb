//! NVIDIA's assembler `ptxas` in several versions, and its disassembler `nvdisasm`.
//!
//! What runs on a GPU is what the assembler makes of a PTX text, so tests ask it which texts it
//! accepts, and read the machine code that it writes. [`assemblers`] finds the versions that
//! `cargo xtask ci --only assembler` installs in `target/cuda-setup/assembler/<version>`. Without
//! them, it finds the toolkit of `CUDA_PATH`, `CUDA_HOME` or `PATH`. A GPU is not needed.
//!
//! Each version knows other architectures, see [`Assembler::knows`]:
//!
//! | version | architectures |
//! |---|---|
//! | 12.0, 12.4 | sm_50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 90a |
//! | 12.9 | the same, and 100, 101, 103, 120, 121, each also with `a` and `f` |
//! | 13.0 | sm_75, 80, 86, 87, 88, 89, 90, 90a; 100, 103, 110, 120, 121, each also with `a` and `f` |
//! | 13.5 | those of 13.0, and 107, also with `a` and `f` |
//!
//! All of them accept PTX texts of their own version and of older ones, back to PTX 1.0. The
//! disassembler reads the machine code of all of them.

mod cubin;
mod find;
mod process;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

pub use cubin::{Cubin, Listing};
pub use find::{assemblers, newest};

/// One version of `ptxas`.
#[derive(Clone, Debug)]
pub struct Assembler {
    /// The version, such as `13.5.37`.
    pub version: String,
    /// The program.
    pub path: PathBuf,
    disassembler: PathBuf,
    architectures: Vec<String>,
}

/// The answer of an assembler that does not accept a text.
#[derive(Clone, Debug)]
pub struct Refused {
    /// How the process ended. A signal is a crash of the assembler.
    pub status: ExitStatus,
    /// What it wrote to its standard error.
    pub stderr: String,
    /// Whether the process was ended because it ran for too long.
    pub timed_out: bool,
}

impl Refused {
    /// Returns whether the assembler ended in an orderly way, with an error of its own.
    #[must_use]
    pub fn is_orderly(&self) -> bool {
        !self.timed_out && self.status.code().is_some()
    }
}

impl Assembler {
    /// Returns whether this version generates code for `arch`, such as `sm_90a`.
    #[must_use]
    pub fn knows(&self, arch: &str) -> bool {
        self.architectures.iter().any(|known| known == arch)
    }

    /// Assembles a text for an architecture, with additional options such as `-O0`.
    ///
    /// # Errors
    ///
    /// Returns what the assembler says if it does not accept the text, and its signal if it crashes.
    /// It is ended after a minute.
    ///
    /// # Panics
    ///
    /// Panics if the process cannot be run.
    pub fn assemble(&self, text: &str, arch: &str, options: &[&str]) -> Result<Cubin, Refused> {
        let folder = process::Folder::new();
        let (source, cubin) = (folder.path("k.ptx"), folder.path("k.cubin"));
        process::write(&source, text.as_bytes());
        let mut command = Command::new(&self.path);
        command.arg(format!("-arch={arch}")).args(options);
        command.arg("-o").arg(&cubin).arg(&source);
        let output = process::run(command, &folder);
        match fs::read(&cubin) {
            Ok(bytes) if output.status.success() => Ok(Cubin::new(bytes)),
            _ => Err(output),
        }
    }

    /// Lists the instructions of each function of `cubin`.
    ///
    /// # Panics
    ///
    /// Panics if the disassembler cannot be run, or does not read the machine code.
    #[must_use]
    pub fn disassemble(&self, cubin: &Cubin) -> Vec<Listing> {
        let folder = process::Folder::new();
        let file = folder.path("k.cubin");
        process::write(&file, cubin.bytes());
        let mut command = Command::new(&self.disassembler);
        command.arg("-c").arg(&file);
        cubin::listings(&process::output(command))
    }
}

#[cfg(test)]
mod tests;
