//! Work of a C library between kernels of this crate, while other threads use the same buffers on
//! other streams: cuBLAS on a GPU, a raw copy on the software device.

use std::env;
use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::RwLock;
use std::thread;

use cuda_driver::error::Status;
use cuda_driver::prelude::*;
use cuda_sys::{CUdeviceptr, CUstream};
use libloading::Library;

use crate::support::{Fixture, gpu, late, software};

const KERNELS: &str = include_str!("kernels/steps.ptx");

type Handle = *mut c_void;
type Create = unsafe extern "C" fn(*mut Handle) -> c_int;
type SetStream = unsafe extern "C" fn(Handle, CUstream) -> c_int;
type Sgemm = unsafe extern "C" fn(
    Handle,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const f32,
    CUdeviceptr,
    c_int,
    CUdeviceptr,
    c_int,
    *const f32,
    CUdeviceptr,
    c_int,
) -> c_int;

/// cuBLAS, loaded at run time.
struct Cublas {
    context: Context,
    handle: Handle,
    library: Library,
}

impl Cublas {
    /// Loads cuBLAS by its name, or from the toolkit.
    fn load(context: &Context) -> Result<Self, libloading::Error> {
        let toolkit = env::var_os("CUDA_PATH").unwrap_or_else(|| "/usr/local/cuda".into());
        let folder = Path::new(&toolkit).join("lib64");
        let open = |name: &str| {
            let places = [PathBuf::from(name), folder.join(name)];
            let [by_name, in_toolkit] = places.map(|place| {
                // SAFETY: the initializers of the file must be sound ← it is NVIDIA's library.
                unsafe { Library::new(place) }
            });
            by_name.or(in_toolkit)
        };
        // The loader need not find this dependency of cuBLAS itself.
        let _loaded = open("libcublasLt.so.13").or_else(|_| open("libcublasLt.so.12"));
        let library = open("libcublas.so.13").or_else(|_| open("libcublas.so.12"))?;
        let mut handle = ptr::null_mut();
        {
            // SAFETY: the type must be that of the function ← it is from `cublas_v2.h`.
            let create = unsafe { library.get::<Create>(b"cublasCreate_v2\0") }?;
            let _current = context.make_current().unwrap();
            // SAFETY: the pointer is to a local, and a context is current.
            assert_eq!(unsafe { create(&raw mut handle) }, 0);
        }
        Ok(Self {
            context: context.clone(),
            handle,
            library,
        })
    }

    /// Queues the product of two square matrices.
    fn multiply(&self, a: CUdeviceptr, b: CUdeviceptr, c: CUdeviceptr, n: c_int, stream: CUstream) {
        let _current = self.context.make_current().unwrap();
        // SAFETY: the type must be that of the function ← it is from `cublas_v2.h`.
        let set = unsafe { self.library.get::<SetStream>(b"cublasSetStream_v2\0") }.unwrap();
        // SAFETY: the handle and the stream are alive.
        assert_eq!(unsafe { set(self.handle, stream) }, 0);
        // SAFETY: as above.
        let sgemm = unsafe { self.library.get::<Sgemm>(b"cublasSgemm_v2\0") }.unwrap();
        let (one, zero) = (1.0, 0.0);
        // SAFETY: the matrices have n × n floats, and the factors are locals.
        let status = unsafe {
            sgemm(
                self.handle,
                0,
                0,
                n,
                n,
                n,
                &raw const one,
                a,
                n,
                b,
                n,
                &raw const zero,
                c,
                n,
            )
        };
        assert_eq!(status, 0);
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        let _current = self.context.make_current().unwrap();
        // SAFETY: the type must be that of the function ← it is from `cublas_v2.h`.
        let destroy = unsafe {
            self.library
                .get::<unsafe extern "C" fn(Handle) -> c_int>(b"cublasDestroy_v2\0")
        };
        // SAFETY: the handle is alive, and not used afterwards.
        assert_eq!(unsafe { destroy.unwrap()(self.handle) }, 0);
    }
}

/// Matrices that all threads use: `c` is `a` times the identity, and both are full of `value`.
struct Matrices {
    a: DeviceBuffer<f32>,
    identity: DeviceBuffer<f32>,
    c: DeviceBuffer<f32>,
    value: f32,
}

