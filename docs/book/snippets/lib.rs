//! The programs of the book, as tests: `cargo test -p book` compiles and runs the code of each
//! chapter, on the GPU or the software device. `cargo xtask ci --only paste` runs the whole
//! programs as a reader pastes them, in crates outside of the workspace.

use std::env;
use std::path::{Path, PathBuf};
use std::process;

use cuda_nvrtc::Nvrtc;
use cuda_places::Setup;

/// The variable that names the file of NVRTC.
const NVRTC: &str = "CUDA_NVRTC_LIBRARY";

/// Ends the program if this machine has no NVRTC, and reports it as skipped. The build script adds
/// this call to the tests of programs that need NVRTC.
pub fn needs_nvrtc() {
    if env::var_os(NVRTC).is_none()
        && let Some(library) = installed_nvrtc()
    {
        // SAFETY: no other thread may use the environment at the same time ← `main` calls this
        // before the program starts a thread.
        unsafe { env::set_var(NVRTC, library) };
    }
    if test_needs::found("NVRTC", Nvrtc::load()).is_none() {
        process::exit(0);
    }
}

/// Returns the NVRTC that `cargo xtask setup` has installed. The programs do not find it
/// themselves, because rustdoc runs them outside of the target folder.
fn installed_nvrtc() -> Option<PathBuf> {
    let lib = Setup::around(Path::new(env!("OUT_DIR")))?.dir.join("lib");
    let files = lib.read_dir().ok()?.flatten().map(|entry| entry.path());
    let is_nvrtc = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libnvrtc.so") || (name.starts_with("nvrtc64_") && name.ends_with(".dll"))
    };
    files.filter(is_nvrtc).min()
}

/// Makes each chapter the documentation of a module, so that rustdoc finds its programs.
macro_rules! chapters {
    ($($name:ident: $file:literal),* $(,)?) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!(env!("OUT_DIR"), "/", $file))]
            mod $name {}
        )*

        #[cfg(test)]
        const CHAPTERS: &[&str] = &[$($file),*];
    };
}

chapters! {
    introduction: "introduction.md",
    getting_started: "getting-started.md",
    memory: "memory.md",
    choosing_memory: "choosing-memory.md",
    streams: "streams.md",
    launching: "launching.md",
    graphs: "graphs.md",
    compiling: "compiling.md",
    testing: "testing.md",
    other_programs: "other-programs.md",
    devices: "devices.md",
    processes: "processes.md",
    async_work: "async.md",
    errors: "errors.md",
    observing: "observing.md",
    performance: "performance.md",
    gallery: "gallery.md",
    from_cudarc: "from-cudarc.md",
    from_cust: "from-cust.md",
    from_pycuda: "from-pycuda.md",
    from_cuda_runtime: "from-cuda-runtime.md",
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::CHAPTERS;

    #[test]
    fn every_chapter_is_tested_and_in_the_summary() {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let summary = fs::read_to_string(src.join("SUMMARY.md")).unwrap();
        let entries = src.read_dir().unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let pages = names.filter(|name| name.ends_with(".md") && name != "SUMMARY.md");
        let mut pages: Vec<String> = pages.collect();
        pages.sort();
        let mut tested = CHAPTERS.to_vec();
        tested.sort_unstable();
        assert_eq!(pages, tested);
        for page in pages {
            assert!(summary.contains(&format!("]({page})")), "{page}");
        }
    }

    /// Returns each code block: the line before it, its first line and its content.
    fn blocks(page: &str) -> Vec<(String, String, String)> {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(package.join("src").join(page)).unwrap();
        let text = text.replace("\r\n", "\n");
        let parts: Vec<&str> = text.split("\n```").collect();
        let blocks = parts.chunks(2).filter(|pair| pair.len() == 2);
        let blocks = blocks.map(|pair| {
            let before = pair[0].rsplit('\n').next().unwrap();
            let (first, content) = pair[1].split_once('\n').unwrap();
            (before.to_owned(), first.to_owned(), format!("{content}\n"))
        });
        blocks.collect()
    }

    /// Returns whether a reader of the book does not see a line of a Rust program.
    fn is_hidden(line: &str) -> bool {
        let line = line.trim_start();
        line == "#" || line.starts_with("# ")
    }

    #[test]
    fn a_whole_program_has_no_hidden_lines() {
        let mut programs = 0;
        for page in CHAPTERS {
            for (_, first, content) in blocks(page) {
                let is_whole = content.contains("\nfn main()") || content.starts_with("fn main()");
                if first.starts_with("rust") && is_whole {
                    programs += 1;
                    assert!(!content.lines().any(is_hidden), "{page}: {content}");
                }
                assert!(!content.contains("book::"), "{page}: {content}");
            }
        }
        assert!(programs > 30, "{programs} programs");
    }

    #[test]
    fn the_build_script_of_the_book_compiles_as_the_shown_one() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let kernels = |file| {
            let text = fs::read_to_string(package.join(file)).unwrap();
            let (_, rest) = text.split_once("Kernels::new(").unwrap();
            rest.split_once(".generate()")
                .unwrap()
                .0
                .replace("\r\n", "\n")
        };
        assert_eq!(kernels("snippets/build.rs"), kernels("build.rs"));
    }

    #[test]
    fn a_block_that_names_a_file_has_its_text() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut files = 0;
        for page in CHAPTERS {
            for (before, first, content) in blocks(page) {
                let name = before.strip_prefix("<!-- The file ");
                let Some(name) = name.and_then(|it| it.strip_suffix(" -->")) else {
                    // Rust code is run by rustdoc, or compiled as a file, or has a reason.
                    let is_run = !first.starts_with("rust") || first == "rust";
                    let has_reason = first == "rust,no_run" && before.starts_with("<!-- Not run: ");
                    assert!(is_run || has_reason, "{page}: {first}: {content}");
                    continue;
                };
                let text = fs::read_to_string(package.join(name)).unwrap();
                assert_eq!(content, text.replace("\r\n", "\n"), "{page}: {name}");
                files += 1;
            }
        }
        assert!(files >= 4, "{files} files");
    }
}
