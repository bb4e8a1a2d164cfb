//! Concurrent processes, killed processes, damaged entries and full disks.
//!
//! The other processes run this test binary with one of the ignored tests below.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use cuda_nvrtc::{Cache, CacheMode, Nvrtc, Options, Outcome, Program, Ptx};

use super::Folder;
use crate::at_hand::nvrtc;

/// The environment variable with the cache folder of the other processes.
const DIR: &str = "CUDA_TEST_CACHE_DIR";

/// The environment variable with the number of their operations.
const COUNT: &str = "CUDA_TEST_CACHE_COUNT";

/// The full number with `CUDA_FULL=1`, else the smaller daily one.
fn scaled(full: u64, daily: u64) -> u64 {
    let is_full = env::var_os("CUDA_FULL").is_some_and(|value| value == "1");
    let number = if is_full { full } else { daily };
    println!("{number}, and {full} with CUDA_FULL=1");
    number
}

fn kernel(nvrtc: &Nvrtc, number: u64) -> Program {
    let number = 100_000 + number;
    Program::new(
        nvrtc,
        format!(
            "template <int N> __global__ void k(int *x) {{ int unused; *x = N; }}\n
             __global__ void first(int *x) {{ *x = {number}; }}"
        ),
    )
    .name_expression(format!("k<{number}>"))
}

/// A command that runs the ignored test `name` of this file in a new process.
fn process(name: &str, dir: &Path, count: u64) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", "--nocapture", "--test-threads=1"])
        .arg(format!("cache::fire::{name}"))
        .env(DIR, dir)
        .env(COUNT, count.to_string())
        .stdout(Stdio::piped());
    command
}

/// The instructions of a child process, or `None` if no test here started this process.
fn child_arguments() -> Option<(Cache, u64, Nvrtc)> {
    let dir = env::var_os(DIR)?;
    let count = env::var(COUNT).unwrap().parse().unwrap();
    Some((Cache::open(dir), count, Nvrtc::load().unwrap()))
}

/// The lines `name: value` that a process printed.
fn printed_values(child: Child) -> BTreeMap<String, String> {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    lines
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn each_kernel_is_compiled_once_by_all_processes() {
    if nvrtc().is_none() {
        return;
    }
    let folder = Folder::new();
    let processes = scaled(16, 5);
    let kernels = scaled(50, 12);
    let children: Vec<Child> = (0..processes)
        .map(|_| {
            process("compiles_all", &folder.path(), kernels)
                .spawn()
                .unwrap()
        })
        .collect();
    let mut sums = BTreeMap::<String, u64>::new();
    for child in children {
        for (name, value) in printed_values(child) {
            *sums.entry(name).or_default() += value.parse::<u64>().unwrap_or(0);
        }
    }
    assert_eq!(sums["misses"], kernels, "{sums:?}");
    assert_eq!(sums["stores"], kernels, "{sums:?}");
    assert_eq!(sums["hits"], (processes - 1) * kernels, "{sums:?}");
    assert_eq!((sums["corrupt"], sums["stale"]), (0, 0), "{sums:?}");
    assert_eq!(folder.entries().len() as u64, kernels);
    let locks = super::files(&folder.path().join("locks"));
    assert!(cfg!(not(unix)) || locks.is_empty(), "{locks:?}");
}

#[test]
#[ignore = "a process of another test"]
fn compiles_all() {
    let Some((cache, count, nvrtc)) = child_arguments() else {
        return;
    };
    // The order differs between processes, so that they compete for every key.
    let first = u64::from(std::process::id()) % count;
    for number in (first..count).chain(0..first) {
        let program = kernel(&nvrtc, number);
        let cached = cache.compile::<Ptx>(&program, &Options::new()).unwrap();
        let text = cached.image.to_text();
        assert!(text.contains(&(100_000 + number).to_string()), "{text}");
        let name = cached.lowered_name(&format!("k<{}>", 100_000 + number));
        assert!(
            text.contains(&format!(".entry {}(", name.unwrap())),
            "{text}"
        );
    }
    let stats = cache.stats();
    println!(
        "\nmisses: {}\nstores: {}\nhits: {}\ncorrupt: {}\nstale: {}",
        stats.misses, stats.stores, stats.hits, stats.corrupt, stats.stale
    );
}

#[cfg(unix)]
#[test]
fn killed_writer_leaves_no_corrupt_entry() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = Folder::new();
    let kills = scaled(100, 12);
    let count = 6;
    let (mut unfinished, mut found) = (0, 0);
    for kill in 0..kills {
        let mut child = process("writes_for_ever", &folder.path(), count)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().ends_with("writing")));
        thread::sleep(Duration::from_micros(1300 * (kill % 37)));
        // SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
        let files = folder.entries();
        let name =
            |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        let left = files.iter().filter(|path| name(path).starts_with('.'));
        unfinished += left.inspect(|path| fs::remove_file(path).unwrap()).count();
        let cache = folder.open();
        for number in 0..count {
            let note = cache.get_note(&[b"note", &number.to_le_bytes()]);
            if let Some(note) = note {
                found += 1;
                assert_eq!(note.len(), NOTE);
                assert!(note.iter().all(|&byte| byte == note[0]), "kill {kill}");
            }
            let program = kernel(&nvrtc, number);
            let reader = Cache::builder(folder.path())
                .mode(CacheMode::ReadOnly)
                .open();
            let cached = reader.compile::<Ptx>(&program, &Options::new()).unwrap();
            assert_eq!(cached.compiled, program.compile(&Options::new()).unwrap());
            assert_eq!(reader.stats().corrupt, 0, "a rename must be atomic");
        }
        assert_eq!(cache.stats().corrupt, 0, "a rename must be atomic");
        // The lock of the dead process is released.
        if kill == kills - 1 {
            for number in 0..count {
                let cached = cache.compile::<Ptx>(&kernel(&nvrtc, number), &Options::new());
                assert!(matches!(
                    cached.unwrap().outcome,
                    Outcome::Stored | Outcome::Hit
                ));
            }
        }
        if kill % 5 == 4 {
            cache.clear().unwrap();
        }
    }
    println!("{unfinished} of {kills} processes died during a write; {found} notes were complete");
    assert!(unfinished > 0, "no process was killed during a write");
    assert!(found > 0, "nothing was ever written");
}

