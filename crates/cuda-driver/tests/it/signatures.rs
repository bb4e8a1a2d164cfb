//! Kernels with random parameter lists: mismatches are errors, and matching arguments arrive byte
//! by byte.
//!
//! `CUDA_FULL=1` runs all of them.

use std::env;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use cuda_driver::error::{ArgumentError, Error};
use cuda_driver::prelude::*;
use cuda_nvrtc::{Nvrtc, Options, Program};
use cuda_sim::Builder;
use cuda_sys::image::Parameter;
use fastrand::Rng;

use crate::nvrtc::nvrtc;
use crate::support::{Fixture, gpu, software};

/// The number of signatures with `CUDA_FULL=1`.
const FULL: usize = 10_000;
/// The number of signatures in an ordinary run.
const REDUCED: usize = 300;
/// The number of kernels in one program.
const KERNELS: usize = 100;
/// The size of the largest value, in bytes.
const LARGEST: usize = 32;
/// The number of bytes that a kernel may write.
const OUT: usize = 1024;

const SCALARS: [(&str, usize); 10] = [
    ("signed char", 1),
    ("unsigned char", 1),
    ("short", 2),
    ("unsigned short", 2),
    ("int", 4),
    ("unsigned", 4),
    ("long long", 8),
    ("unsigned long long", 8),
    ("float", 4),
    ("double", 8),
];

/// A device function that writes the bytes of a value.
const PUT: &str = "template <class T> __device__ void put(unsigned char *&to, const T &value) {
    const unsigned char *from = reinterpret_cast<const unsigned char *>(&value);
    for (unsigned i = 0; i < sizeof(T); ++i) to[i] = from[i];
    to += sizeof(T);
}
";

/// A type of CUDA C++ with the layout that this test computes for it.
struct Type {
    name: String,
    size: usize,
    align: usize,
    /// For each byte, whether it is padding.
    padding: Vec<bool>,
}

#[derive(Clone)]
enum Arg {
    /// The output buffer of the kernel.
    Out,
    /// The address of this word.
    Word(usize),
    Bytes(Vec<u8>),
}

struct Kernel {
    name: String,
    types: Vec<Type>,
    args: Vec<Arg>,
}

impl Type {
    fn scalar(rng: &mut Rng) -> Self {
        let (name, size) = SCALARS[rng.usize(..SCALARS.len())];
        Self {
            name: name.to_owned(),
            size,
            align: size,
            padding: vec![false; size],
        }
    }

    fn pointer(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            size: 8,
            align: 8,
            padding: vec![false; 8],
        }
    }

    /// Generates a struct of a few numbers and appends its definition to `source`.
    fn structure(rng: &mut Rng, name: String, source: &mut String) -> Self {
        let mut made = Self {
            name,
            size: 0,
            align: 1,
            padding: Vec::new(),
        };
        let mut fields = String::new();
        for index in 0..rng.usize(1..6) {
            let field = Self::scalar(rng);
            let start = made.size.next_multiple_of(field.align);
            if (start + field.size).next_multiple_of(8) > LARGEST {
                break;
            }
            made.padding.resize(start, true);
            made.padding.extend(field.padding);
            made.size = start + field.size;
            made.align = made.align.max(field.align);
            write!(fields, "{} f{index}; ", field.name).unwrap();
        }
        made.size = made.size.next_multiple_of(made.align);
        made.padding.resize(made.size, true);
        writeln!(source, "struct {} {{ {fields}}};", made.name).unwrap();
        made
    }
}

/// Generates a program of random kernels from a seed; returns the kernels and the source.
fn program_of(seed: u64) -> (Vec<Kernel>, String) {
    let mut rng = Rng::with_seed(seed);
    let mut source = PUT.to_owned();
    let kernels = (0..KERNELS)
        .map(|number| kernel_of(&mut rng, number, &mut source))
        .collect();
    (kernels, source)
}

