//! Headers on disk: an entry is a hit only while a compilation would read the same headers.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use cuda_nvrtc::{
    Cache, CacheMode, CppStandard, CudaHeaders, Nvrtc, Options, Outcome, Program, Ptx, Refusal,
};

use super::{Folder, arch};
use crate::at_hand::{every_nvrtc, nvrtc};

const KERNEL: &str = "\nextern \"C\" __global__ void k(int *x) { *x = V; }";

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The PTX, or the error message of a failed compilation.
fn image(compiled: Result<String, cuda_nvrtc::Error>) -> Result<String, String> {
    compiled.map_err(|error| error.to_string())
}

fn cached(cache: &Cache, program: &Program, options: &Options) -> Result<String, String> {
    let cached = cache.compile::<Ptx>(program, options);
    image(cached.map(|cached| cached.image.to_text()))
}

fn fresh(program: &Program, options: &Options) -> Result<String, String> {
    let fresh = program.compile::<Ptx>(options);
    image(fresh.map(|fresh| fresh.image.to_text()))
}

/// A program with files, below a folder that is written as `@`.
struct Layout {
    name: &'static str,
    source: &'static str,
    files: &'static [(&'static str, &'static str)],
    memory: &'static [(&'static str, &'static str)],
    options: &'static [&'static str],
}

const LAYOUTS: [Layout; 12] = [
    Layout {
        name: "@/s/p.cu",
        source: "#include \"h.h\"",
        files: &[("i/h.h", "#define V 1")],
        memory: &[],
        options: &["-I@/i", "-I@/j"],
    },
    Layout {
        name: "@/s/p.cu",
        source: "#include <h.h>",
        files: &[("j/h.h", "#include \"g.h\""), ("i/g.h", "#define V 1")],
        memory: &[],
        options: &["-I", "@/i", "--include-path=@/j"],
    },
    Layout {
        name: "@/s/p.cu",
        source: "#include \"h.h\"",
        files: &[("s/h.h", "#define V 1")],
        memory: &[("g.h", "")],
        options: &["-I@/i"],
    },
    Layout {
        name: "p.cu",
        source: "#include \"h.h\"",
        files: &[("i/g.h", "#define V 1")],
        memory: &[("h.h", "#include \"g.h\"")],
        options: &["-I@/j", "-I@/i"],
    },
    Layout {
        name: "p.cu",
        source: "",
        files: &[("i/h.h", "#include \"g.h\""), ("j/g.h", "#define V 1")],
        memory: &[],
        options: &["--pre-include=@/i/h.h", "-I@/j"],
    },
    Layout {
        name: "@/s/p.cu",
        source: "#if __has_include(\"h.h\")\n#define V 1\n#else\n#define V 2\n#endif",
        files: &[("j/g.h", "")],
        memory: &[],
        options: &["-I@/i", "-I@/j"],
    },
    Layout {
        name: "@/s/p.cu",
        source: "#define HAS(x) __has_include(x)\n#if HAS(<h.h>)\n#define V 1\n#else\n#define V 2\n#endif",
        files: &[("j/h.h", "")],
        memory: &[],
        options: &["-I@/i", "-I@/j"],
    },
    Layout {
        name: "@/s/p.cu",
        source: "#define H <h.h>\n#include H",
        files: &[("j/h.h", "#define V 1")],
        memory: &[],
        options: &["-I@/i", "-I@/j"],
    },
    Layout {
        name: "@/s/p.cu",
        source: "#include H",
        files: &[("j/h.h", "#define V 1")],
        memory: &[],
        options: &["-I@/i", "-DH=\"h.h\"", "-I@/j"],
    },
    Layout {
        name: "@/s/p.cu",
        source: "#include \"../j/h.h\"",
        files: &[("j/h.h", "#include \"../s/g.h\""), ("s/g.h", "#define V 1")],
        memory: &[],
        options: &["-I@/i"],
    },
    Layout {
        name: "@/s/p.cu",
        source: "#include \"h.h\"",
        files: &[("s/h.h", "#define V 1"), ("i/h.h", "#define V 2")],
        memory: &[],
        options: &["--no-source-include", "-I@/i"],
    },
    Layout {
        name: "@/s/p.cu",
        source: "#inc\\\nlude /**/ \"h.h\"\n%: include <g.h>\n",
        files: &[("s/h.h", "#define V W"), ("i/g.h", "#define W 1")],
        memory: &[],
        options: &["-I@/j", "-I@/i"],
    },
];

