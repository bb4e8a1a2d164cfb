//! The exchange of data between ranks: each writes a file for each operation, and reads those of
//! the others.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The files of one communicator.
#[derive(Debug)]
pub(crate) struct Exchange {
    folder: PathBuf,
    id: String,
    rank: usize,
    ranks: usize,
}

impl Exchange {
    pub(crate) fn new(id: String, rank: usize, ranks: usize) -> Self {
        let folder = std::env::var_os("FAKE_NCCL_DIR").expect("FAKE_NCCL_DIR is set");
        Self {
            folder: folder.into(),
            id,
            rank,
            ranks,
        }
    }

    fn file(&self, rank: usize, operation: u32) -> PathBuf {
        self.folder.join(format!("{}-{operation}-{rank}", self.id))
    }

    /// Adds the data of all ranks. Returns `None` if it is aborted before the others have sent
    /// theirs.
    pub(crate) fn sum(
        &self,
        operation: u32,
        own: &[f32],
        is_aborted: &AtomicBool,
    ) -> Option<Vec<f32>> {
        let file = self.file(self.rank, operation);
        let bytes: Vec<u8> = own.iter().flat_map(|it| it.to_le_bytes()).collect();
        // The others must not read half of the file.
        let part = file.with_extension("part");
        fs::write(&part, bytes).expect("a file is written");
        fs::rename(&part, &file).expect("a file is renamed");
        let mut sum = vec![0.0; own.len()];
        for rank in 0..self.ranks {
            let bytes = loop {
                if is_aborted.load(Ordering::SeqCst) {
                    return None;
                }
                match fs::read(self.file(rank, operation)) {
                    Ok(bytes) => break bytes,
                    Err(_) => thread::sleep(Duration::from_micros(200)),
                }
            };
            for (sum, bytes) in sum.iter_mut().zip(bytes.chunks_exact(4)) {
                *sum += f32::from_le_bytes(bytes.try_into().expect("four bytes"));
            }
        }
        // All ranks have read the files of the operation before.
        if let Some(before) = operation.checked_sub(1) {
            let _ = fs::remove_file(self.file(self.rank, before));
        }
        Some(sum)
    }
}
