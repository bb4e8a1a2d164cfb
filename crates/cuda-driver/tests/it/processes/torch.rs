//! PyTorch as the other process.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use cuda_driver::event::IpcEventHandle;
use cuda_driver::memory::{IpcMemoryHandle, MemoryHandle, Unpooled};
use cuda_driver::prelude::*;

use super::{LIMIT, Place};
use crate::support::skipped;

const SCRIPT: &str = include_str!("torch.py");
const N: u32 = 100_000;

struct Torch {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Torch {
    /// Starts Python, unless it has no PyTorch with CUDA.
    fn start() -> Option<Self> {
        let python = env::var("PYTHON").unwrap_or_else(|_| String::from("python3"));
        let mut child = Command::new(python)
            .args(["-c", SCRIPT, &N.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut torch = Self {
            input: child.stdin.take()?,
            output: BufReader::new(child.stdout.take()?),
            child,
        };
        let ready = torch.receive();
        println!("note: {}", ready.join(" "));
        if ready.first().is_some_and(|word| word == "ready") {
            return Some(torch);
        }
        let _ = torch.child.wait();
        None
    }

    fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        self.input.flush().unwrap();
    }

    fn receive(&mut self) -> Vec<String> {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.split_whitespace().map(String::from).collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> [u8; 64] {
    let byte = |index| u8::from_str_radix(&hex[2 * index..][..2], 16).unwrap();
    std::array::from_fn(byte)
}

#[test]
fn pytorch_shares_tensors_in_both_directions_on_a_gpu() {
    let Some(fixture) = Place::Gpu.open() else {
        return;
    };
    let Some(mut torch) = Torch::start() else {
        return skipped("PyTorch as the other process: there is no PyTorch with CUDA");
    };
    let stream = fixture.stream();

    // A tensor of PyTorch: this process reads it and doubles it.
    let words = torch.receive();
    let [handle, size, offset, event] = &words[..] else {
        panic!("{words:?}");
    };
    let len = size.parse::<usize>().unwrap() / 4;
    let event = IpcEventHandle::from_bytes(bytes(event));
    // SAFETY: the event is alive until PyTorch receives the message below.
    let event = unsafe { Event::open_ipc(&fixture.context, &event) }.unwrap();
    stream.wait(&event).unwrap();
    let handle = IpcMemoryHandle::from_bytes(bytes(handle));
    let offset = offset.parse().unwrap();
    // SAFETY: PyTorch keeps the tensor and does not use it until it receives the message below.
    let mut tensor = unsafe { handle.open::<u32>(&stream, offset, len) }.unwrap();
    let got = tensor.to_vec().unwrap();
    assert!((0..N).all(|index| got[index as usize] == 3 * index + 1));
    let doubled: Vec<u32> = got.iter().map(|word| 2 * word).collect();
    tensor.copy_from_host(&doubled).unwrap();
    stream.synchronize().unwrap();
    tensor.close().unwrap();
    event.close().unwrap();
    torch.send("done");
    assert_eq!(torch.receive(), ["ok"], "PyTorch sees the doubled values");

    // A buffer of this process: PyTorch reads it and multiplies it by 5.
    let values: Vec<u32> = (0..N).map(|index| index ^ 0x55).collect();
    let buffer = DeviceBuffer::from_host_in(&Unpooled, &stream, &values).unwrap();
    let buffer = buffer.export().unwrap();
    let MemoryHandle::Ipc(handle) = *buffer.handle() else {
        panic!("{:?}", buffer.handle());
    };
    let event = Event::interprocess(&fixture.context).unwrap();
    event.record(&stream).unwrap();
    let own = event.ipc_handle().unwrap();
    let (memory, own) = (hex(&handle.to_bytes()), hex(&own.to_bytes()));
    torch.send(&format!("{memory} {} {own}", 4 * N));
    assert_eq!(torch.receive(), ["ok"], "PyTorch sees the values");
    assert_eq!(torch.receive(), ["closed"]);
    let times: Vec<u32> = values.iter().map(|value| 5 * value).collect();
    assert_eq!(buffer.to_vec().unwrap(), times);
    assert!(stream.synchronize_timeout(LIMIT).unwrap());
    // SAFETY: PyTorch has closed the memory.
    drop(unsafe { buffer.reclaim() });
    println!(
        "{}: note: both directions with PyTorch, {N} words",
        fixture.name
    );
    drop(torch.input);
    assert!(torch.child.wait().unwrap().success());
}
