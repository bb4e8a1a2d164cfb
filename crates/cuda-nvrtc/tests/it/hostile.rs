//! Hostile sources: each gives a success or a clear error, never a crash or a hang.

use std::time::{Duration, Instant};

use cuda_nvrtc::{Error, Nvrtc, Options, Program, Version};

use crate::at_hand::{nvrtc, scaled};

const GOOD: &str = r#"
#include "a.h"
template <typename T, int N> struct Tile { T data[N]; __device__ T sum() const {
    T s = T(); for (int i = 0; i < N; ++i) s += data[i]; return s; } };
extern "C" __global__ void k(const float *x, float *y, int n) {
    __shared__ Tile<float, 32> tile;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { tile.data[threadIdx.x % 32] = x[i] * SCALE; }
    __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = tile.sum() + 1.5e-3f; /* "text" 'c' */
}
"#;

/// A small random generator with a fixed seed, so that a failure can be reproduced.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end).unwrap()).unwrap()
    }
}

fn compile(nvrtc: &Nvrtc, source: &[u8]) -> Result<(), Error> {
    let mut options = Options::new();
    if nvrtc.version() >= Version::new(12080) {
        options = options.timeout(Duration::from_secs(20));
    }
    let program = Program::new(nvrtc, source).header("a.h", "#define SCALE 2");
    let start = Instant::now();
    let result = program.compile_ptx(&options).map(|_| ());
    // The time limit, plus a margin for a loaded machine. NVRTC before 12.8 has no time limit, and
    // must end without one.
    let took = start.elapsed();
    assert!(
        took < Duration::from_secs(60),
        "{took:?}: {}",
        String::from_utf8_lossy(source)
    );
    if let Err(error) = &result {
        let clear = match error {
            Error::Compile(error) => {
                error.errors().next().is_some() || error.log().as_str().contains("error")
            }
            Error::Nul { .. } | Error::TimedOut { .. } | Error::TooDeep { .. } => true,
            _ => false,
        };
        assert!(clear, "{error:?}\n{}", String::from_utf8_lossy(source));
        assert!(!error.to_string().is_empty());
    }
    result
}

/// The number of kinds of mutations in [`mutated`].
const KINDS: usize = 10;

/// A valid source, changed by a mutation of the given kind.
fn mutated(kind: usize, random: &mut Random) -> Vec<u8> {
    let mut source = GOOD.as_bytes().to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(source.len());
        match kind {
            0 => source.truncate(at.max(1)),
            1 => source[at] = u8::try_from(random.below(256)).unwrap(),
            2 => drop(source.drain(at..(at + random.below(20)).min(source.len()).max(at))),
            3 => {
                let from = random.below(GOOD.len() - 40);
                insert(&mut source, at, &GOOD[from..from + 40]);
            }
            4 => {
                let tokens = [
                    "{",
                    "<",
                    "\"",
                    "#if 1\n",
                    "template <",
                    "\\",
                    "\r",
                    "operator",
                    "'",
                ];
                insert(&mut source, at, tokens[random.below(tokens.len())]);
            }
            5 => source.swap(at, 0),
            // Whole lines for the preprocessor.
            6 => {
                let line = match random.below(4) {
                    0 => "#error no",
                    1 => "#include <missing.h>",
                    2 => "#include \"a.h",
                    _ => "#if 1 / 0",
                };
                insert(&mut source, at, &format!("\n{line}\n"));
            }
            7 => {
                let bytes =
                    (0..=random.below(30)).map(|_| 0x80 | u8::try_from(random.below(128)).unwrap());
                source.splice(at..at, bytes.collect::<Vec<u8>>());
            }
            8 => {
                let depth = 1 + random.below(2000);
                let (open, close) = ("Tile<".repeat(depth), ",1>".repeat(depth));
                source
                    .extend_from_slice(format!("\n__device__ {open}float{close} deep;").as_bytes());
            }
            _ => {
                // The number of operands is smaller, because the time and memory of NVRTC's
                // optimizer grow with its square.
                let (piece, most) = [
                    (" ", 500_000),
                    ("x", 500_000),
                    ("\n", 500_000),
                    ("//", 500_000),
                    ("0,", 2000),
                    ("+1", 2000),
                ][random.below(6)];
                insert(&mut source, at, &piece.repeat(1 + random.below(most)));
            }
        }
        if source.is_empty() {
            source.push(b' ');
        }
    }
    source
}

fn insert(source: &mut Vec<u8>, at: usize, text: &str) {
    source.splice(at..at, text.bytes());
}

#[test]
fn mutations() {
    let Some(nvrtc) = nvrtc() else { return };
    compile(&nvrtc, GOOD.as_bytes()).unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let cases = scaled("mutated sources", 500, 100);
    let (mut good, mut bad) = (0, 0);
    for case in 0..cases {
        match compile(&nvrtc, &mutated(case % KINDS, &mut random)) {
            Ok(()) => good += 1,
            Err(_) => bad += 1,
        }
    }
    println!("{good} sources compile, {bad} do not");
    // Some mutations are inside a comment, most are not.
    assert!(good > cases / 50 && bad > cases / 2);
    assert_eq!(good + bad, cases);
}

#[test]
fn binary_garbage() {
    let Some(nvrtc) = nvrtc() else { return };
    let mut random = Random(7);
    for length in [1, 10, 1000, 100_000] {
        let bytes = (0..length).map(|_| u8::try_from(1 + random.below(255)).unwrap());
        compile(&nvrtc, &bytes.collect::<Vec<u8>>()).unwrap_err();
    }
}

#[test]
fn text_that_is_not_utf_8() {
    let Some(nvrtc) = nvrtc() else { return };
    compile(&nvrtc, b"// caf\xe9\n__global__ void k() {}").unwrap();
    let error = compile(&nvrtc, b"int a = missing; // \xff\xfe").unwrap_err();
    assert!(error.to_string().contains("\"missing\""), "{error}");
    compile(&nvrtc, b"int \xe9 = ;").unwrap_err();
}

#[test]
fn megabytes() {
    let Some(nvrtc) = nvrtc() else { return };
    let comment = format!("/*{}*/\n__global__ void k() {{}}", "x".repeat(8 << 20));
    compile(&nvrtc, comment.as_bytes()).unwrap();
    let table: String = (0..200_000).map(|i| format!("{i},")).collect();
    let table = format!("__device__ int t[] = {{{table}}};\n__device__ int missing_semicolon");
    let error = compile(&nvrtc, table.as_bytes()).unwrap_err();
    assert!(error.to_string().contains("expected a \";\""), "{error}");
    compile(&nvrtc, "(".repeat(4 << 20).as_bytes()).unwrap_err();
    compile(&nvrtc, "<:".repeat(1 << 20).as_bytes()).unwrap_err();
}

#[test]
fn endless_compilations_without_a_limit() {
    let Some(nvrtc) = nvrtc() else { return };
    let template =
        "template <int N> struct F { static constexpr int v = F<N + 1>::v; }; int a = F<0>::v;";
    let error = compile(&nvrtc, template.as_bytes()).unwrap_err();
    assert!(error.to_string().contains("recursion"), "{error}");
    let include = Program::new(&nvrtc, "#include \"a.h\"").header("a.h", "#include \"a.h\"");
    let Err(Error::Compile(_)) = include.compile_ptx(&Options::new()) else {
        panic!("a header that includes itself without end compiled");
    };
    let directive = compile(&nvrtc, b"#error the author says no\n").unwrap_err();
    assert!(
        directive.to_string().contains("the author says no"),
        "{directive}"
    );
}
