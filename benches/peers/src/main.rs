//! The additional cost of a launch over the raw function pointer, through cuda-driver, through
//! other crates and through C: pairs of runs that alternate, on the null driver and on a GPU if
//! there is one.
//!
//! `PEERS_PAIRS` is the number of pairs of each row (default: a million, 300,000 on a GPU),
//! `PEERS_SVG` a folder for plots. Run `cargo build --release --workspace` first: the null driver
//! is a library, which this program looks for in its own folder and in `../lib`.

mod bench;
mod ours;
mod plot;
mod twin;
mod with_cudarc;
#[cfg(feature = "nvlabs")]
mod with_nvlabs;
mod with_oxicuda;

use std::env;
use std::error::Error;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use benches::{empty_kernels, empty_kernels_ptx};
use cuda_driver::prelude::*;
use libloading::os::unix::Library;

use bench::{Bench, Launch, Row};

/// The environment variable that names the driver which a child process measures.
const DRIVER: &str = "PEERS_DRIVER";
const NULL: &str = "null driver";

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

fn main() -> Result {
    if let Ok(name) = env::var(DRIVER) {
        return measure(&name);
    }
    let program = env::current_exe()?;
    let folder = tempfile::tempdir()?;
    let library = null_driver(
        program
            .parent()
            .ok_or("the path of this program has no parent folder")?,
    )?;
    // The other crates look for both names.
    for name in ["libcuda.so.1", "libcuda.so"] {
        symlink(&library, folder.path().join(name))?;
    }
    let null = Command::new(&program)
        .env(DRIVER, NULL)
        .env("LD_LIBRARY_PATH", folder.path())
        .env_remove("CUDA_DRIVER_LIBRARY")
        .status()?;
    let gpu = Command::new(&program).env(DRIVER, "GPU").status()?;
    if null.success() && gpu.success() {
        Ok(())
    } else {
        Err("a child failed".into())
    }
}

fn null_driver(folder: &Path) -> Result<PathBuf> {
    let name = "libcuda_null_driver.so";
    let places = [folder.join(name), folder.join("../lib").join(name)];
    let found = places.iter().find(|place| place.is_file());
    let found = found.ok_or_else(|| {
        format!("{name} not found; run `cargo build --release --workspace` first")
    })?;
    Ok(found.canonicalize()?)
}

fn measure(name: &str) -> Result {
    let driver = match Driver::load() {
        Ok(driver) => driver,
        Err(error) => {
            println!("skipped: {name}: {error}");
            return Ok(());
        }
    };
    // SAFETY: loading a driver runs its initializers, as `Driver::load` has done before.
    let library = unsafe { Library::new("libcuda.so.1") }?;
    // SAFETY: `Launch` is the signature of `cuLaunchKernel`.
    let launch = unsafe { library.get::<Launch>(b"cuLaunchKernel\0") }?;
    let context = driver.device(0)?.primary_context()?;
    let number = env::var("PEERS_PAIRS")
        .ok()
        .and_then(|text| text.parse().ok());
    let mut bench = Bench {
        launch: *launch,
        functions: empty_kernels(&context)?,
        number: number.unwrap_or(if name == NULL { 1_000_000 } else { 300_000 }),
        situation: "",
        rows: Vec::new(),
    };
    println!("\n{name}: {}, CUDA {}", driver.origin(), driver.version());
    let nvlabs = if cfg!(feature = "nvlabs") {
        concat!("cuda-core ", env!("VERSION_OF_CUDA_CORE"))
    } else {
        "cuda-core not built (feature nvlabs)"
    };
    println!(
        "cudarc {}, oxicuda {}, {nvlabs}, {}",
        env!("VERSION_OF_CUDARC"),
        env!("VERSION_OF_OXICUDA_DRIVER"),
        env!("TARGET_OF_PEERS"),
    );
    heading();
    for (streams, situation) in [(1, "one stream"), (8, "8 streams alive")] {
        bench.situation = situation;
        situation_rows(&mut bench, &context, streams)?;
    }
    if let Some(folder) = env::var_os("PEERS_SVG") {
        let title = format!("A launch of 12 arguments, {name}: nanoseconds more than the raw call");
        let file = format!("launch-{}.svg", name.to_lowercase().replace(' ', "-"));
        fs::write(
            PathBuf::from(folder).join(file),
            plot::svg(&title, &bench.rows),
        )?;
    }
    Ok(())
}

fn situation_rows(bench: &mut Bench, context: &Context, streams: usize) -> Result {
    let ptx = empty_kernels_ptx();
    let make = |_| Stream::new(context, StreamFlags::NON_BLOCKING, 0);
    let made: Vec<Stream> = (0..streams).map(make).collect::<cuda_driver::Result<_>>()?;
    let mut buffers = ours::buffers(&made[0]);
    let mut printed = bench.rows.len();
    let mut print_new = |bench: &Bench| {
        bench.rows[printed..].iter().for_each(print);
        printed = bench.rows.len();
    };
    twin::rows(bench, &made[0], &buffers);
    print_new(bench);
    ours::rows(bench, &made[0], &mut buffers);
    print_new(bench);
    for is_tracking in [true, false] {
        with_cudarc::rows(bench, &ptx, streams, is_tracking);
        print_new(bench);
    }
    with_oxicuda::rows(bench, context, &ptx, streams);
    print_new(bench);
    #[cfg(feature = "nvlabs")]
    {
        with_nvlabs::rows(bench, &ptx, streams);
        print_new(bench);
    }
    Ok(())
}

fn heading() {
    println!(
        "form                  args  situation           raw ns     more ns  (95 % of it)          ratio  allocations, pairs"
    );
}

fn print(row: &Row) {
    let (first, more) = (row.pairs.first(), row.pairs.difference());
    println!(
        "{:<20}  {:>4}  {:<16} {:>9.1}  {:>9.1}  ({:>7.1} to {:>7.1})  {:>8.4}  {}, {}",
        row.form,
        row.count,
        row.situation,
        first.median,
        more.median,
        more.low,
        more.high,
        1.0 + more.median / first.median,
        row.allocations,
        row.pairs.count(),
    );
}
