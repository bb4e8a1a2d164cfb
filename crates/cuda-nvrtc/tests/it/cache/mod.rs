//! The disk cache returns exactly what a compilation would return.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cuda_nvrtc::{
    Arch, Cache, CacheMode, CancelToken, Cubin, Error, LtoIr, Nvrtc, Options, OptixIr, Outcome,
    Output, Program, Ptx,
};

use crate::at_hand::{every_nvrtc, nvrtc};

mod fire;
mod folder;
#[cfg(unix)]
mod headers;
mod notes;
#[cfg(unix)]
mod spellings;

const SCALE: &str = "
template <typename T> __global__ void scale(T *x) { int unused; x[threadIdx.x] *= T(2); }
extern \"C\" __global__ void plain(int *x) { *x = 7; }";

/// A program with warnings and name expressions.
fn scale(nvrtc: &Nvrtc) -> Program {
    Program::new(nvrtc, SCALE)
        .name("scale.cu")
        .header("a.h", "#define A 1\n")
        .name_expression("scale<float>")
        .name_expression("scale<int>")
}

/// The newest architecture that NVRTC supports, as a real one.
fn arch(nvrtc: &Nvrtc) -> Arch {
    nvrtc.supported_archs().unwrap().last().unwrap().to_real()
}

/// A folder for a cache, which is removed on drop.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("cache")
    }

    fn open(&self) -> Cache {
        Cache::open(self.path())
    }

    /// The files of the cache entries.
    fn entries(&self) -> Vec<PathBuf> {
        files(&self.path().join("entries"))
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

#[test]
fn a_cache_hit_equals_a_compilation() {
    fn check<T: Output + Clone + PartialEq + std::fmt::Debug>(folder: &Folder, nvrtc: &Nvrtc) {
        let options = Options::new().arch(arch(nvrtc)).line_info(true);
        let program = scale(nvrtc);
        let expected = program.compile::<T>(&options).unwrap();
        assert!(!expected.warnings().is_empty() && expected.lowered_names.len() == 2);
        let first = folder.open().compile::<T>(&program, &options).unwrap();
        assert_eq!(
            (&first.compiled, first.outcome),
            (&expected, Outcome::Stored)
        );
        let second = folder.open().compile::<T>(&program, &options).unwrap();
        assert_eq!(
            (&second.compiled, second.outcome),
            (&expected, Outcome::Hit)
        );
        let name = expected.lowered_name("scale<int>");
        assert!(name.is_some() && second.lowered_name("scale<int>") == name);
    }
    for nvrtc in every_nvrtc() {
        let folder = Folder::new();
        check::<Ptx>(&folder, &nvrtc);
        check::<Cubin>(&folder, &nvrtc);
        check::<LtoIr>(&folder, &nvrtc);
        check::<OptixIr>(&folder, &nvrtc);
        let stats = folder.open().stats();
        assert_eq!(stats.entries, 4);
        assert_eq!(
            stats.bytes,
            folder
                .entries()
                .iter()
                .map(|path| path.metadata().unwrap().len())
                .sum::<u64>()
        );
    }
}

#[test]
fn every_input_of_the_result_is_compared() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = Folder::new();
    let cache = folder.open();
    let base = |program: Program, options: Options| (program, options);
    let options = || Options::new().define("A", 1).define("B", 2);
    let cases = [
        base(scale(&nvrtc), options()),
        base(scale(&nvrtc), Options::new().define("A", 1)),
        base(scale(&nvrtc), Options::new().define("B", 2).define("A", 1)),
        base(scale(&nvrtc), Options::new().define("A", 12)),
        base(scale(&nvrtc), options().fast_math(true)),
        base(
            scale(&nvrtc),
            options().arch(nvrtc.supported_archs().unwrap()[1]),
        ),
        base(scale(&nvrtc).name("other.cu"), options()),
        base(scale(&nvrtc).header("b.h", ""), options()),
        base(scale(&nvrtc).header("b.h", " "), options()),
        base(scale(&nvrtc).name_expression("plain"), options()),
        base(
            Program::new(&nvrtc, SCALE)
                .name("scale.cu")
                .header("a.h", "#define A 1\n")
                .name_expression("scale<int>")
                .name_expression("scale<float>"),
            options(),
        ),
        base(
            Program::new(&nvrtc, format!("{SCALE}\n"))
                .name("scale.cu")
                .header("a.h", "#define A 1\n")
                .name_expression("scale<float>")
                .name_expression("scale<int>"),
            options(),
        ),
    ];
    for pass in 0..2 {
        for (index, (program, options)) in cases.iter().enumerate() {
            let cached = cache.compile::<Ptx>(program, options).unwrap();
            assert_eq!(cached.is_hit(), pass == 1, "case {index}");
            assert_eq!(
                cached.compiled,
                program.compile(options).unwrap(),
                "case {index}"
            );
        }
    }
    // Another kind of output from the same source.
    let lto = cache.compile::<LtoIr>(&cases[0].0, &cases[0].1).unwrap();
    assert_eq!(lto.outcome, Outcome::Stored);
    let stats = cache.stats();
    let count = cases.len() as u64;
    assert_eq!(
        (stats.hits, stats.misses, stats.stores),
        (count, count + 1, count + 1)
    );
    assert_eq!(stats.entries, count + 1);
}