fn kernel_of(rng: &mut Rng, number: usize, source: &mut String) -> Kernel {
    let (mut types, mut args) = (Vec::new(), Vec::new());
    for index in 0..rng.usize(..20) {
        let ty = match rng.u8(..4) {
            0 => {
                types.push(Type::pointer("const unsigned *"));
                args.push(Arg::Word(rng.usize(..64)));
                continue;
            }
            1 => Type::structure(rng, format!("S{number}_{index}"), source),
            _ => Type::scalar(rng),
        };
        args.push(Arg::Bytes((0..ty.size).map(|_| rng.u8(..)).collect()));
        types.push(ty);
    }
    let out = rng.usize(..=types.len());
    types.insert(out, Type::pointer("unsigned char *"));
    args.insert(out, Arg::Out);
    let name = format!("k{number}");
    let list: Vec<String> = types
        .iter()
        .enumerate()
        .map(|(index, ty)| format!("{} a{index}", ty.name))
        .collect();
    let list = list.join(", ");
    write!(
        source,
        "extern \"C\" __global__ void {name}({list}) {{ unsigned char *to = a{out}; "
    )
    .unwrap();
    for (index, arg) in args.iter().enumerate() {
        match arg {
            Arg::Out => {}
            Arg::Word(_) => write!(source, "put(to, *a{index}); ").unwrap(),
            Arg::Bytes(_) => write!(source, "put(to, a{index}); ").unwrap(),
        }
    }
    source.push_str("}\n");
    Kernel { name, types, args }
}

macro_rules! push_sized {
    ($list:ident, $bytes:ident: $($size:literal)*) => {
        match $bytes.len() {
            $($size => { $list.push(<[u8; $size]>::try_from(&$bytes[..]).unwrap()); })*
            other => panic!("no value has {other} bytes"),
        }
    };
}