/// Adds another header at every place that could matter, one after the other, and removes it again.
#[test]
fn a_header_that_changes_appears_or_vanishes_is_noticed() {
    for nvrtc in every_nvrtc() {
        for (index, layout) in LAYOUTS.iter().enumerate() {
            vary(&nvrtc, index, layout);
        }
    }
}

fn vary(nvrtc: &Nvrtc, index: usize, layout: &Layout) {
    let folder = Folder::new();
    let cache = folder.open();
    let root = folder.0.path().canonicalize().unwrap();
    let at_root = |text: &str| text.replace('@', root.to_str().unwrap());
    for dir in ["s", "i", "j"] {
        fs::create_dir(root.join(dir)).unwrap();
    }
    for (path, text) in layout.files {
        write(&root.join(path), text);
    }
    let source = format!("{}{KERNEL}", layout.source);
    let mut program = Program::new(nvrtc, source).name(at_root(layout.name));
    for (name, text) in layout.memory {
        program = program.header(*name, *text);
    }
    let mut options = Options::new();
    for option in layout.options {
        options = options.raw(at_root(option));
    }
    let original = fresh(&program, &options).unwrap_or_else(|error| panic!("{index}: {error}"));
    let mut noticed = 0;
    for dir in ["s", "i", "j"] {
        for file in ["h.h", "g.h"] {
            let place = format!("{dir}/{file}");
            let path = root.join(&place);
            let before = fs::read(&path).ok();
            let again = cached(&cache, &program, &options);
            assert_eq!(
                again.as_ref(),
                Ok(&original),
                "layout {index} before {place}"
            );
            let hits = cache.stats().hits;
            assert_eq!(cached(&cache, &program, &options), again);
            assert_eq!(cache.stats().hits, hits + 1, "layout {index} is cached");

            fs::write(&path, "#define V 3\n#define W 4\n").unwrap();
            let new = fresh(&program, &options);
            noticed += u32::from(new.as_ref() != Ok(&original));
            assert_eq!(
                cached(&cache, &program, &options),
                new,
                "layout {index} with {place}"
            );
            fs::remove_file(&path).unwrap();
            let without = fresh(&program, &options);
            noticed += u32::from(without.as_ref() != Ok(&original));
            assert_eq!(
                cached(&cache, &program, &options),
                without,
                "layout {index} without {place}"
            );
            if let Some(before) = before {
                fs::write(&path, before).unwrap();
            }
        }
    }
    assert!(
        noticed > 0,
        "layout {index}: no added header changed the result"
    );
}

#[test]
fn a_change_that_keeps_size_and_time_is_noticed() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = Folder::new();
    let cache = folder.open();
    let header = folder.0.path().join("h.h");
    let program = Program::new(&nvrtc, format!("#include <h.h>{KERNEL}"));
    let options = Options::new().include_dir(folder.0.path());
    write(&header, "#define V 1001");
    // Old enough that the file's time stamp identifies its contents.
    std::thread::sleep(Duration::from_millis(2100));
    let time = header.metadata().unwrap().modified().unwrap();
    for number in [1001, 1002, 1003, 1001] {
        write(&header, &format!("#define V {number}"));
        let file = File::options().write(true).open(&header).unwrap();
        file.set_modified(time).unwrap();
        let image = cached(&cache, &program, &options).unwrap();
        assert!(image.contains(&number.to_string()), "{number}: {image}");
        assert_eq!(cached(&cache, &program, &options).unwrap(), image);
    }
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.stale, stats.entries), (4, 3, 1));
}

#[test]
fn touching_a_header_makes_no_difference() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = Folder::new();
    let cache = folder.open();
    let header = folder.0.path().join("h.h");
    write(&header, "#define V 5");
    let program = Program::new(&nvrtc, format!("#include <h.h>{KERNEL}"));
    let options = Options::new().include_dir(folder.0.path());
    cached(&cache, &program, &options).unwrap();
    write(&header, "#define V 5");
    for always in [false, true] {
        let cache = Cache::builder(folder.path()).always_digest(always).open();
        assert!(cache.compile::<Ptx>(&program, &options).unwrap().is_hit());
    }
}

