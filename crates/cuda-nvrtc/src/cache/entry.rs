//! The binary format of cache entries.
//!
//! An entry begins with the format's identifier and its key, and ends with the digest of all
//! preceding bytes. A truncated, altered or misplaced entry is therefore rejected.

use cuda_sys::image::{Parameter, ParameterKind, Signature};

use super::closure::Closure;
use super::image::Stored;
use super::paths;
use super::stamp::{Digest, Seen, Stamp, digest};
use crate::output::sealed::TOKEN;
use crate::{Compiled, Log, PchStatus};

/// The format identifier. It must change whenever the content or the meaning of entries changes.
const MAGIC: [u8; 16] = *b"cuda-nvrtc 0002\n";

/// The kinds of parameters. An entry holds the index of a kind in this list.
const KINDS: [ParameterKind; 6] = [
    ParameterKind::Unknown,
    ParameterKind::Bits,
    ParameterKind::Unsigned,
    ParameterKind::Signed,
    ParameterKind::Float,
    ParameterKind::Array,
];

const DIGEST: usize = size_of::<Digest>();

/// A compilation, and the files that it may have read.
#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) compiled: Compiled<T>,
    pub(super) closure: Closure,
}

impl<T: Stored> Entry<T> {
    pub(super) fn to_bytes(&self, key: &Digest) -> Vec<u8> {
        let Compiled {
            image,
            log,
            lowered_names,
            pch: _,
        } = &self.compiled;
        let mut body = Writer::default();
        body.bytes(image.stored_bytes(TOKEN));
        body.list(image.stored_signatures(TOKEN), |body, signatures| {
            body.list(signatures, |body, signature| {
                body.bytes(signature.kernel.as_bytes());
                body.list(&signature.parameters, |body, parameter| {
                    body.number(parameter.offset as u64);
                    body.number(parameter.size as u64);
                    body.number(
                        KINDS
                            .iter()
                            .position(|it| *it == parameter.kind)
                            .unwrap_or(0) as u64,
                    );
                    body.list(&parameter.name, |body, name| body.bytes(name.as_bytes()));
                });
            });
        });
        body.bytes(log.as_str().as_bytes());
        body.list(lowered_names, |body, (expression, name)| {
            body.bytes(expression.as_bytes());
            body.bytes(name.as_bytes());
        });
        body.list(&self.closure.files, |body, (path, seen)| {
            body.bytes(paths::to_bytes(path));
            body.0.extend_from_slice(&seen.digest);
            body.number(seen.size);
            body.list(&seen.stamp, |body, stamp| {
                stamp.0.iter().for_each(|&number| body.number(number));
            });
        });
        for paths in [&self.closure.absent, &self.closure.folders] {
            body.list(paths, |body, path| body.bytes(paths::to_bytes(path)));
        }
        seal(key, &body.0)
    }

    /// Parses the entry of `key`. Returns `None` unless `bytes` are what
    /// [`to_bytes`](Self::to_bytes) returned for this key.
    pub(super) fn from_bytes(key: &Digest, bytes: &[u8]) -> Option<Self> {
        let mut body = Reader(unseal(key, bytes)?);
        let image = body.bytes()?;
        let signatures = body.list(|body| {
            body.list(|body| {
                let kernel = body.string()?;
                let parameters = body.list(|body| {
                    let (offset, size) = (body.size()?, body.size()?);
                    let kind = *KINDS.get(body.size()?)?;
                    let name = body.list(Reader::string)?.pop();
                    Some(Parameter {
                        offset,
                        size,
                        kind,
                        name,
                    })
                })?;
                Some(Signature { kernel, parameters })
            })
        })?;
        // SAFETY: the bytes must be those of an image of this type, as the compiler generated it ←
        // the digest of the entry matches, and so does its key, which includes the kind of image.
        // So `to_bytes` wrote them, from an image that this crate read from NVRTC. Forging an entry
        // with a valid digest requires write access to the cache's folder, which only this user and
        // root have (`Store::open` checks it). They could equally well alter the compiler or this
        // program.
        let image =
            unsafe { T::from_stored(image.to_vec(), signatures.into_iter().next(), TOKEN) }?;
        let log = Log::new(body.bytes()?);
        let lowered_names = body.list(|body| Some((body.string()?, body.string()?)))?;
        let files = body.list(|body| {
            let path = paths::from_bytes(body.bytes()?)?;
            let digest = body.array::<DIGEST>()?;
            let size = body.number()?;
            let stamp = body.list(|body| {
                let mut numbers = [0; Stamp::LEN];
                for number in &mut numbers {
                    *number = body.number()?;
                }
                Some(Stamp(numbers))
            })?;
            let stamp = stamp.first().copied();
            Some((
                path,
                Seen {
                    digest,
                    size,
                    stamp,
                },
            ))
        })?;
        let mut paths = || body.list(|body| paths::from_bytes(body.bytes()?));
        let (absent, folders) = (paths()?, paths()?);
        Some(Self {
            compiled: Compiled {
                image,
                log,
                lowered_names,
                pch: PchStatus::NotAttempted,
            },
            closure: Closure {
                files,
                absent,
                folders,
            },
        })
    }
}