/// The length of a note in bytes: long enough that a kill can interrupt the write.
const NOTE: usize = 2 << 20;

#[test]
#[ignore = "a process of another test"]
fn writes_for_ever() {
    let Some((cache, count, nvrtc)) = child_arguments() else {
        return;
    };
    let notes = cache.clone();
    thread::spawn(move || {
        for round in 0_u64.. {
            let byte = u8::try_from(round % 251).unwrap();
            let number = (round % count).to_le_bytes();
            assert!(notes.put_note(&[b"note", &number], &vec![byte; NOTE]));
            println!("\nwriting");
        }
    });
    for round in 0_u64.. {
        let program = kernel(&nvrtc, round % count);
        cache.compile::<Ptx>(&program, &Options::new()).unwrap();
    }
}

#[test]
fn a_damaged_entry_is_compiled_anew() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = Folder::new();
    let program = Program::new(&nvrtc, "__global__ void k() {}");
    let options = Options::new();
    let expected = program.compile::<Ptx>(&options).unwrap();
    let cache = folder.open();
    cache.compile::<Ptx>(&program, &options).unwrap();
    let entry = folder.entries().remove(0);
    let whole = fs::read(&entry).unwrap();
    let check = |damaged: &[u8], how: &str| {
        fs::write(&entry, damaged).unwrap();
        let cached = cache.compile::<Ptx>(&program, &options).unwrap();
        assert_eq!(
            (&cached.compiled, cached.outcome),
            (&expected, Outcome::Stored),
            "{how}"
        );
        assert_eq!(fs::read(&entry).unwrap(), whole, "{how}");
    };
    let mut count = 0;
    let step = usize::try_from(scaled(1, 13)).unwrap();
    for at in (0..whole.len()).step_by(step) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        check(&damaged, &format!("bit {} of byte {at}", at % 8));
        check(&whole[..at], &format!("cut to {at}"));
        count += 2;
    }
    check(&[whole.as_slice(), b"\0"].concat(), "one byte more");
    check(&vec![0; whole.len()], "all zero");
    assert_eq!(cache.stats().corrupt, count + 2);

    // The entry of another program at this place.
    let other = Program::new(&nvrtc, "__global__ void k() { __syncthreads(); }");
    cache.compile::<Ptx>(&other, &options).unwrap();
    let foreign = folder.entries().into_iter().find(|path| *path != entry);
    check(&fs::read(foreign.unwrap()).unwrap(), "foreign");
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_a_warning() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = Folder::new();
    // The file size limit leaves no room for an entry.
    let child = process("cannot_write", &folder.path(), 1).spawn().unwrap();
    let printed = printed_values(child);
    assert_eq!(printed["outcome"], "StoreFailed");
    assert!(
        printed["problem"].contains("cannot write to the cache in"),
        "{printed:?}"
    );
    assert_eq!(folder.entries(), [""; 0].map(std::path::PathBuf::from));
    // Once there is room again, the cache works.
    let cached = folder
        .open()
        .compile::<Ptx>(&kernel(&nvrtc, 1), &Options::new());
    assert_eq!(cached.unwrap().outcome, Outcome::Stored);
}

#[cfg(unix)]
#[test]
#[ignore = "a process of another test"]
fn cannot_write() {
    let Some((cache, number, nvrtc)) = child_arguments() else {
        return;
    };
    let program = kernel(&nvrtc, number);
    let expected = program.compile::<Ptx>(&Options::new()).unwrap();
    let limit = libc::rlimit {
        rlim_cur: 100,
        rlim_max: 100,
    };
    // SAFETY: the handler must be valid ← `SIG_IGN` is. Without it, the signal would end the
    // process.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    // SAFETY: the pointer must be to a limit ← it is to a local.
    let status = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
    assert_eq!(status, 0);
    for _ in 0..2 {
        let cached = cache.compile::<Ptx>(&program, &Options::new()).unwrap();
        assert_eq!(
            (&cached.compiled, cached.outcome),
            (&expected, Outcome::StoreFailed)
        );
    }
    println!("\noutcome: {:?}", Outcome::StoreFailed);
    println!("problem: {}", cache.problem().unwrap());
}

