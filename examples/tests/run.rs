//! Runs each example as a user does: on the software device, and on the GPU if there is one.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cuda_nvrtc::{CudaHeaders, Nvrtc};

macro_rules! all {
    ($($name:ident)*) => {
        /// The names of the examples, and their sources.
        const ALL: &[(&str, &str)] =
            &[$((stringify!($name), include_str!(concat!("../", stringify!($name), ".rs")))),*];
    };
}

all! {
    batch block_reduce caching clusters constants cooperative demo device_query draw_graph errors events
    green_contexts heat host_functions image_pipeline jacobi mandelbrot matmul multi_device n_body post_mortem processes profile
    profile_backends
    reduction ring_all_reduce saxpy shared_memory streams struct_args templates tensor texture tuner typed vector_add vulkan
    wmma
}

/// The examples that do not need NVRTC.
const NOT_COMPILING: [&str; 3] = ["device_query", "draw_graph", "vector_add"];

/// The examples that include CUDA's own headers.
const INCLUDING: [&str; 4] = ["block_reduce", "clusters", "cooperative", "wmma"];

/// The pictures of the gallery. Each is made by the example of the same name.
const PICTURES: [(&str, &[u8]); 4] = [
    (
        "heat",
        include_bytes!("../../docs/book/src/images/heat.png"),
    ),
    (
        "image_pipeline",
        include_bytes!("../../docs/book/src/images/image_pipeline.png"),
    ),
    (
        "mandelbrot",
        include_bytes!("../../docs/book/src/images/mandelbrot.png"),
    ),
    (
        "n_body",
        include_bytes!("../../docs/book/src/images/n_body.png"),
    ),
];

const GALLERY: &str = include_str!("../../docs/book/src/gallery.md");

/// Returns the path of an example, which cargo builds next to this test.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(|deps| deps.parent()).unwrap();
    let name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    // In a bundle for another machine, the examples are in the folder of the tests.
    [
        folder.join("examples").join(&name),
        test.with_file_name(&name),
    ]
    .into_iter()
    .find(|path| path.is_file())
    .unwrap_or_else(|| panic!("example {name} was not built with its tests"))
}

fn command(name: &str, environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program(name));
    command
        .env_remove("CUDA_SIM")
        .env("CUDA_NVRTC_CACHE", "off");
    command.envs(environment.iter().copied());
    command
}

fn run(name: &str, environment: &[(&str, &str)]) -> Output {
    command(name, environment).output().unwrap()
}

fn text(output: &Output) -> String {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    format!("{out}{err}")
}

/// Returns whether NVRTC can be loaded. If not, reports that `test` is skipped.
#[track_caller]
fn has_nvrtc() -> bool {
    test_needs::found("NVRTC", Nvrtc::load()).is_some()
}

/// Returns the names of the examples that this machine can run.
#[track_caller]
fn runnable() -> impl Iterator<Item = &'static str> {
    let nvrtc = test_needs::found("NVRTC", Nvrtc::load());
    let headers = nvrtc
        .as_ref()
        .is_some_and(|nvrtc| test_needs::found("headers", CudaHeaders::find(nvrtc)).is_some());
    let names = ALL.iter().map(|(name, _)| *name);
    names
        .filter(move |name| nvrtc.is_some() || NOT_COMPILING.contains(name))
        .filter(move |name| headers || !INCLUDING.contains(name))
}

/// Returns whether the example has no Vulkan for its device, which it then says.
fn is_skipped(name: &str, text: &str) -> bool {
    name == "vulkan" && text.contains("skipped: ")
}

#[test]
fn every_example_verifies_its_result_on_the_software_device() {
    for name in runnable() {
        // The checks find races, skipped barriers, and reads of memory that was never written.
        let output = run(name, &[("CUDA_SIM", "check=all")]);
        let text = text(&output);
        assert!(output.status.success(), "{name}:\n{text}");
        assert!(!text.contains("cuda-sim: device 0: "), "{name}:\n{text}");
        assert!(
            text.contains("software device"),
            "{name} does not report the device it ran on:\n{text}"
        );
        assert!(
            text.contains("verified") || name == "device_query" || is_skipped(name, &text),
            "{name}:\n{text}"
        );
    }
}

#[test]
fn every_example_verifies_its_result() {
    let gpu = cuda_driver::Driver::load().is_ok();
    // Without a GPU this would repeat the test above, so only the choice of the device is tested.
    for name in runnable().filter(|name| gpu || NOT_COMPILING.contains(name)) {
        let output = run(name, &[]);
        let text = text(&output);
        assert!(output.status.success(), "{name}:\n{text}");
        assert_eq!(!text.contains("software device"), gpu, "{name}:\n{text}");
    }
}