fn push_bytes(list: &mut ArgList<'_>, bytes: &[u8]) {
    push_sized!(list, bytes: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
}

/// Launches the function with these arguments.
fn launch(
    stream: &Stream,
    function: &Function,
    args: &[Arg],
    out: &mut DeviceBuffer<u8>,
    words: &DeviceBuffer<u32>,
) -> Result<(), Error> {
    let mut list = ArgList::new();
    let mut out = Some(out);
    for arg in args {
        match arg {
            Arg::Out => {
                list.push(out.take().unwrap());
            }
            Arg::Word(index) => {
                list.push(words.slice(*index..index + 1).unwrap());
            }
            Arg::Bytes(bytes) => push_bytes(&mut list, bytes),
        }
    }
    // SAFETY: the kernel writes the values of its arguments to `out`, which is longer. Arguments of
    // wrong sizes are refused.
    unsafe { stream.launch(function, LaunchConfig::new(1, 1), &list) }
}

/// Returns argument lists that the kernel does not accept, each with the expected error.
fn mismatches(
    rng: &mut Rng,
    kernel: &Kernel,
    parameters: &[Parameter],
) -> Vec<(Vec<Arg>, ArgumentError)> {
    let name = || kernel.name.clone();
    let expected = kernel.args.len();
    let count = |given| ArgumentError::Count {
        kernel: name(),
        expected,
        parameters: String::new(),
        given,
    };
    let mut found = Vec::new();
    let mut more = kernel.args.clone();
    more.insert(
        rng.usize(..=expected),
        Arg::Bytes(vec![0; rng.usize(1..=LARGEST)]),
    );
    found.push((more, count(expected + 1)));
    let mut fewer = kernel.args.clone();
    fewer.remove(rng.usize(..expected));
    found.push((fewer, count(expected - 1)));
    found.push((Vec::new(), count(0)));
    let index = rng.usize(..expected);
    let right = kernel.types[index].size;
    for given in [right - 1, right + 1, rng.usize(1..=LARGEST)] {
        if given == right || !(1..=LARGEST).contains(&given) {
            continue;
        }
        let mut other = kernel.args.clone();
        other[index] = Arg::Bytes(vec![0; given]);
        let size = ArgumentError::Mismatch {
            kernel: name(),
            index,
            parameter: parameters[index].clone(),
            given,
            given_type: None,
        };
        found.push((other, size));
    }
    found
}

/// Checks the program of a seed and returns the number of refused launches.
fn check(fixture: &Fixture, nvrtc: &Nvrtc, seed: u64, count: usize) -> usize {
    let (kernels, source) = program_of(seed);
    let program = Program::new(nvrtc, source).name(format!("signatures-{seed}.cu"));
    let module = if fixture.simulator.is_some() {
        let arch = fixture.context.device().virtual_arch().unwrap();
        let ptx = program.compile_ptx(&Options::new().arch(arch)).unwrap();
        Module::load(&fixture.context, &ptx.image).unwrap()
    } else {
        Module::compile(&fixture.context, &program, &Options::new()).unwrap()
    };
    let stream = fixture.stream();
    let mut rng = Rng::with_seed(seed ^ 0x5EED);
    let values: Vec<u32> = (0..64).map(|_| rng.u32(..)).collect();
    let words = DeviceBuffer::from_host(&stream, &values).unwrap();
    let mut out = DeviceBuffer::<u8>::zeroed(&stream, OUT).unwrap();
    let launches = || {
        let simulator = fixture.simulator.as_ref()?;
        simulator.calls().get("cuLaunchKernel").copied()
    };
    let mut refused = 0;
    for kernel in kernels.iter().take(count) {
        let what = format!("{}: seed {seed}, {}", fixture.name, kernel.name);
        let function = module.function(&kernel.name).unwrap();
        if let Some(parameters) = function.parameters() {
            let mut end = 0_usize;
            assert_eq!(parameters.len(), kernel.types.len(), "{what}");
            for (parameter, ty) in parameters.iter().zip(&kernel.types) {
                let offset = end.next_multiple_of(ty.align);
                assert_eq!(
                    (parameter.offset, parameter.size),
                    (offset, ty.size),
                    "{what}"
                );
                end = offset + ty.size;
            }
            let before = launches();
            for (args, want) in mismatches(&mut rng, kernel, parameters) {
                let mut error = launch(&stream, &function, &args, &mut out, &words).unwrap_err();
                if let Error::Argument(error) = &mut error
                    && let ArgumentError::Count { parameters, .. } = &mut **error
                {
                    assert!(parameters.starts_with('('), "{what}: {parameters}");
                    parameters.clear();
                }
                assert_eq!(error, Error::Argument(Box::new(want)), "{what}");
                refused += 1;
            }
            assert_eq!(launches(), before, "{what}");
        }
        launch(&stream, &function, &kernel.args, &mut out, &words).unwrap();
        let got = out.to_vec().unwrap();
        let mut got = got.as_slice();
        for (arg, ty) in kernel.args.iter().zip(&kernel.types) {
            let (want, padding) = match arg {
                Arg::Out => continue,
                Arg::Word(index) => (values[*index].to_le_bytes().to_vec(), &[false; 4][..]),
                Arg::Bytes(bytes) => (bytes.clone(), &ty.padding[..]),
            };
            let (bytes, rest) = got.split_at(want.len());
            for ((got, want), is_padding) in bytes.iter().zip(&want).zip(padding) {
                assert!(*is_padding || got == want, "{what}: {}: {bytes:?}", ty.name);
            }
            got = rest;
        }
    }
    refused
}

#[test]
fn random_signatures_are_checked_and_arrive_byte_by_byte() {
    let Some(nvrtc) = nvrtc() else { return };
    let full = env::var("CUDA_FULL").is_ok_and(|value| value == "1");
    let count = if full { FULL } else { REDUCED };
    let programs = count.div_ceil(KERNELS);
    let start = Instant::now();
    let (next, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let run = |fixture: &Fixture| {
        loop {
            let program = next.fetch_add(1, Ordering::Relaxed);
            if program >= programs {
                break;
            }
            let kernels = KERNELS.min(count - program * KERNELS);
            refused.fetch_add(
                check(fixture, &nvrtc, program as u64, kernels),
                Ordering::Relaxed,
            );
        }
    };
    let threads = thread::available_parallelism().map_or(1, |count| count.get().min(8));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| run(&software(Builder::new())));
        }
    });
    let print = |device: &str| {
        let seconds = start.elapsed().as_secs_f64();
        let refused = refused.load(Ordering::Relaxed);
        println!(
            "{device}: {count} of {FULL} random signatures launched, {refused} mismatches refused, {seconds:.0} s"
        );
        assert!(refused >= 4 * count, "{refused}");
    };
    print("the software device");
    if let Some(fixture) = gpu() {
        next.store(0, Ordering::Relaxed);
        refused.store(0, Ordering::Relaxed);
        run(&fixture);
        print(&fixture.name);
    }
}
