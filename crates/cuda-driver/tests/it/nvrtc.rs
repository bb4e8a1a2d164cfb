//! Compiling source to a module in one call, and the tuner.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

use cuda_driver::nvrtc::{Candidate, Outcome, TuneError, Tuner, Tuning};
use cuda_driver::prelude::*;
use cuda_nvrtc::{Cache, Nvrtc, Options, Program};
use cuda_sim::Builder;

use crate::support::{Fixture, everywhere, software};

/// A kernel that adds 1 to each of `n` numbers, `UNROLL` of them per thread.
const ADD: &str = r#"
extern "C" __global__ void add(float *x, unsigned n) {
    for (unsigned u = 0; u < UNROLL; ++u) {
        unsigned i = (blockIdx.x * UNROLL + u) * blockDim.x + threadIdx.x;
        if (i < n) x[i] += 1.0f;
    }
}
"#;

/// The number of elements.
const N: u32 = 1000;

/// Returns NVRTC if it is installed. Otherwise reports the test as skipped, or fails if NVRTC is
/// required.
#[track_caller]
pub(crate) fn nvrtc() -> Option<Nvrtc> {
    test_needs::found("NVRTC", Nvrtc::load())
}

/// Returns the path of a folder for temporary files that no other test uses.
pub(crate) fn unused_folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("cuda-driver-test-{}-{number}", process::id());
    env::temp_dir().join(name)
}

/// A folder for a cache, which is removed when this is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(unused_folder())
    }

    pub(crate) fn open(&self) -> Cache {
        let cache = Cache::open(&self.0);
        assert_eq!(cache.problem(), None);
        cache
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Leftovers in a temporary folder do no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Tunes `add` and checks that every launch added 1 to each number.
fn tune(fixture: &Fixture, tuner: &Tuner, options: &Options) -> (Result<Tuning, TuneError>, u32) {
    let stream = fixture.stream();
    let mut x = DeviceBuffer::<f32>::zeroed(&stream, N as usize).unwrap();
    let mut launched = 0;
    let tuning = tuner.tune(&stream, options, |candidate, kernel| {
        let unroll: u32 = candidate.define("UNROLL").unwrap().parse().unwrap();
        let blocks = N.div_ceil(candidate.block * unroll);
        let config = LaunchConfig::new(blocks, candidate.block);
        // SAFETY: the kernel touches N numbers of `x`, which has N.
        unsafe { stream.launch(kernel, config, (&mut x, N)) }?;
        launched += 1;
        Ok(())
    });
    let launches = u16::try_from(launched).unwrap();
    assert_eq!(
        x.to_vec().unwrap(),
        vec![f32::from(launches); N as usize],
        "{}",
        fixture.name
    );
    (tuning, launched)
}

fn failure(tuning: &Tuning, is_it: impl Fn(&Candidate) -> bool) -> &str {
    let trial = tuning.trials().iter().find(|trial| is_it(&trial.candidate));
    match &trial.unwrap().outcome {
        Outcome::Failed(reason) => reason,
        outcome => panic!("{outcome:?}"),
    }
}

#[test]
fn source_is_compiled_for_the_device_and_runs() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = Folder::new();
    let program = Program::new(&nvrtc, ADD).name("add.cu");
    let options = Options::new().define("UNROLL", 3);
    for fixture in everywhere() {
        let straight = Module::compile(&fixture.context, &program, &options).unwrap();
        let cache = folder.open();
        let kept = Module::compile_cached(&fixture.context, &program, &options, &cache).unwrap();
        let again = folder.open();
        let found = Module::compile_cached(&fixture.context, &program, &options, &again).unwrap();
        let stats = again.stats();
        assert!(
            stats.hits > 0 && stats.misses == 0,
            "{}: {stats:?}",
            fixture.name
        );
        for module in [straight, kept, found] {
            let stream = fixture.stream();
            let add = module.function("add").unwrap();
            let before: Vec<f32> = (0..1000_u16).map(f32::from).collect();
            let mut x = DeviceBuffer::from_host(&stream, &before).unwrap();
            let config = LaunchConfig::new(N.div_ceil(3 * 64), 64);
            // SAFETY: the kernel touches N numbers of `x`, which has N.
            unsafe { stream.launch(&add, config, (&mut x, N)) }.unwrap();
            let after: Vec<f32> = before.iter().map(|x| x + 1.0).collect();
            assert_eq!(x.to_vec().unwrap(), after, "{}", fixture.name);
        }
        let wrong = Module::compile(&fixture.context, &program, &Options::new());
        let text = wrong.unwrap_err().to_string();
        assert!(
            text.contains("add.cu") && text.contains("\"UNROLL\" is undefined"),
            "{text}"
        );
    }
}

