//! Writes an exported function for each function of the table that cuda-sys was built with.

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

const NULL_DRIVER: &str = "../../src/null_driver.rs";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={NULL_DRIVER}");
    let table = env::var("DEP_CUDA_SYS_TABLE_TABLE")?;
    let special = special(&fs::read_to_string(NULL_DRIVER)?)?;
    let text = exports(&fs::read_to_string(&table)?, &special)?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    fs::write(out.join("exports.rs"), text)?;
    if env::var("CARGO_CFG_TARGET_OS")? == "linux" {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    }
    Ok(())
}

/// The functions that do more than return success, from the lines `b"cuX" => function as _,` of the
/// null driver.
fn special(source: &str) -> Result<BTreeMap<String, String>, Box<dyn Error>> {
    let mut found = BTreeMap::new();
    for line in source.lines() {
        if let Some((names, function)) = line.trim().split_once(" => ")
            && let Some(function) = function.strip_suffix(" as _,")
        {
            for name in names.split(" | ") {
                if let Some(name) = name
                    .strip_prefix("b\"")
                    .and_then(|name| name.strip_suffix('"'))
                {
                    found.insert(name.to_owned(), function.to_owned());
                }
            }
        }
    }
    if found.is_empty() {
        return Err("no functions found in the source of the null driver".into());
    }
    Ok(found)
}

/// A name without its revision suffix: `cuMemAlloc` for `cuMemAlloc_v2`.
fn base(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((base, digits)) if digits.bytes().all(|digit| digit.is_ascii_digit()) => base,
        _ => name,
    }
}

/// Writes the exported functions. Every method of the generated table has the form `pub unsafe fn
/// cuX(&self, a: A, b: B) -> CUresult {`, on one line or several.
fn exports(table: &str, special: &BTreeMap<String, String>) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    for method in table.split("pub unsafe fn ").skip(1) {
        let (name, rest) = method
            .split_once('(')
            .ok_or("a method of the table has no parameter list")?;
        let (params, _) = rest
            .split_once(") -> CUresult {")
            .ok_or("a method of the table does not return CUresult")?;
        let params: Vec<(&str, &str)> = params
            .split(',')
            .map(str::trim)
            .filter(|param| !param.is_empty() && *param != "&self")
            .map(|param| {
                param
                    .split_once(':')
                    .ok_or("a parameter of the table has no type")
            })
            .collect::<Result<_, _>>()?;
        let declared: Vec<String> = params
            .iter()
            .map(|(name, ty)| format!("{name}: {ty}"))
            .collect();
        let types: Vec<&str> = params.iter().map(|(_, ty)| ty.trim()).collect();
        let names: Vec<&str> = params.iter().map(|(name, _)| name.trim()).collect();
        // The first revision of this function has no parameter for the status, and nothing here
        // calls it.
        let function = special
            .get(base(name))
            .filter(|_| name != "cuGetProcAddress");
        let body = match function {
            None => "CUresult::CUDA_SUCCESS".to_owned(),
            Some(function) => format!(
                "let function: unsafe extern \"C\" fn({}) -> CUresult =
        // SAFETY: a function of the C calling conventions may ignore arguments; those that it takes
        // are the first.
        unsafe {{ core::mem::transmute(null_driver::{function} as *const ()) }};
    // SAFETY: the caller keeps to cuda.h.
    unsafe {{ function({}) }}",
                types.join(", "),
                names.join(", ")
            ),
        };
        write!(
            text,
            "
/// # Safety
///
/// As `cuda.h` says.
#[unsafe(no_mangle)]
pub unsafe extern \"C\" fn {name}({}) -> CUresult {{
    {body}
}}
",
            declared.join(", ")
        )?;
    }
    Ok(text)
}
