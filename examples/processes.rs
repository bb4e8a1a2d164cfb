//! Teaches: memory and events that two processes share.
//!
//! The program starts itself as a second process, whose standard input is a pool of device memory.
//! The second process multiplies the elements of a buffer of the first one. Two events order the
//! work of both.
//!
//! Prints the number of verified elements.
//!
//! `cargo run -p examples --example processes`

use examples::Result;

const SOURCE: &str = r#"
extern "C" __global__ void scale(float a, float *x, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= a;
}
"#;

#[cfg(target_os = "linux")]
mod shared {
    use std::env;
    use std::io::{BufRead, BufReader, stdin};
    use std::os::fd::AsFd;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use cuda_driver::event::IpcEventHandle;
    use cuda_driver::memory::{ImportedPool, MemoryHandle, MemoryPool, PoolPointer};
    use cuda_driver::prelude::*;
    use examples::{Result, Session, verify};

    use super::SOURCE;

    const N: usize = 100_000;
    const LIMIT: Duration = Duration::from_secs(30);

    /// The process that owns the memory.
    pub(super) fn first() -> Result<()> {
        let session = Session::open()?;
        let (context, stream) = (&session.context, &session.stream);
        let pool = MemoryPool::exportable(&session.device)?;
        // The pool is exported before its memory, as CUDA requires.
        let descriptor = pool.export()?;
        let x: Vec<f32> = (0..N).map(|i| (i % 1000) as f32).collect();
        let buffer = DeviceBuffer::from_host_in(&pool, stream, &x)?.export()?;
        let MemoryHandle::Pool(pointer) = buffer.handle() else {
            return Err("the memory does not come from a pool".into());
        };

        // The second process waits for `ready`, and records `done`.
        let (ready, done) = (Event::interprocess(context)?, Event::interprocess(context)?);
        ready.record(stream)?;
        let handles = [
            hex(&pointer.to_bytes()),
            hex(&ready.ipc_handle()?.to_bytes()),
            hex(&done.ipc_handle()?.to_bytes()),
        ];
        let mut second = Command::new(env::current_exe()?)
            .args(handles)
            .stdin(Stdio::from(descriptor))
            .stdout(Stdio::piped())
            .spawn()?;

        // The message says that `done` was recorded. A wait before that would wait for nothing.
        let output = second.stdout.take().ok_or("no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line.trim() != "recorded" {
            return Err(format!("the second process: {:?}", second.wait()?).into());
        }
        // Only the host waits, and with a limit: the other process could be killed.
        if !done.synchronize_timeout(LIMIT)? {
            return Err("the second process does not complete its work".into());
        }
        let reference: Vec<f32> = x.iter().map(|x| 2.5 * x).collect();
        verify(
            "scaled by another process",
            &buffer.to_vec()?,
            &reference,
            0.0,
        )?;

        if !second.wait()?.success() {
            return Err("the second process has failed".into());
        }
        // SAFETY: no process has the memory open ← the only other one has ended.
        let buffer = unsafe { buffer.reclaim() };
        Ok(buffer.close()?)
    }

    /// The process that opens the memory.
    pub(super) fn second(handles: &[String]) -> Result<()> {
        let [pointer, ready, done] = handles else {
            return Err("expected three handles".into());
        };
        let driver = Driver::new(cuda_sim::gpu_or_software()?.into_library())?;
        let device = driver.device(0)?;
        let context = device.primary_context()?;
        let stream = context.default_stream()?;
        let kernel = SafeModule::from_source(&context, SOURCE)?.kernel("scale")?;

        let [ready, done] = [ready, done].map(|text| -> Result<Event> {
            let handle = IpcEventHandle::from_bytes(bytes(text)?);
            // SAFETY: the event exists as long as this process has it ← the first process destroys
            // it when this one has ended.
            Ok(unsafe { Event::open_ipc(&context, &handle) }?)
        });
        let (ready, done) = (ready?, done?);
        // SAFETY: the handle is one of a pool ← the first process passes it as standard input.
        let pool = unsafe { ImportedPool::import(&device, stdin().as_fd()) }?;
        let pointer = PoolPointer::from_bytes(bytes(pointer)?);
        // SAFETY: the memory has `N` floats, and is not freed before it is closed; the first
        // process uses it before `ready` and after `done` only ← the function `first` does that.
        let mut buffer: DeviceBuffer<f32> = unsafe { pool.open(&stream, &pointer, N) }?;

        stream.wait(&ready)?;
        let n = u32::try_from(N)?;
        stream.launch_safe(
            &kernel,
            LaunchConfig::for_num_elems(n)?,
            (2.5_f32, &mut buffer, n),
        )?;
        done.record(&stream)?;
        println!("recorded");

        // Closes the memory behind the kernel, and waits for that.
        buffer.close()?;
        stream.synchronize()?;
        Ok(())
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn bytes(hex: &str) -> Result<[u8; 64]> {
        let mut bytes = [0; 64];
        for (index, byte) in bytes.iter_mut().enumerate() {
            let digits = hex.get(2 * index..2 * index + 2).ok_or("too few digits")?;
            *byte = u8::from_str_radix(digits, 16)?;
        }
        Ok(bytes)
    }
}

#[cfg(target_os = "linux")]
fn main() -> Result<()> {
    let handles: Vec<String> = std::env::args().skip(1).collect();
    if handles.is_empty() {
        shared::first()
    } else {
        shared::second(&handles)
    }
}

/// On Windows a handle is passed in another way, and other systems have no CUDA.
#[cfg(not(target_os = "linux"))]
fn main() -> Result<()> {
    let session = examples::Session::open()?;
    println!(
        "{:?}: no elements verified: this example needs Linux",
        session.device
    );
    let _ = SOURCE;
    Ok(())
}