#[test]
fn results_with_unknown_inputs_are_not_stored() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = Folder::new();
    let cache = folder.open();
    let root = folder.0.path().canonicalize().unwrap();
    write(&root.join("h.h"), "#define V 1");
    let new = || Options::new().include_dir(&root);
    let plain = || Program::new(&nvrtc, "extern \"C\" __global__ void k() {}");
    let source = |text: &str| Program::new(&nvrtc, format!("{text}{KERNEL}"));
    let mut cases = vec![
        (
            source("#define V sizeof(__DATE__)"),
            new(),
            Refusal::TimeMacro,
        ),
        (source("#define V __TIME__[0]"), new(), Refusal::TimeMacro),
        (
            source(""),
            new().define("V", "__TIME__[0]"),
            Refusal::TimeMacro,
        ),
        (
            source("#include \"t.h\"").header("t.h", "#define V sizeof(__TIME__)"),
            new(),
            Refusal::TimeMacro,
        ),
        (source("#include_next <h.h>"), new(), Refusal::IncludeNext),
        (
            source("#define S(x) #x\n#define T(x) S(x)\n#include T(h.h)"),
            new(),
            Refusal::ComputedInclude,
        ),
        (
            source("#define H <h.h>\n#define V __has_include(H)"),
            new(),
            Refusal::HasInclude,
        ),
        (
            source("#line 1 \"other/p.cu\"\n#include \"h.h\""),
            new(),
            Refusal::LineDirective,
        ),
        (
            source("??=include <h.h>"),
            new().std(CppStandard::Cpp14),
            Refusal::Trigraph,
        ),
        (
            plain(),
            new().ptxas("--options-file=/dev/null").arch(arch(&nvrtc)),
            Refusal::Option,
        ),
    ];
    let knows = |version| nvrtc.version() >= cuda_nvrtc::Version::new(version);
    if knows(12010) {
        cases.push((plain(), new().time_report(true), Refusal::TimeReport));
    }
    if knows(13000) {
        cases.push((
            plain(),
            new().precompiled_headers(true),
            Refusal::PrecompiledHeaders,
        ));
    }
    for (index, (program, options, refusal)) in cases.iter().enumerate() {
        for _ in 0..2 {
            let cached = cache.compile::<Ptx>(program, options);
            let cached = cached.unwrap_or_else(|error| panic!("case {index}: {error}"));
            assert_eq!(cached.outcome, Outcome::Refused(*refusal), "case {index}");
        }
    }
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.entries), (0, 0));
    assert_eq!(stats.refusals.values().sum::<u64>(), 2 * cases.len() as u64);
    assert_eq!(stats.refusals[&Refusal::TimeMacro], 8);
}

#[test]
fn cudas_own_headers_are_kept() {
    let Some(nvrtc) = nvrtc() else { return };
    let Ok(headers) = CudaHeaders::find(&nvrtc) else {
        test_needs::skipped("tests of CUDA's headers: none are available");
        return;
    };
    let folder = Folder::new();
    let cache = folder.open();
    let options = Options::new()
        .arch(arch(&nvrtc).to_virtual())
        .cuda_headers(&headers);
    for include in [
        "cuda_fp16.h",
        "cooperative_groups.h",
        "cub/block/block_reduce.cuh",
    ] {
        let source = format!("#include <{include}>\n#define V 1\n{KERNEL}");
        let program = Program::new(&nvrtc, source);
        let start = Instant::now();
        let first = cache.compile::<Ptx>(&program, &options).unwrap();
        let middle = Instant::now();
        let second = cache.compile::<Ptx>(&program, &options).unwrap();
        println!(
            "{include}: {:?}, then {:?}",
            middle - start,
            middle.elapsed()
        );
        assert_eq!(first.outcome, Outcome::Stored, "{include}");
        assert!(second.is_hit());
        assert_eq!(first.compiled, second.compiled);
    }
    let reader = Cache::builder(folder.path())
        .mode(CacheMode::ReadOnly)
        .open();
    assert_eq!(reader.stats().entries, 3);
}
