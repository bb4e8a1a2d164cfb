//! Writes an exported function for each function of the table that cuda-sys was built with.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let table = env::var("DEP_CUDA_SYS_TABLE_TABLE")?;
    println!("cargo::rerun-if-changed={table}");
    let text = exports(&fs::read_to_string(&table)?)?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    fs::write(out.join("exports.rs"), text)?;
    set_name(&out)?;
    // The tests compile C for the same target.
    println!("cargo::rustc-env=CUDA_SIM_TARGET={}", env::var("TARGET")?);
    Ok(())
}

/// Gives the library the name of NVIDIA's, whatever name the file has: a program that is linked to
/// the file loads the library of that name.
fn set_name(out: &Path) -> Result<(), Box<dyn Error>> {
    let system = env::var("CARGO_CFG_TARGET_OS")?;
    if system == "linux" {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    } else if system == "windows" && env::var("CARGO_CFG_TARGET_ENV")? == "gnu" {
        let definition = out.join("name.def");
        fs::write(&definition, "LIBRARY nvcuda.dll\n")?;
        println!("cargo::rustc-cdylib-link-arg={}", definition.display());
    }
    Ok(())
}

/// The methods of the generated table all read
/// `pub unsafe fn cuX(&self, a: A, b: B) -> CUresult {`, over one line or several.
fn exports(table: &str) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    let mut count = 0;
    for method in table.split("pub unsafe fn ").skip(1) {
        let (name, rest) = method.split_once('(').ok_or("a method has parameters")?;
        let (params, rest) = rest
            .split_once(") -> CUresult {")
            .ok_or("a method returns a status")?;
        if !rest.contains(name) {
            return Err(format!("{name} does not look as expected").into());
        }
        let params: Vec<&str> = params
            .split(',')
            .map(str::trim)
            .filter(|param| !param.is_empty() && *param != "&self")
            .collect();
        let names = params.iter().map(|param| {
            let (name, _) = param.split_once(':')?;
            Some(name.trim())
        });
        let names: Option<Vec<&str>> = names.collect();
        let names = names.ok_or("a parameter has a type")?;
        write!(
            text,
            r#"
/// Exported as `cuda.h` declares it.
///
/// # Safety
///
/// As `cuda.h` says.
#[unsafe(no_mangle)]
unsafe extern "C" fn {name}({}) -> CUresult {{
    match driver() {{
        // SAFETY: the arguments must be what cuda.h asks for ← the caller says so.
        Ok(driver) => unsafe {{ driver.{name}({}) }},
        Err(code) => code,
    }}
}}
"#,
            params.join(", "),
            names.join(", "),
        )?;
        count += 1;
    }
    if count == 0 {
        return Err("the table has no functions".into());
    }
    writeln!(
        text,
        "\n/// How many functions there are.\nconst EXPORTS: usize = {count};"
    )?;
    Ok(text)
}
