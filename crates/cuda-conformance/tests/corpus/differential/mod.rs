//! Runs many kernels with the same PTX and the same random inputs on the GPU and on the software
//! device.
//!
//! Even without a GPU, the software devices of all compute capabilities are compared with each
//! other, and integer kernels with results of the host.

mod list;
mod reference;

use cuda_driver::prelude::*;
use cuda_nvrtc::Arch;

use crate::support::{self, Fixture, Source, numbers, unchecked};
use list::{KERNELS, Kernel, Values};

const INTEGERS: Source = Source::new(
    "many_integers.cu",
    include_str!("../kernels/many_integers.cu"),
);
const FLOATS: Source =
    Source::new("many_floats.cu", include_str!("../kernels/many_floats.cu")).without_contraction();

/// The number of threads of a block.
const BLOCK: usize = 128;

fn blocks() -> usize {
    let is_full = std::env::var("CUDA_FULL").is_ok_and(|value| value == "1");
    if is_full { 512 } else { 16 }
}

impl Kernel {
    /// The module that contains the kernel.
    fn of<'a>(&self, modules: &'a [Module; 2]) -> &'a Module {
        &modules[usize::from(self.values != Values::Words)]
    }

    /// The number of words in a number.
    fn size(&self) -> usize {
        1 + usize::from(matches!(self.values, Values::Doubles(..)))
    }

    fn input(&self) -> Vec<u32> {
        let seed = self
            .name
            .bytes()
            .fold(7_u64, |seed, byte| seed.wrapping_mul(31) + u64::from(byte));
        let mut random = numbers(seed);
        let count = blocks() * BLOCK * self.takes;
        let special = [
            0.0,
            -0.0,
            1.0,
            1e-40,
            f32::INFINITY,
            f32::NAN,
            -1e30,
            f32::MAX,
        ];
        let mut words = Vec::with_capacity(count * self.size());
        for _ in 0..count {
            match self.values {
                Values::Words => {
                    let word = random.u32(..);
                    words.push(if random.u8(..4) == 0 {
                        word >> random.u32(..32)
                    } else {
                        word
                    });
                }
                Values::Floats(least, greatest) => {
                    words.push((least + (greatest - least) * random.f32()).to_bits());
                }
                Values::AnyFloats => {
                    let word = match random.u8(..4) {
                        0 => random.choice(special).unwrap_or_default().to_bits(),
                        1 => random.u32(..),
                        _ => ((random.f32() - 0.5) * 100.0).to_bits(),
                    };
                    words.push(word);
                }
                Values::Doubles(least, greatest) => {
                    let bits = (least + (greatest - least) * random.f64()).to_bits();
                    words.extend([bits as u32, (bits >> 32) as u32]);
                }
            }
        }
        words
    }

    /// Runs the kernel on `input` and returns its output.
    fn run(&self, fixture: &Fixture, modules: &[Module; 2], input: &[u32]) -> Vec<u32> {
        let kernel = self.of(modules).function(self.name).unwrap();
        let threads = blocks() * BLOCK;
        let input = fixture.upload(input);
        let mut output = fixture.zeroed::<u32>(threads * self.gives * self.size());
        let config = LaunchConfig::new(blocks() as u32, BLOCK as u32);
        // SAFETY: the kernel reads and writes as many numbers for each thread as its entry in the
        // list says.
        unsafe {
            fixture
                .stream
                .launch(&kernel, config, (&input, &mut output, threads as u32))
        }
        .unwrap();
        fixture.values(&output, self.name)
    }

    /// Describes the first difference that exceeds the tolerance.
    fn difference(&self, found: &[u32], expected: &[u32]) -> Option<String> {
        assert_eq!(found.len(), expected.len());
        let size = self.size();
        let pairs = found.chunks(size).zip(expected.chunks(size)).enumerate();
        let mut wrong = pairs.filter(|(_, (a, b))| !self.tolerance.accepts(a, b));
        let (at, (a, b)) = wrong.next()?;
        let more = wrong.count();
        Some(format!(
            "result {at}: got {a:x?}, expected {b:x?}; {more} more results differ"
        ))
    }
}

/// The modules of the integer kernels and of the others, from PTX for `arch`.
fn modules(fixture: &Fixture, arch: Arch) -> [Module; 2] {
    [&INTEGERS, &FLOATS].map(|source| fixture.module_of_ptx(source, arch))
}

/// The architecture for which the PTX is compiled.
fn arch(fixture: &Fixture) -> Arch {
    fixture.context.device().virtual_arch().unwrap()
}

#[test]
fn the_same_ptx_gives_the_same_results() {
    assert!(KERNELS.len() >= 60, "{}", KERNELS.len());
    let mut wrong = Vec::new();
    let mut gpu = None;
    // The results of the software devices, and their architectures.
    let mut results: Vec<(Arch, Vec<Vec<u32>>)> = Vec::new();
    let inputs: Vec<Vec<u32>> = KERNELS.iter().map(Kernel::input).collect();
    for fixture in unchecked() {
        let modules = modules(&fixture, arch(&fixture));
        let all = KERNELS.iter().zip(&inputs);
        let found: Vec<Vec<u32>> = all
            .map(|(kernel, input)| kernel.run(&fixture, &modules, input))
            .collect();
        for (k, kernel) in KERNELS.iter().enumerate() {
            if let Some(reference) = kernel.reference {
                let expected: Vec<u32> =
                    inputs[k].chunks(kernel.takes).flat_map(reference).collect();
                if let Some(what) = kernel.difference(&found[k], &expected) {
                    wrong.push(format!(
                        "{} on {}, compared with the host: {what}",
                        kernel.name, fixture.name
                    ));
                }
            }
            if let Some((first, before)) = results.first()
                && let Some(what) = kernel.difference(&found[k], &before[k])
            {
                wrong.push(format!(
                    "{} on {}, compared with {first}: {what}",
                    kernel.name, fixture.name
                ));
            }
        }
        results.push((arch(&fixture), found));
    }
    if !results.is_empty() {
        gpu = support::gpu();
    }
    if let Some(fixture) = gpu {
        let own = fixture.context.device().compute_capability().unwrap();
        let own = Arch::compute(own.major, own.minor);
        for (arch, software) in results.iter().filter(|(arch, _)| *arch <= own) {
            let mut same = 0;
            let modules = modules(&fixture, *arch);
            for (k, kernel) in KERNELS.iter().enumerate() {
                let found = kernel.run(&fixture, &modules, &inputs[k]);
                same += usize::from(found == software[k]);
                if let Some(what) = kernel.difference(&software[k], &found) {
                    let name = kernel.name;
                    wrong.push(format!(
                        "{name} by {arch}, the software device compared with {}: {what}",
                        fixture.name
                    ));
                }
            }
            println!(
                "{arch}: {same} of {} kernels have equal bits on the GPU",
                KERNELS.len()
            );
        }
    }
    let host = KERNELS
        .iter()
        .filter(|kernel| kernel.reference.is_some())
        .count();
    println!(
        "{} kernels on {} threads, {host} of them compared with the host",
        KERNELS.len(),
        blocks() * BLOCK
    );
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