#[test]
fn another_version_is_another_key() {
    let folder = Folder::new();
    let compilers = every_nvrtc();
    for pass in 0..2 {
        for nvrtc in &compilers {
            let cached = folder.open().compile::<Ptx>(&scale(nvrtc), &Options::new());
            let expected = [Outcome::Stored, Outcome::Hit][pass];
            assert_eq!(cached.unwrap().outcome, expected, "{}", nvrtc.origin());
        }
    }
    assert_eq!(folder.entries().len(), compilers.len());
}

#[test]
fn failed_compilations_are_not_stored() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = Folder::new();
    let cache = folder.open();
    let broken = Program::new(&nvrtc, "__global__ void k() { oops; }");
    for _ in 0..2 {
        let error = cache.compile::<Ptx>(&broken, &Options::new()).unwrap_err();
        assert!(matches!(error, Error::Compile(_)), "{error}");
    }
    let virtual_arch = Options::new().arch(arch(&nvrtc).to_virtual());
    let error = cache
        .compile::<Cubin>(&scale(&nvrtc), &virtual_arch)
        .unwrap_err();
    assert!(matches!(error, Error::NeedsRealArch { .. }), "{error}");
    assert_eq!(cache.stats().entries, 0);
    assert!(cfg!(not(unix)) || files(&folder.path().join("locks")).is_empty());
}

#[test]
fn each_mode_reads_and_writes_as_documented() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = Folder::new();
    let open = |mode| Cache::builder(folder.path()).mode(mode).open();
    let compile = |cache: &Cache| {
        let cached = cache
            .compile::<Ptx>(&scale(&nvrtc), &Options::new())
            .unwrap();
        assert_eq!(
            cached.compiled,
            scale(&nvrtc).compile(&Options::new()).unwrap()
        );
        cached.outcome
    };
    let off = open(CacheMode::Off);
    assert_eq!(compile(&off), Outcome::Off);
    assert_eq!((off.dir(), off.problem()), (None, None));
    assert!(open(CacheMode::ReadOnly).problem().is_some());
    assert!(!folder.path().exists());

    assert_eq!(compile(&open(CacheMode::On)), Outcome::Stored);
    assert_eq!(compile(&open(CacheMode::Off)), Outcome::Off);
    let [entry] = &folder.entries()[..] else {
        panic!("{:?}", folder.entries());
    };
    let time = entry.metadata().unwrap().modified().unwrap();
    let reader = open(CacheMode::ReadOnly);
    assert_eq!(compile(&reader), Outcome::Hit);
    assert_eq!(entry.metadata().unwrap().modified().unwrap(), time);
    reader.clear().unwrap();
    let other = Options::new().define("OTHER", 1);
    let cached = reader.compile::<Ptx>(&scale(&nvrtc), &other).unwrap();
    assert_eq!(cached.outcome, Outcome::ReadOnly);
    assert_eq!(folder.entries().len(), 1);

    open(CacheMode::On).clear().unwrap();
    assert_eq!(compile(&open(CacheMode::On)), Outcome::Stored);
}

#[test]
fn a_compilation_that_is_to_end_ends() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = Folder::new();
    let cache = folder.open();
    cache
        .compile::<Ptx>(&scale(&nvrtc), &Options::new())
        .unwrap();
    let token = CancelToken::new();
    let options = Options::new().cancel(&token);
    assert!(!token.is_cancelled());
    assert!(
        cache
            .compile::<Ptx>(&scale(&nvrtc), &options)
            .unwrap()
            .is_hit()
    );
    token.cancel();
    assert!(token.is_cancelled() && token.clone().is_cancelled());
    let error = cache.compile::<Ptx>(&scale(&nvrtc), &options).unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
    let at_once = Options::new().timeout(Duration::ZERO);
    let error = cache.compile::<Ptx>(&scale(&nvrtc), &at_once).unwrap_err();
    assert!(
        matches!(
            error,
            Error::TimedOut {
                limit: Duration::ZERO
            }
        ),
        "{error}"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn the_default_folder_is_below_the_cache_of_the_user() {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let user = folder("XDG_CACHE_HOME").map(std::path::PathBuf::from);
    let home = || Some(std::path::PathBuf::from(folder("HOME")?).join(".cache"));
    let expected = user
        .or_else(home)
        .map(|dir| dir.join("cuda-nvrtc/programs"));
    assert_eq!(Cache::default_dir(), expected);
}