/// Wraps a body with the header and digest that [`unseal`] checks.
pub(super) fn seal(key: &Digest, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MAGIC.len() + 2 * DIGEST + 8 + body.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
    bytes.extend_from_slice(body);
    let sum = digest(&bytes);
    bytes.extend_from_slice(&sum);
    bytes
}

/// Returns the body that was sealed for `key`, if the bytes are complete and unaltered.
pub(super) fn unseal<'a>(key: &Digest, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let (sealed, sum) = bytes.split_last_chunk::<DIGEST>()?;
    if digest(sealed) != *sum {
        return None;
    }
    let mut reader = Reader(sealed);
    let known = reader.array()? == MAGIC && reader.array::<DIGEST>()? == *key;
    let body = reader.bytes()?;
    (known && reader.0.is_empty()).then_some(body)
}

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

    fn list<I>(&mut self, items: I, mut write: impl FnMut(&mut Self, I::Item))
    where
        I: IntoIterator<IntoIter: Clone>,
    {
        let items = items.into_iter();
        self.number(items.clone().count() as u64);
        items.for_each(|item| write(self, item));
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn size(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.size()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn string(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        (0..count).map(|_| read(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::closure::Closure;
    use super::super::stamp::{Seen, Stamp, digest};
    use super::{Entry, KINDS, Parameter, Signature, seal, unseal};
    use crate::{Compiled, Cubin, Log, Ptx};

    fn entry() -> Entry<Ptx> {
        let mut closure = Closure::default();
        for (name, stamp) in [("a.h", None), ("b.h", Some(Stamp([1, 2, 3, 4, 5, 6, 7])))] {
            let digest = digest(name.as_bytes());
            let seen = Seen {
                digest,
                size: 7,
                stamp,
            };
            closure.files.push((name.into(), seen));
        }
        closure.absent.push(PathBuf::from("/c"));
        closure
            .folders
            .extend([PathBuf::from("/d"), PathBuf::from("/e")]);
        Entry {
            compiled: Compiled {
                image: Ptx::new(".version 8.0").unwrap(),
                log: Log::new(b"a warning\n"),
                lowered_names: vec![("k<int>".to_owned(), "_Z1kIiEvv".to_owned())],
                pch: crate::PchStatus::NotAttempted,
            },
            closure,
        }
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let key = digest(b"key");
        let bytes = entry().to_bytes(&key);
        let back = Entry::<Ptx>::from_bytes(&key, &bytes).unwrap();
        assert_eq!(back.compiled, entry().compiled);
        assert_eq!(back.closure, entry().closure);
    }

    #[test]
    fn parameters_of_a_cubin_are_read_as_they_were_written() {
        let parameters = KINDS.iter().enumerate().map(|(index, kind)| Parameter {
            offset: 8 * index,
            size: 4,
            kind: *kind,
            name: (index % 2 == 0).then(|| format!("p{index}")),
        });
        let signature = Signature {
            kernel: "k".to_owned(),
            parameters: parameters.collect(),
        };
        // SAFETY: the bytes must be a complete cubin if a driver loads them ← no driver loads them.
        let image = unsafe { Cubin::from_bytes(vec![1, 2, 3]) };
        // SAFETY: the signatures must be those of the cubin if it is launched ← it is not.
        let image = unsafe { image.with_signatures(Some(vec![signature])) };
        let Entry { compiled, closure } = entry();
        let entry = Entry {
            compiled: Compiled {
                image,
                log: compiled.log,
                lowered_names: compiled.lowered_names,
                pch: compiled.pch,
            },
            closure,
        };
        let key = digest(b"key");
        let back = Entry::<Cubin>::from_bytes(&key, &entry.to_bytes(&key)).unwrap();
        assert_eq!(back.compiled, entry.compiled);
    }

    #[test]
    fn other_bytes_are_not_an_entry() {
        let key = digest(b"key");
        let bytes = entry().to_bytes(&key);
        let read = |bytes: &[u8]| Entry::<Ptx>::from_bytes(&key, bytes);
        assert!(Entry::<Ptx>::from_bytes(&digest(b"other"), &bytes).is_none());
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_none(), "cut to {length}");
        }
        for at in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut altered = bytes.clone();
                altered[at] ^= flip;
                assert!(read(&altered).is_none(), "altered at {at}");
            }
        }
        assert!(read(&[bytes.as_slice(), b"\0"].concat()).is_none());
        assert!(read(&[bytes.as_slice(), &bytes].concat()).is_none());
    }

    #[test]
    fn a_sealed_body_that_makes_no_sense_is_no_entry() {
        let key = digest(b"key");
        for body in [&b""[..], b"\x01", &[0xff; 8], &[0xff; 64]] {
            let sealed = seal(&key, body);
            assert_eq!(unseal(&key, &sealed), Some(body));
            assert!(Entry::<Ptx>::from_bytes(&key, &sealed).is_none());
        }
    }
}
