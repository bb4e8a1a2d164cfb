//! Results of tuning, stored as notes in the disk cache.

use std::time::Duration;

use cuda_nvrtc::Cache;

use super::choice::Choice;
use super::tuning::{Candidate, Outcome, Trial};
use crate::device::Device;
use crate::error::Result;

/// The owner of the notes. Change it whenever their format changes.
const OWNER: &[u8] = b"cuda-driver tuning 1";

const RAN: u64 = 1;
const FAILED: u64 = 0;

/// Returns the key of a result. The machine code in it represents the source, the headers, the
/// options and the compiler.
pub(super) fn key(
    device: &Device,
    facts: [&String; 3],
    choices: &[Choice<'_>],
    blocks: &[u32],
) -> Result<Vec<u8>> {
    let mut key = Writer::default();
    for fact in facts {
        key.bytes(fact.as_bytes());
    }
    let capability = device.compute_capability()?;
    key.bytes(device.name()?.as_bytes());
    key.number(u64::from(capability.major));
    key.number(u64::from(capability.minor));
    key.number(u64::from(device.driver().version().number()));
    key.number(blocks.len() as u64);
    for &block in blocks {
        key.number(u64::from(block));
    }
    for Choice { defines, cubin, .. } in choices {
        key.number(defines.len() as u64);
        for (name, value) in defines {
            key.bytes(name.as_bytes());
            key.bytes(value.as_bytes());
        }
        match cubin {
            Ok(cubin) => {
                key.number(RAN);
                key.bytes(cubin.image.as_bytes());
            }
            Err(error) => {
                key.number(FAILED);
                key.bytes(error.to_string().as_bytes());
            }
        }
    }
    Ok(key.0)
}

/// Reads the result stored for `key`, for these candidates.
pub(super) fn read(cache: &Cache, key: &[u8], candidates: &[Candidate]) -> Option<Vec<Trial>> {
    let bytes = cache.get_note(&[OWNER, key])?;
    let mut reader = Reader(&bytes);
    let mut trials = Vec::new();
    for candidate in candidates {
        let outcome = match reader.number()? {
            RAN => Outcome::Ran {
                least: Duration::from_nanos(reader.number()?),
                median: Duration::from_nanos(reader.number()?),
            },
            FAILED => Outcome::Failed(String::from_utf8(reader.bytes()?.to_vec()).ok()?),
            _ => return None,
        };
        let candidate = candidate.clone();
        trials.push(Trial { candidate, outcome });
    }
    reader.0.is_empty().then_some(trials)
}

/// Stores a result, in the order of the candidates. If that fails, the cache reports the reason,
/// and the next run times the candidates again.
pub(super) fn store(cache: &Cache, key: &[u8], trials: &[Trial]) {
    let mut note = Writer::default();
    let nanos = |time: &Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    for Trial { outcome, .. } in trials {
        match outcome {
            Outcome::Ran { least, median } => {
                note.number(RAN);
                note.number(nanos(least));
                note.number(nanos(median));
            }
            Outcome::Failed(reason) => {
                note.number(FAILED);
                note.bytes(reason.as_bytes());
            }
        }
    }
    cache.put_note(&[OWNER, key], &note.0);
}

/// Writes numbers, and byte strings with their lengths.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}