#[test]
fn each_candidate_is_tried_and_failures_are_listed() {
    let Some(nvrtc) = nvrtc() else { return };
    let program = Program::new(&nvrtc, ADD).name("add.cu");
    for fixture in everywhere() {
        let tuner = Tuner::new(&program, "add")
            .blocks([32, 4096, 128])
            .define("UNROLL", ["1", "2", "nothing"])
            .samples(3);
        let (tuning, launched) = tune(&fixture, &tuner, &Options::new());
        let tuning = tuning.unwrap();
        // Two block sizes with two constants ran, each once as a warm-up and three times for the
        // measurement.
        assert_eq!(launched, 2 * 2 * 4, "{}", fixture.name);
        assert_eq!(tuning.trials().len(), 9);
        assert!(!tuning.is_remembered());
        let times: Vec<_> = tuning
            .trials()
            .iter()
            .filter_map(|trial| trial.outcome.least())
            .collect();
        assert_eq!(times.len(), 4);
        assert!(times.is_sorted(), "{times:?}");
        assert_eq!(tuning.best(), Some(&tuning.trials()[0].candidate));
        for trial in &tuning.trials()[..4] {
            let Outcome::Ran { least, median } = trial.outcome else {
                panic!("{trial:?}")
            };
            assert!(least <= median, "{trial:?}");
        }
        let reason = failure(&tuning, |candidate| {
            candidate.define("UNROLL") == Some("nothing")
        });
        assert!(reason.contains("\"nothing\" is undefined"), "{reason}");
        let is_large =
            |candidate: &Candidate| candidate.block == 4096 && candidate.defines[0].1 == "2";
        let reason = failure(&tuning, is_large);
        assert!(
            reason.contains("4096") && reason.contains("1024"),
            "{reason}"
        );
        let table = tuning.to_string();
        assert_eq!(table.lines().count(), 10, "{table}");
        for part in ["least µs", "block 128, UNROLL=2", "block 4096, UNROLL=1: "] {
            assert!(table.contains(part), "{part} is not in\n{table}");
        }
        // The best candidate can be compiled again.
        let best = tuning.best().unwrap();
        let options = best.options(&Options::new());
        assert_eq!(
            options.to_strings(),
            [format!("--define-macro=UNROLL={}", best.defines[0].1)]
        );
    }
}

#[test]
fn a_kernel_of_a_template_is_tuned_by_its_name_in_the_source() {
    let Some(nvrtc) = nvrtc() else { return };
    let source = ADD
        .replace("extern \"C\"", "template <typename T>")
        .replace("float *", "T *");
    let program = Program::new(&nvrtc, source).name_expression("add<float>");
    let fixture = software(Builder::new());
    let tuner = Tuner::new(&program, "add<float>")
        .define("UNROLL", [4])
        .samples(1);
    let (tuning, launched) = tune(&fixture, &tuner, &Options::new());
    assert_eq!(tuning.unwrap().best().unwrap().block, 256);
    assert_eq!(launched, 2);
}

#[test]
fn if_every_candidate_fails_the_error_lists_them() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = Folder::new();
    let cache = folder.open();
    let program = Program::new(&nvrtc, ADD);
    for fixture in everywhere() {
        let large = Tuner::new(&program, "add")
            .define("UNROLL", [1])
            .blocks([2048, 4096]);
        let missing = Tuner::new(&program, "sub").define("UNROLL", [1]);
        let wrong = Tuner::new(&program, "add").define("UNROLL", ["("]);
        let none = Tuner::new(&program, "add").define("UNROLL", [1]).blocks([]);
        for (tuner, lines, reason) in [
            (large, 3, "2048"),
            (missing, 2, "sub"),
            (wrong, 2, "error"),
            (none, 1, ""),
        ] {
            // The result is the same with a cache, because a failure of all candidates is not
            // stored.
            for tuner in [tuner.clone(), tuner.remember(&cache, "")] {
                let (tuning, launched) = tune(&fixture, &tuner, &Options::new());
                let Err(TuneError::NothingRan(tuning)) = tuning else {
                    panic!("{tuning:?}")
                };
                assert_eq!(
                    (tuning.best(), launched, tuning.is_remembered()),
                    (None, 0, false)
                );
                assert_eq!(tuning.to_string().lines().count(), lines, "{tuning}");
                let error = TuneError::NothingRan(tuning);
                let text = error.to_string();
                // `main` prints `Debug`.
                assert_eq!(format!("{error:?}"), text);
                assert!(
                    text.contains("no candidate ran") && text.contains(reason),
                    "{text}"
                );
            }
        }
    }
}

