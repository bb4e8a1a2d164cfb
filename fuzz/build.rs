//! Writes a call of each driver function whose parameters are all of types that `calls` can make.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// Functions that are not called.
const LEFT_OUT: &[&str] = &[
    // Writes a file at any path that the string names.
    "cuGraphDebugDotPrint",
    // Waits for a value that no call may write, as on hardware.
    "cuStreamWaitValue32_v2",
    "cuStreamWaitValue32_v2_ptsz",
    "cuStreamWaitValue64_v2",
    "cuStreamWaitValue64_v2_ptsz",
];

/// Type names that are pointers: handles.
const HANDLES: &[&str] = &[
    "CUarray",
    "CUcontext",
    "CUdevResourceDesc",
    "CUevent",
    "CUexternalMemory",
    "CUexternalSemaphore",
    "CUfunction",
    "CUgraph",
    "CUgraphExec",
    "CUgraphNode",
    "CUgreenCtx",
    "CUkernel",
    "CUlibrary",
    "CUlinkState",
    "CUmemoryPool",
    "CUmipmappedArray",
    "CUmodule",
    "CUstream",
    "CUuserObject",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let table = env::var("DEP_CUDA_SYS_TABLE_TABLE")?;
    println!("cargo::rerun-if-changed={table}");
    let table = fs::read_to_string(&table)?;
    let (mut names, mut arms) = (String::new(), String::new());
    let mut count = 0;
    for method in table.split("pub unsafe fn ").skip(1) {
        let (name, rest) = method
            .split_once('(')
            .ok_or("a method of the table has no parameter list")?;
        let (params, _) = rest
            .split_once(") -> CUresult {")
            .ok_or("a method of the table does not return CUresult")?;
        let mut args = String::new();
        let mut values = Vec::new();
        let params = params
            .split(',')
            .map(str::trim)
            .filter(|param| !param.is_empty() && *param != "&self");
        for (index, param) in params.enumerate() {
            let (param, ty) = param
                .split_once(':')
                .ok_or("a parameter of the table has no type")?;
            let (param, ty) = (param.trim(), ty.trim());
            let made = made(param, ty);
            write!(args, "maker.next(); let a{index}: {ty} = {made};")?;
            values.push(format!("a{index}"));
        }
        if LEFT_OUT.contains(&name) {
            continue;
        }
        writeln!(names, "{name:?},")?;
        writeln!(
            arms,
            "{count} => {{ {args}\n\
             // SAFETY: pointers must be valid for what the function reads and writes ← the maker's
             // are.\n\
             unsafe {{ driver.{name}({}) }} }}",
            values.join(", ")
        )?;
        count += 1;
    }
    let text = format!(
        "pub(crate) const NAMES: [&str; {count}] = [{names}];\n\
         pub(crate) fn call(index: usize, driver: &DriverLibrary, maker: &mut Maker<'_>) -> CUresult {{\n\
         match index {{ {arms} _ => CUresult::CUDA_SUCCESS }} }}\n"
    );
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    fs::write(out.join("calls.rs"), text)?;
    Ok(())
}

/// The Rust expression that makes an argument.
fn made(param: &str, ty: &str) -> String {
    let last = ty.rsplit("::").next().unwrap_or(ty);
    if ty.starts_with('*') {
        // For example `*mut CUstream`, without paths and spaces.
        let pointee: String = ty
            .split_whitespace()
            .map(|part| part.rsplit("::").next().unwrap_or(part))
            .filter(|part| !matches!(*part, "*mut" | "*const"))
            .collect();
        let stars = ty.matches('*').count();
        return format!("maker.pointer({pointee:?}, {stars}, {param:?}).cast()");
    }
    match last {
        ty if HANDLES.contains(&ty) => format!("maker.handle({ty:?}).cast()"),
        "CUtexObject" | "CUsurfObject" => format!("maker.handle({last:?}).addr() as _"),
        "c_int"
        | "c_uint"
        | "c_ushort"
        | "c_uchar"
        | "c_ulonglong"
        | "c_ulong"
        | "usize"
        | "u32"
        | "u64"
        | "f32"
        | "cuuint32_t"
        | "cuuint64_t"
        | "CUdevice"
        | "CUdeviceptr"
        | "CUmemGenericAllocationHandle"
        | "CUgraphConditionalHandle" => {
            format!("maker.number({last:?}, {param:?}) as _")
        }
        "CUhostFn" => "Some(host_function)".to_owned(),
        "CUstreamCallback" => "Some(stream_callback)".to_owned(),
        "CUoccupancyB2DSize" => "Some(dynamic_shared)".to_owned(),
        // Enums are newtypes of a number that accept any value; other handles and structures are
        // zero, because no implemented function takes them.
        ty => format!("maker.other::<{ty}>()"),
    }
}
