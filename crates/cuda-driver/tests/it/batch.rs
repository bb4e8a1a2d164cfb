//! Packed batches: many buffers and a struct of settings in one launch.

use cuda_driver::launch::Using;
use cuda_driver::prelude::*;
use cuda_nvrtc::{Options, Program};

use crate::nvrtc::nvrtc;
use crate::support::{Fixture, everywhere};

/// One block per structure of a batch computes sums over its atoms and its residues.
const SOURCE: &str = r#"
struct Structure { unsigned atoms, ca, n_atoms, n_residues; };
struct Config { float threshold, scale; unsigned n_structures, flags; };

__device__ void score(const float *atoms, const unsigned *ca, const Structure *structures,
                      const unsigned char *types, const float *weights, const float *factors,
                      const float *frequency, const float *velocity, Config config, float *out) {
    Structure s = structures[blockIdx.x];
    if (threadIdx.x != 0 || blockIdx.x >= config.n_structures) return;
    float sum = 0;
    for (unsigned i = 0; i < s.n_atoms; ++i) {
        float x = atoms[3 * (s.atoms + i)];
        if (x > config.threshold) sum += x;
    }
    for (unsigned i = 0; i < s.n_residues; ++i) {
        unsigned r = s.ca + i;
        sum += types[r] + weights[r] * factors[r] + atoms[3 * (s.atoms + ca[r]) + 1];
    }
    out[blockIdx.x] = sum * config.scale + frequency[blockIdx.x] - velocity[blockIdx.x]
                    + (config.flags & 1 ? out[blockIdx.x] : 0.0f);
}

extern "C" __global__ void by_arguments(
        float *out, const float *atoms, const unsigned *ca, const Structure *structures,
        const unsigned char *types, const float *weights, const float *factors,
        const float *frequency, const float *velocity, Config config) {
    score(atoms, ca, structures, types, weights, factors, frequency, velocity, config, out);
}

struct Batch {
    float *out; const float *atoms; const unsigned *ca; const Structure *structures;
    const unsigned char *types; const float *weights, *factors, *frequency, *velocity;
    Config config;
};

extern "C" __global__ void by_struct(Batch b) {
    score(b.atoms, b.ca, b.structures, b.types, b.weights, b.factors, b.frequency, b.velocity,
          b.config, b.out);
}
"#;

