//! The check of PTX text before a compiler gets it.

use cuda_sys::image::Ptx;

use crate::error::{Error, PtxError, Result};

const CUBIN: &str = "load it as `Cubin`, whose constructors are unsafe";
const FATBIN: &str = "load it as `Fatbin`, whose constructors are unsafe";
const COMPRESSED: &str = "decompress it first";
const UTF_8: &str = "convert it to UTF-8 without a byte order mark";

/// What bytes begin with that are no PTX text, and what to do. A driver recognizes the first three
/// by these bytes, whatever the caller says, and then reads beyond the end of the text.
const OTHERS: [(&[u8], &str, &str); 12] = [
    (b"\x7fELF", "a cubin (ELF)", CUBIN),
    (b"\x50\xed\x55\xba", "a fat binary", FATBIN),
    (b"\xb1\x43\x62\x46", "the wrapper of a fat binary", FATBIN),
    (b"\xed\x43\x4e\x7f", "LTO-IR", "link it with `LtoLinker`"),
    (b"BC\xc0\xde", "LLVM bitcode", "compile it to PTX first"),
    (
        b"!<arch>\n",
        "an archive of object files",
        "link it with `Linker`",
    ),
    (b"\x1f\x8b", "gzip", COMPRESSED),
    (b"\x28\xb5\x2f\xfd", "Zstandard", COMPRESSED),
    (b"PK\x03\x04", "a ZIP archive", COMPRESSED),
    (
        b"\xef\xbb\xbf",
        "UTF-8 with a byte order mark",
        "remove the mark (EF BB BF)",
    ),
    (b"\xff\xfe", "UTF-16", UTF_8),
    (b"\xfe\xff", "UTF-16", UTF_8),
];

/// Makes an image of a text, without the NUL bytes at its end, which drivers ignore.
pub(crate) fn ptx_of(bytes: &[u8]) -> Result<Ptx> {
    expect_text(bytes)?;
    if let [_, 0, _, 0, ..] = bytes {
        return not_text("UTF-16", UTF_8);
    }
    let end = bytes.iter().rposition(|byte| *byte != 0);
    let text = bytes.get(..end.map_or(0, |at| at + 1));
    Ok(Ptx::new(text.unwrap_or_default())?)
}

fn not_text<T>(found: &'static str, advice: &'static str) -> Result<T> {
    Err(Error::Ptx(Box::new(PtxError::NotText { found, advice })))
}

/// Fails if the bytes begin as something else than PTX text.
fn expect_text(bytes: &[u8]) -> Result<()> {
    let found = OTHERS.iter().find(|(magic, ..)| bytes.starts_with(magic));
    match found {
        Some(&(_, found, advice)) => not_text(found, advice),
        None => Ok(()),
    }
}

/// Fails if a text could end the process in a compiler of NVIDIA, as far as it is known.
pub(crate) fn check(ptx: &Ptx) -> Result<()> {
    let bytes = ptx.as_c_str().to_bytes();
    expect_text(bytes)?;
    // Bytes that are not UTF-8 are not ASCII either, so it makes no difference what replaces them.
    let checked = cuda_ptx::check_crashes(&String::from_utf8_lossy(bytes));
    checked.map_err(|error| {
        Error::Ptx(Box::new(PtxError::Defect {
            line: error.line,
            message: error.message,
        }))
    })
}
