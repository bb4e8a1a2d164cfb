//! Tensors that are exchanged with other code, which keeps its side of the protocol.

use std::ptr::NonNull;
use std::thread;

use cuda_driver::dlpack::{Consumer, DLManagedTensorVersioned, DlTensor};
use cuda_driver::prelude::*;

use crate::support::{Attack, Case};

/// A tensor that a consumer in C owns, on its stream.
struct Held {
    raw: NonNull<DLManagedTensorVersioned>,
    stream: Stream,
}

// SAFETY: the struct may be used from any thread, as DLPack requires.
unsafe impl Send for Held {}

impl Held {
    fn new(tensor: DlTensor, stream: &Stream) -> Self {
        Self {
            raw: tensor.into_raw(),
            stream: stream.clone(),
        }
    }

    /// Copies the words to `target` on the stream of the consumer.
    fn copy_to(&self, target: &mut DeviceBuffer<u32>) {
        // SAFETY: the tensor is valid until it is released.
        let from = unsafe { self.raw.as_ref() }.dl_tensor.data.addr() as u64;
        let (to, bytes) = (target.as_raw(), 4 * target.len());
        // SAFETY: both have as many bytes; the export has ordered the stream.
        unsafe { self.stream.copy_raw(to, from, bytes, (target,)) }.unwrap();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the tensor is valid, and released once.
        drop(unsafe { DlTensor::from_raw(self.raw) }.unwrap());
    }
}

fn exported(case: &Case, value: u32, consumer: &Stream) -> Held {
    let home = case.stream();
    let buffer = case.filled(&home, value);
    case.hold_up(&home);
    let tensor = buffer.into_dlpack(&[case.n], &Consumer::on(consumer));
    Held::new(tensor.unwrap(), consumer)
}

/// Claim: the memory of an exported buffer is not used again before the work that its consumer has
/// queued is complete, whichever thread releases it.
#[test]
fn released_tensors_outlive_the_work_of_the_consumer() {
    Attack::new().run(|case| {
        let stream = case.stream();
        for round in 0..4 {
            let held: Vec<Held> = (0..case.threads)
                .map(|at| exported(case, round * 10 + at as u32, &stream))
                .collect();
            case.hold_up(&stream);
            let mut results: Vec<_> = held.iter().map(|_| case.filled(&stream, 99)).collect();
            for (held, result) in held.iter().zip(&mut results) {
                held.copy_to(result);
            }
            thread::scope(|scope| {
                for held in held {
                    scope.spawn(move || drop(held));
                }
            });
            let next = case.filled(&case.stream(), 77);
            for (result, at) in results.iter().zip(0..) {
                case.expect(result, round * 10 + at);
            }
            drop(next);
        }
    });
}

/// Claim: an imported tensor is released after the uses of the buffer on all streams and threads.
#[test]
fn imported_tensors_are_released_after_their_uses() {
    Attack::new().run(|case| {
        let (stream, other) = (case.stream(), case.stream());
        let source = case.filled(&other, 5);
        let tensor = source
            .into_dlpack(&[case.n], &Consumer::on(&stream))
            .unwrap();
        // SAFETY: the export has ordered the stream, and no other code uses the memory.
        let imported = unsafe { tensor.into_buffer::<u32>(&stream) }.unwrap();
        let imported = imported.into_buffer().unwrap();
        let results: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..case.threads)
                .map(|_| {
                    scope.spawn(|| {
                        let own = case.stream();
                        let mut result = case.filled(&own, 0);
                        case.hold_up(&own);
                        let args = (&mut result, &imported, case.n as u32);
                        // SAFETY: the kernel uses `n` words of each ← both have as many.
                        unsafe { own.launch(case.mix_kernel(), case.config(), args) }.unwrap();
                        result
                    })
                })
                .collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        drop(imported);
        let next = case.filled(&other, 88);
        for result in &results {
            case.expect(result, 5);
        }
        drop(next);
    });
}