/// Counts the elements of `of` that are not `value`, on a stream.
fn expect(
    kernel: &Function,
    stream: &Stream,
    of: &DeviceBuffer<f32>,
    value: f32,
    wrong: &mut DeviceBuffer<u32>,
) {
    let len = u32::try_from(of.len()).unwrap();
    let config = LaunchConfig::for_num_elems(len).unwrap();
    // SAFETY: the kernel reads `len` floats and updates one word.
    unsafe { stream.launch(kernel, config, (of, value, wrong, len)) }.unwrap();
}

/// Runs `rounds` rounds of kernel, foreign work and kernel, and returns the number of wrong
/// elements that each thread has seen.
fn run(fixture: &Fixture, side: u32, rounds: u32, cublas: Option<&Cublas>) -> Vec<u32> {
    let table = fixture.context.driver().library().clone();
    let module = Module::load(&fixture.context, &Ptx::new(KERNELS).unwrap()).unwrap();
    let [put, check] = ["put", "expect"].map(|name| module.function(name).unwrap());
    let streams: [Stream; 3] = std::array::from_fn(|_| fixture.stream());
    let [before, foreign, after] = &streams;
    let len = side * side;
    let mut identity = vec![0.0; len as usize];
    identity
        .iter_mut()
        .step_by(side as usize + 1)
        .for_each(|it| *it = 1.0);
    let shared = RwLock::new(Matrices {
        a: DeviceBuffer::zeroed(before, len as usize).unwrap(),
        identity: DeviceBuffer::from_host(foreign, &identity).unwrap(),
        c: DeviceBuffer::zeroed(after, len as usize).unwrap(),
        value: 0.0,
    });
    let round = |number: u32, wrong: &mut DeviceBuffer<u32>| {
        let mut guard = shared.write().unwrap();
        let matrices = &mut *guard;
        let value = (number % 1000) as f32;
        let config = LaunchConfig::for_num_elems(len).unwrap();
        // SAFETY: the kernel writes `len` floats.
        unsafe { before.launch(&put, config, (&mut matrices.a, value, len)) }.unwrap();
        let (a, b, c) = (
            matrices.a.as_raw(),
            matrices.identity.as_raw(),
            matrices.c.as_raw(),
        );
        let uses = (&matrices.a, &matrices.identity, &mut matrices.c);
        let queue = |raw| match cublas {
            Some(cublas) => cublas.multiply(a, b, c, side as c_int, raw),
            None => {
                // SAFETY: both have `len` floats, and the stream is alive.
                let status = unsafe { table.cuMemcpyDtoDAsync_v2(c, a, 4 * len as usize, raw) };
                assert_eq!(status, Status::CUDA_SUCCESS);
            }
        };
        // SAFETY: the work is queued on the stream, reads the first two and writes the last.
        unsafe { foreign.using(uses, queue) }.unwrap();
        expect(&check, after, &matrices.c, value, wrong);
        matrices.value = value;
    };
    let reader = || {
        let stream = fixture.stream();
        let mut wrong = DeviceBuffer::<u32>::zeroed(&stream, 2).unwrap();
        for _ in 0..rounds {
            let matrices = shared.read().unwrap();
            expect(&check, &stream, &matrices.c, matrices.value, &mut wrong);
            expect(&check, &stream, &matrices.a, matrices.value, &mut wrong);
            drop(matrices);
            thread::yield_now();
        }
        wrong.to_vec().unwrap()[0]
    };
    thread::scope(|scope| {
        let readers = [0, 1].map(|_| scope.spawn(reader));
        let mut wrong = DeviceBuffer::<u32>::zeroed(after, 2).unwrap();
        for number in 1..=rounds {
            round(number, &mut wrong);
        }
        let mut seen = vec![wrong.to_vec().unwrap()[0]];
        seen.extend(readers.map(|it| it.join().unwrap()));
        seen
    })
}

#[test]
fn foreign_work_between_kernels_beside_other_threads() {
    for seed in 0..4 {
        let fixture = software(late(seed));
        assert_eq!(run(&fixture, 16, 100, None), [0, 0, 0], "{}", fixture.name);
    }
}

#[test]
fn cublas_between_kernels_beside_other_threads() {
    let Some(fixture) = gpu() else { return };
    let cublas = Cublas::load(&fixture.context);
    let Some(cublas) = test_needs::found("cuBLAS", cublas) else {
        return;
    };
    assert_eq!(run(&fixture, 128, 10_000, Some(&cublas)), [0, 0, 0]);
}
