//! Teaches: memory and semaphores of another API.
//!
//! A compute shader of Vulkan writes a buffer. CUDA waits for a semaphore of Vulkan; then a kernel
//! reads this buffer, and writes it. Vulkan waits for a semaphore that CUDA signals, and reads the
//! buffer back. No data is copied between the two. Frames alternate between stream calls and a
//! graph. The device of Vulkan is found by its UUID. Without one, the program says why it is
//! skipped.
//!
//! On a machine without a display, Vulkan may find no driver. It does if `VK_DRIVER_FILES` names a
//! file whose `library_path` is `libEGL_nvidia.so.0`.
//!
//! Prints the number of verified elements, for each API.
//!
//! `cargo run -p examples --example vulkan`

use examples::Result;

#[cfg(target_os = "linux")]
#[path = "vulkan/device.rs"]
mod device;

#[cfg(target_os = "linux")]
#[path = "vulkan/frame.rs"]
mod frame;

#[cfg(target_os = "linux")]
#[path = "vulkan/shader.rs"]
mod shader;

#[cfg(target_os = "linux")]
fn main() -> Result<()> {
    cuda::run()
}

#[cfg(not(target_os = "linux"))]
fn main() -> Result<()> {
    let session = examples::Session::open()?;
    println!(
        "skipped: {} exports no file descriptors here",
        session.device.name()?
    );
    Ok(())
}

#[cfg(target_os = "linux")]
mod cuda {
    use std::sync::Arc;

    use cuda_driver::memory::{ExternalMemory, ExternalMemoryFlags};
    use cuda_driver::prelude::*;
    use cuda_driver::stream::ExternalSemaphore;
    use examples::{Result, Session, verify_equal};

    use crate::device::Vulkan;
    use crate::frame::Frames;

    const SOURCE: &str = r#"
    extern "C" __global__ void take(unsigned *shared, unsigned *own, unsigned n) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        own[i] = shared[i];
        shared[i] = 2 * shared[i] + i;
    }
    "#;

    /// The number of elements: a multiple of the 64 invocations of a workgroup.
    const N: u32 = 1 << 20;
    const FRAMES: u32 = 8;

    /// The words that the shader writes in a frame.
    fn written(frame: u32) -> Vec<u32> {
        (0..N)
            .map(|i| i.wrapping_mul(3).wrapping_add(frame))
            .collect()
    }

    pub(super) fn run() -> Result<()> {
        let session = Session::open()?;
        let (context, stream) = (&session.context, &session.stream);
        let vulkan = match Vulkan::open(session.device.uuid()?)? {
            Ok(vulkan) => vulkan,
            Err(reason) => {
                println!("skipped: {reason}");
                return Ok(());
            }
        };
        println!("Vulkan: {}", vulkan.name());
        let frames = Frames::new(&vulkan, N)?;

        let (handle, bytes) = frames.export_memory()?;
        let flags = ExternalMemoryFlags::DEDICATED;
        // SAFETY: the handle is one of a dedicated allocation of this device, with as many bytes.
        // The shader writes all elements before the kernel reads them, and the semaphores order all
        // accesses of both APIs. `frames` frees the memory, and is dropped after the buffer.
        let memory = unsafe { ExternalMemory::import(context, handle, bytes, flags) }?;
        // SAFETY: the handle is one of a binary semaphore of this device. Vulkan signals it once in
        // each frame, and CUDA waits for it before the next one.
        let written_semaphore =
            unsafe { ExternalSemaphore::import_binary(context, frames.export_written()?) }?;
        // SAFETY: the handle is one of a timeline semaphore of this device. Only CUDA signals it,
        // with the number of the frame, which increases.
        let taken_semaphore =
            unsafe { ExternalSemaphore::import_timeline(context, frames.export_taken()?) }?;
        let (written_semaphore, taken_semaphore) =
            (Arc::new(written_semaphore), Arc::new(taken_semaphore));

        let mut shared = memory.map::<u32>(stream, 0, N as usize)?;
        let mut own = DeviceBuffer::<u32>::zeroed(stream, N as usize)?;
        let take = session.load("vulkan.cu", SOURCE)?.kernel("take")?;
        let config = LaunchConfig::for_num_elems(N)?;

        // The graph makes the same calls as an odd frame does below.
        let mut signals = None;
        let graph = Graph::capture(context, |scope| {
            scope.external_wait(&written_semaphore, 0)?;
            scope.launch_safe(&take, config, (&mut shared, &mut own, N))?;
            signals = Some(scope.external_signal(&taken_semaphore, 1)?);
            Ok(())
        })?;
        let exec = graph.instantiate()?;
        let signals = signals.ok_or("the graph has no signal")?;

        for frame in 1..=FRAMES {
            frames.write(frame)?;
            let value = u64::from(frame);
            if frame % 2 == 1 {
                stream.wait_external(&written_semaphore, 0)?;
                stream.launch_safe(&take, config, (&mut shared, &mut own, N))?;
                stream.signal_external(&taken_semaphore, value)?;
            } else {
                exec.set_external_signal(signals, &taken_semaphore, value)?;
                exec.launch(stream)?;
            }
            let read = frames.read(value)?;
            let expected = written(frame);
            verify_equal("read by CUDA", &own.to_vec()?, &expected)?;
            let expected: Vec<u32> = (0..N)
                .zip(expected)
                .map(|(i, x)| x.wrapping_mul(2).wrapping_add(i))
                .collect();
            verify_equal("read by Vulkan", &read, &expected)?;
        }
        // CUDA gives up the memory before Vulkan frees it.
        drop((exec, graph));
        shared.close()?;
        memory.close()?;
        Ok(())
    }
}