#[test]
fn each_example_describes_its_topic_and_output() {
    for (name, source) in ALL {
        let header: Vec<&str> = source
            .lines()
            .map_while(|line| line.strip_prefix("//!"))
            .collect();
        assert!(header[0].starts_with(" Teaches: "), "{name}");
        let has = |start: &str| header.iter().any(|line| line.starts_with(start));
        assert!(has(" Prints "), "{name}");
        assert!(
            has(&format!(" `cargo run -p examples --example {name}")),
            "{name}"
        );
    }
}

#[test]
fn lists_of_examples_are_complete() {
    let manifest = include_str!("../Cargo.toml");
    let declared = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("path = \"")?.strip_suffix(".rs\""));
    let names: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
    assert_eq!(declared.collect::<Vec<_>>(), names);
    for name in names {
        assert!(GALLERY.contains(&format!("\n| `{name}` |")), "{name}");
    }
}

/// Compares decoded pixels, because another version of the crate may compress in another way.
#[test]
fn pictures_of_the_gallery_are_current() {
    if !has_nvrtc() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, committed) in PICTURES {
        let file = format!("{name}.png");
        assert!(committed.len() < 150 << 10, "{file}");
        assert!(GALLERY.contains(&format!("](images/{file})")), "{file}");
        let shown = format!("CUDA_SIM=1 cargo run -p examples --example {name} -- {file}\n");
        assert!(GALLERY.contains(&shown), "{shown}");
        let path = folder.path().join(&file);
        let output = command(name, &[("CUDA_SIM", "1")]).arg(&path).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", text(&output));
        assert_close(&path, committed);
    }
}

/// Compares a picture with the committed one. Rounding may change a few pixels.
#[track_caller]
fn assert_close(path: &Path, committed: &[u8]) {
    let new = image::open(path).unwrap().to_rgb8();
    let old = image::load_from_memory(committed).unwrap().to_rgb8();
    assert_eq!(new.dimensions(), old.dimensions(), "{path:?}");
    let pairs = new.pixels().zip(old.pixels());
    let differ = pairs.filter(|(new, old)| {
        let parts = new.0.iter().zip(old.0);
        parts.into_iter().any(|(new, old)| new.abs_diff(old) > 8)
    });
    let (differ, all) = (differ.count(), new.pixels().len());
    assert!(
        differ * 100 <= all,
        "{differ} of {all} pixels of {path:?} differ"
    );
}

#[test]
fn several_devices_share_the_work() {
    if !has_nvrtc() {
        return;
    }
    let output = run("multi_device", &[("CUDA_SIM", "devices=3")]);
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    for line in [
        "333334 words on device 0",
        "333333 words on device 1",
        "333333 words on device 2",
        "1 elements verified",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_device_without_clusters_is_not_an_error() {
    let output = run("clusters", &[("CUDA_SIM", "cc=8.0")]);
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("compute capability 8.0, and no clusters"),
        "{text}"
    );
}

/// A driver refuses PTX of a newer NVRTC, so the text is declared to be older.
#[test]
fn the_demo_runs_on_a_driver_older_than_nvrtc() {
    if !has_nvrtc() {
        return;
    }
    let version = Nvrtc::load().unwrap().version();
    if version.number() <= 12000 {
        test_needs::skipped(&format!(
            "a new NVRTC on an old driver: NVRTC {version} is as old"
        ));
        return;
    }
    let output = run("demo", &[("CUDA_SIM", "version=12.0")]);
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("GFLOP/s"), "{text}");
}

#[test]
fn the_demo_prints_a_table_of_times() {
    if !has_nvrtc() {
        return;
    }
    let output = run("demo", &[("CUDA_SIM", "1")]);
    let text = text(&output);
    for word in [
        "build ms",
        "proof ms",
        "kernel ms",
        "saxpy",
        "matmul",
        "GB/s",
        "GFLOP/s",
    ] {
        assert!(text.contains(word), "{word} is not in\n{text}");
    }
}

#[test]
fn the_profile_is_written_as_a_page_a_trace_and_a_table() {
    if !has_nvrtc() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = command("profile", &[("CUDA_SIM", "1")]);
    let output = command.arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let [page, trace, table] = ["html", "json", "csv"].map(|it| read(&format!("profile.{it}")));
    for part in ["step 2", "matmul", "a graph (update", "copy to device"] {
        assert!(page.contains(part), "{part} is not on the page");
        assert!(trace.contains(part), "{part} is not in the trace");
    }
    // 5 products in each of 3 steps.
    assert!(table.contains("\nkernel,matmul,15,"), "{table}");
}