/// The position of the data of one structure in the packed arrays.
#[repr(C)]
#[derive(Clone, Copy)]
struct Structure {
    atoms: u32,
    ca: u32,
    n_atoms: u32,
    n_residues: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Config {
    threshold: f32,
    scale: f32,
    n_structures: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Addresses {
    buffers: [u64; 9],
    config: Config,
}

macro_rules! on_the_device {
    ($($ty:ty),*) => {
        $(
            // SAFETY: the fields are integers and floats without padding.
            unsafe impl bytemuck::Zeroable for $ty {}
            // SAFETY: as above.
            unsafe impl bytemuck::Pod for $ty {}
            // SAFETY: the type is `repr(C)` and has the fields of the struct in the source.
            unsafe impl DeviceRepr for $ty {}
        )*
    };
}

on_the_device!(Structure, Config, Addresses);

/// A batch on the host.
struct Host {
    atoms: Vec<f32>,
    ca: Vec<u32>,
    structures: Vec<Structure>,
    types: Vec<u8>,
    weights: Vec<f32>,
    factors: Vec<f32>,
    frequency: Vec<f32>,
    velocity: Vec<f32>,
}

/// A batch in device memory.
struct Packed {
    atoms: DeviceBuffer<f32>,
    ca: DeviceBuffer<u32>,
    structures: DeviceBuffer<Structure>,
    types: DeviceBuffer<u8>,
    weights: DeviceBuffer<f32>,
    factors: DeviceBuffer<f32>,
    frequency: DeviceBuffer<f32>,
    velocity: DeviceBuffer<f32>,
    out: DeviceBuffer<f32>,
}

const COUNT: usize = 37;
/// The numbers are small multiples of a power of two, so that sums are exact in any order.
const CONFIG: Config = Config {
    threshold: 4.0,
    scale: 0.5,
    n_structures: COUNT as u32,
    flags: 1,
};

impl Host {
    /// Makes structures of different sizes, stored one after another.
    fn new() -> Self {
        let mut host = Self {
            atoms: vec![],
            ca: vec![],
            structures: vec![],
            types: vec![],
            weights: vec![],
            factors: vec![],
            frequency: vec![],
            velocity: vec![],
        };
        for index in 0..COUNT as u32 {
            let (n_atoms, n_residues) = (3 + index * 7 % 19, index % 5);
            host.structures.push(Structure {
                atoms: host.atoms.len() as u32 / 3,
                ca: host.ca.len() as u32,
                n_atoms,
                n_residues,
            });
            let number = |i: u32| ((index * 31 + i * 17) % 32) as f32 * 0.25;
            host.atoms.extend((0..3 * n_atoms).map(number));
            for i in 0..n_residues {
                host.ca.push((i * 2) % n_atoms);
                host.types.push((index + i) as u8);
                host.weights.push(number(i + 1));
                host.factors.push(number(i + 2));
            }
            host.frequency.push(number(3));
            host.velocity.push(number(4));
        }
        host
    }

    /// Computes on the host what the kernel writes to `out`.
    fn scores(&self, out: &[f32]) -> Vec<f32> {
        let of = |(s, structure): (usize, &Structure)| {
            let atom = |i: u32, axis: usize| self.atoms[3 * (structure.atoms + i) as usize + axis];
            let xs = (0..structure.n_atoms).map(|i| atom(i, 0));
            let near: f32 = xs.filter(|x| *x > CONFIG.threshold).sum();
            let residues = (structure.ca..structure.ca + structure.n_residues).map(|r| r as usize);
            let rest: f32 = residues
                .map(|r| {
                    f32::from(self.types[r])
                        + self.weights[r] * self.factors[r]
                        + atom(self.ca[r], 1)
                })
                .sum();
            (near + rest) * CONFIG.scale + self.frequency[s] - self.velocity[s] + out[s]
        };
        self.structures.iter().enumerate().map(of).collect()
    }

    fn upload(&self, stream: &Stream) -> Packed {
        fn up<T: DeviceRepr>(stream: &Stream, from: &[T]) -> DeviceBuffer<T> {
            DeviceBuffer::from_host(stream, from).unwrap()
        }
        Packed {
            atoms: up(stream, &self.atoms),
            ca: up(stream, &self.ca),
            structures: up(stream, &self.structures),
            types: up(stream, &self.types),
            weights: up(stream, &self.weights),
            factors: up(stream, &self.factors),
            frequency: up(stream, &self.frequency),
            velocity: up(stream, &self.velocity),
            out: up(stream, &[1.0; COUNT]),
        }
    }
}

impl Packed {
    fn addresses(&self) -> Addresses {
        Addresses {
            buffers: [
                self.out.as_raw(),
                self.atoms.as_raw(),
                self.ca.as_raw(),
                self.structures.as_raw(),
                self.types.as_raw(),
                self.weights.as_raw(),
                self.factors.as_raw(),
                self.frequency.as_raw(),
                self.velocity.as_raw(),
            ],
            config: CONFIG,
        }
    }
}

#[track_caller]
fn compiled(fixture: &Fixture) -> Option<Module> {
    let nvrtc = nvrtc()?;
    let program = Program::new(&nvrtc, SOURCE).name("batch.cu");
    Some(Module::compile(&fixture.context, &program, &Options::new()).unwrap())
}

#[test]
fn a_batch_of_many_buffers_and_a_struct_is_one_launch() {
    for fixture in everywhere() {
        let Some(module) = compiled(&fixture) else {
            return;
        };
        let kernel = module.function("by_arguments").unwrap();
        let host = Host::new();
        let mut packed = host.upload(&fixture.stream());
        let Packed {
            atoms,
            ca,
            structures,
            types,
            weights,
            factors,
            frequency,
            velocity,
            out,
        } = &mut packed;
        let args = (
            out,
            &*atoms,
            &*ca,
            &*structures,
            &*types,
            &*weights,
            &*factors,
            &*frequency,
            &*velocity,
            CONFIG,
        );
        // SAFETY: the arguments match the kernel's parameters, and the structures lie within the
        // buffers.
        unsafe {
            fixture
                .stream()
                .launch(&kernel, LaunchConfig::new(COUNT as u32, 32), args)
        }
        .unwrap();
        let expected = host.scores(&[1.0; COUNT]);
        assert_eq!(packed.out.to_vec().unwrap(), expected, "{}", fixture.name);
    }
}

#[test]
fn buffers_with_addresses_in_structs_are_ordered() {
    for fixture in everywhere() {
        let Some(module) = compiled(&fixture) else {
            return;
        };
        let kernel = module.function("by_struct").unwrap();
        let typed: Kernel<(Addresses,)> = kernel.typed().unwrap();
        let config = LaunchConfig::new(COUNT as u32, 32);
        let host = Host::new();
        let mut packed = host.upload(&fixture.stream());
        let mut expected = vec![1.0; COUNT];
        for round in 0..9 {
            let addresses = packed.addresses();
            let Packed {
                atoms,
                ca,
                structures,
                types,
                weights,
                factors,
                frequency,
                velocity,
                out,
            } = &mut packed;
            // Every launch is on its own stream: only the uses declared here order the launches.
            let stream = fixture.stream();
            let memory = (
                &mut *out,
                &*atoms,
                &*ca,
                &*structures,
                &*types,
                &*weights,
                &*factors,
                &*frequency,
                &*velocity,
            );
            match round % 3 {
                0 => {
                    let args = Using::new((addresses,), memory);
                    // SAFETY: the kernel takes the struct, and its addresses are those of the
                    // declared memory.
                    unsafe { stream.launch(&kernel, config, args) }.unwrap();
                }
                1 => {
                    let args = Using::new((addresses,), memory);
                    // SAFETY: as above.
                    unsafe { typed.launch(&stream, config, args) }.unwrap();
                }
                _ => {
                    let mut list = ArgList::new();
                    list.push(addresses).uses(out).uses(&*atoms).uses(&*ca);
                    list.uses(&*structures).uses(&*types).uses(&*weights);
                    list.uses(&*factors).uses(&*frequency).uses(&*velocity);
                    assert_eq!(list.len(), 1);
                    // SAFETY: as above.
                    unsafe { stream.launch(&kernel, config, &list) }.unwrap();
                }
            }
            expected = host.scores(&expected);
        }
        assert_eq!(packed.out.to_vec().unwrap(), expected, "{}", fixture.name);
    }
}