/// Runs only on the software device: a GPU would be lost to the whole process.
#[test]
fn a_candidate_that_loses_the_device_is_named() {
    let Some(nvrtc) = nvrtc() else { return };
    let source = "extern \"C\" __global__ void stray(float *x, float **y) { if (UNROLL == 2) x = y[0]; *x += 1.0f; }";
    let program = Program::new(&nvrtc, source);
    let fixture = software(Builder::new());
    let stream = fixture.stream();
    let mut x = DeviceBuffer::<f32>::zeroed(&stream, 1).unwrap();
    let y = DeviceBuffer::<u64>::zeroed(&stream, 1).unwrap();
    let tuner = Tuner::new(&program, "stray").define("UNROLL", [1, 2, 3]);
    let mut tried = Vec::new();
    let lost = tuner.tune(&stream, &Options::new(), |candidate, kernel| {
        tried.push(candidate.defines[0].1.clone());
        // SAFETY: with `UNROLL` 2 the kernel dereferences a null pointer, which the software device
        // survives.
        unsafe { stream.launch(kernel, LaunchConfig::new(1, 1), (&mut x, &y)) }
    });
    let Err(TuneError::Lost { candidate, source }) = lost else {
        panic!("{lost:?}")
    };
    assert_eq!(candidate.define("UNROLL"), Some("2"));
    assert_eq!(
        source.status(),
        Some(cuda_driver::error::Status::CUDA_ERROR_ILLEGAL_ADDRESS)
    );
    tried.dedup();
    assert_eq!(tried, ["1", "2"]);
}

#[test]
fn tuner_remembers_result_per_problem_and_device() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = Folder::new();
    let header =
        |text: &str| Program::new(&nvrtc, format!("#include \"a.h\"\n{ADD}")).header("a.h", text);
    let program = header("#define A 1");
    let fixture = software(Builder::new());
    let run = |fixture: &Fixture,
               program: &Program,
               blocks: [u32; 2],
               problem: &str,
               options: &Options| {
        let cache = folder.open();
        let tuner = Tuner::new(program, "add")
            .blocks(blocks)
            .define("UNROLL", ["1", "2", "nothing"])
            .samples(2)
            .remember(&cache, problem);
        let (tuning, launched) = tune(fixture, &tuner, options);
        let tuning = match tuning {
            Err(TuneError::NothingRan(tuning)) => return tuning,
            tuning => tuning.unwrap(),
        };
        assert_eq!(tuning.is_remembered(), launched == 0);
        assert_eq!(tuning.to_string().contains("(remembered)"), launched == 0);
        tuning
    };
    let plain = Options::new();
    let blocks = [32, 4096];
    let first = run(&fixture, &program, blocks, "n = 1000", &plain);
    assert!(!first.is_remembered());
    let simulator = fixture.simulator.as_ref().unwrap();
    simulator.reset_calls();
    let again = run(&fixture, &program, blocks, "n = 1000", &plain);
    assert!(again.is_remembered());
    let calls = simulator.calls();
    assert!(
        !calls
            .keys()
            .any(|name| name.starts_with("cuLaunch") || name.starts_with("cuModuleLoad")),
        "{calls:?}"
    );
    let trials_of = |tuning: &Tuning| format!("{:?}", tuning.trials());
    assert_eq!(trials_of(&again), trials_of(&first));

    // Every input that may affect the result changes the cache key, so each of these tunes for the
    // first time.
    let other = software(Builder::new().compute_capability(8, 0));
    // This driver may be too old for the PTX of this NVRTC; then no candidate runs on it.
    let older = software(Builder::new().version(12080));
    let traced = Options::new().line_info(true);
    let changed = Program::new(&nvrtc, ADD.replace("1.0f", "(n == 77u ? 2.0f : 1.0f)"));
    for (changed, tuning) in [
        (
            "problem",
            run(&fixture, &program, blocks, "n = 1001", &plain),
        ),
        (
            "blocks",
            run(&fixture, &program, [32, 64], "n = 1000", &plain),
        ),
        (
            "options",
            run(&fixture, &program, blocks, "n = 1000", &traced),
        ),
        (
            "source",
            run(&fixture, &changed, blocks, "n = 1000", &plain),
        ),
        ("device", run(&other, &program, blocks, "n = 1000", &plain)),
        ("driver", run(&older, &program, blocks, "n = 1000", &plain)),
    ] {
        assert!(!tuning.is_remembered(), "another {changed}: {tuning}");
    }
    // The same machine code has the same cache key, and the first entry still exists.
    assert!(
        run(
            &fixture,
            &header("// A\n#define A 1"),
            blocks,
            "n = 1000",
            &plain
        )
        .is_remembered()
    );

    // A modified cache entry is detected.
    for file in fs::read_dir(folder.as_ref().join("entries")).unwrap() {
        let path = file.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    assert!(!run(&fixture, &program, blocks, "n = 1000", &plain).is_remembered());
}
