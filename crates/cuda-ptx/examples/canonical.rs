//! Prints the text that the assembler gets for a module whose kernels are launched safely.
//!
//! `cargo run -p cuda-ptx --example canonical -- kernel.ptx` prints the text, and the kernels that
//! are left out, with the reasons, to the standard error output.

use std::error::Error;
use std::{env, fs};

use cuda_ptx::canonical::Canonical;

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).ok_or("usage: canonical FILE.ptx")?;
    let text = fs::read_to_string(path)?;
    let canonical = Canonical::new(&cuda_ptx::parse(&text)?)?;
    print!("{}", canonical.text());
    let mut refusals: Vec<_> = canonical.refusals().collect();
    refusals.sort_by_key(|refusal| refusal.line);
    for refusal in refusals {
        eprintln!("{refusal}");
    }
    Ok(())
}
