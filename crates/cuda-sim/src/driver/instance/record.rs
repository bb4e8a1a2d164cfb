//! The log of launches (`CUDA_SIM_LAUNCHES`), from which a tool reads the values that a program
//! launches its kernels with.

use std::collections::HashSet;
use std::env;
use std::fs::File;
use std::io::Write as _;
use std::sync::{Mutex, Once, OnceLock};

use crate::driver::objects::function::Function;
use crate::driver::objects::launch::Shape;
use crate::lock::lock;

use super::Instance;

/// The environment variable with the path of a file that receives the launches of a process.
const FILE_VARIABLE: &str = "CUDA_SIM_LAUNCHES";
/// The base-2 logarithm of the largest alignment in the record.
const MAX_ALIGN_LOG2: u32 = 8;

/// The file, and the lines that this process has written to it.
struct Record {
    file: File,
    written: Mutex<HashSet<String>>,
    /// Prints the first error.
    failed: Once,
}

impl Instance {
    /// Appends a launch, or a kernel node of a graph, as one line to the file that
    /// `CUDA_SIM_LAUNCHES` names, if it is set. A process writes equal lines once. The README of
    /// the crate describes the line.
    pub(in crate::driver) fn record(&self, function: &Function, shape: Shape, params: &[u8]) {
        static RECORD: OnceLock<Option<Record>> = OnceLock::new();
        let record = RECORD.get_or_init(|| {
            let path = env::var_os(FILE_VARIABLE).filter(|path| !path.is_empty())?;
            match File::options().append(true).create(true).open(&path) {
                Ok(file) => Some(Record {
                    file,
                    written: Mutex::default(),
                    failed: Once::new(),
                }),
                Err(error) => {
                    let path = path.display();
                    eprintln!("cuda-sim: cannot open {path}, which {FILE_VARIABLE} names: {error}");
                    None
                }
            }
        });
        let Some(record) = record else {
            return;
        };
        let Some(line) = self.line(function, shape, params) else {
            return;
        };
        if lock(&record.written).insert(line.clone()) {
            // One write for each line, so that the lines of several processes do not mix. An error
            // is printed, because a launch must not fail because of the record.
            if let Err(error) = (&record.file).write_all(line.as_bytes()) {
                record.failed.call_once(|| {
                    eprintln!(
                        "cuda-sim: cannot write to the file that {FILE_VARIABLE} names, so launches \
                         are missing there: {error}"
                    );
                });
            }
        }
    }

    fn line(&self, function: &Function, shape: Shape, params: &[u8]) -> Option<String> {
        let kernel = function.kernel().ok()?;
        let list = |sizes: [u32; 3]| sizes.map(|size| size.to_string()).join(",");
        let arguments = kernel.params.iter().map(|param| {
            let start = param.offset as usize;
            let bytes = params.get(start..start + param.size as usize)?;
            let words: Vec<String> = bytes.chunks(8).map(|word| self.word(word)).collect();
            Some(words.join("+"))
        });
        let arguments: Option<Vec<String>> = arguments.collect();
        let kernels = function.module.code.program.kernels().iter();
        let kernels: Vec<&str> = kernels.map(|kernel| kernel.name.as_str()).collect();
        let texts = function.module.code.texts.iter();
        let texts: Vec<String> = texts.map(ToString::to_string).collect();
        let program = env::current_exe().ok();
        let program = program.as_ref().and_then(|path| path.file_stem());
        Some(format!(
            "{} grid={} block={} shared={} arguments={} ptx={} kernels={} program={}\n",
            kernel.name,
            list(shape.grid),
            list(shape.block),
            shape.shared,
            arguments?.join(","),
            texts.join(","),
            kernels.join(","),
            program.unwrap_or_default().display(),
        ))
    }

    /// An address as the number of bytes from there to the end of its allocation, and its
    /// alignment. Any other word as a number.
    fn word(&self, bytes: &[u8]) -> String {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let number = u64::from_le_bytes(word);
        let room = match bytes.len() {
            8 => self.find_allocation(number, |start, found| start + found.size - number),
            _ => None,
        };
        match room {
            Some(room) => {
                let align = 1_u32 << number.trailing_zeros().min(MAX_ALIGN_LOG2);
                format!("[{room}/{align}]")
            }
            None => format!("{number}:{}", bytes.len()),
        }
    }
}