/// Runs in its own process, because the other tests of this process must not see two libraries of
/// built-in functions.
#[cfg(target_os = "linux")]
#[test]
fn another_build_of_one_version_is_another_key() {
    let Some(nvrtc) = nvrtc() else { return };
    let origin = Path::new(nvrtc.origin());
    if !origin.is_absolute() {
        test_needs::skipped(&format!("{} is not a full path", origin.display()));
        return;
    }
    let folder = Folder::new();
    // A build that differs in a byte after all that is loaded.
    let builtins = format!("libnvrtc-builtins.so.{}", nvrtc.version());
    let mut files = Vec::new();
    for name in [origin.file_name().unwrap().to_str().unwrap(), &builtins] {
        files.push((
            folder.0.path().join(name),
            fs::read(origin.with_file_name(name)).unwrap(),
        ));
    }
    let outcome = |files: &[(PathBuf, Vec<u8>)]| {
        for (path, bytes) in files {
            fs::write(path, bytes).unwrap();
        }
        let mut command = process("compiles_one", &folder.path(), 1);
        command.env("CUDA_NVRTC_LIBRARY", &files[0].0);
        printed_values(command.spawn().unwrap())["outcome"].clone()
    };
    assert_eq!([outcome(&files), outcome(&files)], ["Stored", "Hit"]);
    for index in 0..2 {
        files[index].1.push(0);
        assert_eq!(
            [outcome(&files), outcome(&files)],
            ["Stored", "Hit"],
            "{index}"
        );
    }
}

#[test]
#[ignore = "a process of another test"]
fn compiles_one() {
    let Some((cache, number, nvrtc)) = child_arguments() else {
        return;
    };
    let cached = cache.compile::<Ptx>(&kernel(&nvrtc, number), &Options::new());
    println!("\noutcome: {:?}", cached.unwrap().outcome);
}

#[test]
fn the_environment_sets_folder_and_mode() {
    if nvrtc().is_none() {
        return;
    }
    let folder = Folder::new();
    let run = |value: &str| {
        let mut command = process("obeys_the_environment", &folder.path(), 1);
        command.env("CUDA_NVRTC_CACHE", value);
        command.env("XDG_CACHE_HOME", folder.0.path().join("user"));
        printed_values(command.spawn().unwrap())["outcome"].clone()
    };
    let dir = folder.path();
    let dir = dir.to_str().unwrap();
    for (value, outcome) in [
        ("off", "Off"),
        ("", "Stored"),
        ("on", "Hit"),
        ("read-only", "Hit"),
        (dir, "Stored"),
        (dir, "Hit"),
    ] {
        assert_eq!(run(value), outcome, "{value:?}");
    }
    assert_eq!(folder.entries().len(), 1);
    let user = folder.0.path().join("user/cuda-nvrtc/programs/entries");
    assert_eq!(super::files(&user).len(), 1);
    // A compilation is not cached if the environment passes options to NVRTC.
    let mut command = process("obeys_the_environment", &folder.path(), 1);
    command.env("CUDA_NVRTC_CACHE", dir);
    command.env("NVRTC_APPEND_FLAGS", "-DX=1");
    let printed = printed_values(command.spawn().unwrap());
    assert_eq!(printed["outcome"], "Refused(Environment)");
}

#[test]
#[ignore = "a process of another test"]
fn obeys_the_environment() {
    let Some((_, number, nvrtc)) = child_arguments() else {
        return;
    };
    let cache = Cache::system();
    let cached = cache.compile::<Ptx>(&kernel(&nvrtc, number), &Options::new());
    println!("\noutcome: {:?}", cached.unwrap().outcome);
    println!("problem: {}", cache.problem().unwrap_or_default());
}

/// An unusable cache must not prevent a compilation. The problem names the variable.
#[test]
fn a_wrong_value_of_the_variable_is_a_problem() {
    if nvrtc().is_none() {
        return;
    }
    let folder = Folder::new();
    let file = folder.0.path().join("file");
    fs::write(&file, "").unwrap();
    for value in ["readonly", "./cache", file.to_str().unwrap()] {
        let mut command = process("obeys_the_environment", &folder.path(), 1);
        command.env("CUDA_NVRTC_CACHE", value);
        command.current_dir(folder.0.path());
        let printed = printed_values(command.spawn().unwrap());
        assert_eq!(printed["outcome"], "Off", "{value}");
        let expected = format!("CUDA_NVRTC_CACHE is set to {value}, which ");
        assert!(printed["problem"].starts_with(&expected), "{printed:?}");
    }
    assert!(!folder.0.path().join("readonly").exists());
}
