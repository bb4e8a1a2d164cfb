//! Links in progress, and two formats of images: a linked image, which is the PTX texts in
//! sequence, each after a line that states its length, and PTX in place of machine code. The limit
//! of registers of a link comes before the texts, because the linked image is compiled when it is
//! loaded.

use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::driver::objects::device::Device;
use crate::driver::objects::jit::{Logs, Options};
use crate::lock::lock;

/// A link in progress.
#[derive(Debug)]
pub(in crate::driver) struct Link {
    pub(in crate::driver) device: Arc<Device>,
    pub(in crate::driver) logs: LinkLogs,
    pub(in crate::driver) state: Mutex<State>,
}

/// The log buffers of the call that created the link. `cuLinkCreate` requires them to stay valid as
/// long as the link.
#[derive(Debug)]
pub(in crate::driver) struct LinkLogs(pub(in crate::driver) Logs, pub(in crate::driver) Options);

// SAFETY: the buffers may be written from any thread ← `cuLinkCreate` requires them to be valid for
// the lifetime of the link, and each call that uses the link holds the lock of its state while it
// writes.
unsafe impl Send for LinkLogs {}

// SAFETY: as for `Send`.
unsafe impl Sync for LinkLogs {}

#[derive(Debug, Default)]
pub(in crate::driver) struct State {
    /// The name and the text of each input.
    pub(in crate::driver) modules: Vec<(String, String)>,
    errors: String,
    /// The image that `cuLinkComplete` returned.
    pub(in crate::driver) image: Option<Vec<u8>>,
}

/// The first line of a linked image.
const MAGIC: &str = "// cuda-sim linked image\n";
const PART: &str = "// cuda-sim bytes ";
const REGISTERS: &str = "// cuda-sim registers ";

/// The first line of PTX that a compiler wrote although machine code was requested. It is neither
/// PTX nor the start of machine code, so no GPU loads the image. The `nvcc` in
/// `crates/cuda-sim-cdylib/programs/companion` writes it.
const WRAPPED: &str = "cuda-sim PTX in place of machine code\n";

/// Returns whether the image is the output of an earlier link, or PTX in place of machine code.
pub(in crate::driver) fn is_cubin(image: &str) -> bool {
    image.starts_with(MAGIC) || image.starts_with(WRAPPED)
}

/// Returns the PTX texts of an image; a linked image has several.
pub(in crate::driver) fn texts(image: &str) -> Vec<&str> {
    let image = image.strip_prefix(WRAPPED).unwrap_or(image);
    let Some(rest) = image.strip_prefix(MAGIC) else {
        return vec![image];
    };
    let (_, mut rest) = split_registers(rest);
    let mut texts = Vec::new();
    while let Some((length, behind)) = rest.strip_prefix(PART).and_then(|r| r.split_once('\n')) {
        let Some((text, behind)) = length
            .parse()
            .ok()
            .and_then(|length| behind.split_at_checked(length))
        else {
            break;
        };
        texts.push(text);
        rest = behind;
    }
    texts
}

/// Returns the limit of registers with which an image was linked.
pub(in crate::driver) fn max_registers(image: &str) -> Option<u32> {
    split_registers(image.strip_prefix(MAGIC)?).0
}

/// Splits the line with the limit of registers, if there is one, from a linked image.
fn split_registers(rest: &str) -> (Option<u32>, &str) {
    let line = rest
        .strip_prefix(REGISTERS)
        .and_then(|line| line.split_once('\n'));
    match line {
        Some((number, behind)) => (number.parse().ok(), behind),
        None => (None, rest),
    }
}

/// Returns the linked image of these texts, terminated by a NUL.
pub(in crate::driver) fn image_of(
    modules: &[(String, String)],
    max_registers: Option<u32>,
) -> Vec<u8> {
    let mut image = MAGIC.to_owned();
    if let Some(most) = max_registers {
        // Writing to a string cannot fail.
        let _ = writeln!(image, "{REGISTERS}{most}");
    }
    for (_, text) in modules {
        // Writing to a string cannot fail.
        let _ = writeln!(image, "{PART}{}", text.len());
        image.push_str(text);
    }
    image.push('\0');
    image.into_bytes()
}

impl Link {
    pub(in crate::driver) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Appends to the error log and writes it to the program's buffer.
    pub(in crate::driver) fn log_errors(&self, state: &mut State, words: &str) {
        if !state.errors.is_empty() && !state.errors.ends_with('\n') {
            state.errors.push('\n');
        }
        state.errors.push_str(words);
        self.logs.0.write_all("", &state.errors, self.logs.1);
    }
}

#[cfg(test)]
mod tests {
    use super::{MAGIC, WRAPPED, image_of, max_registers, texts};

    #[test]
    fn an_image_has_the_texts_that_it_was_made_of() {
        let of = |text: &str| (String::from("name"), text.to_owned());
        let parts = [of("one\n"), of(""), of("// cuda-sim bytes 3\nabc")];
        for limit in [None, Some(38)] {
            let image = String::from_utf8(image_of(&parts, limit)).unwrap();
            let image = image.strip_suffix('\0').unwrap();
            assert_eq!(texts(image), ["one\n", "", "// cuda-sim bytes 3\nabc"]);
            assert_eq!(max_registers(image), limit);
            // Truncated images and lengths beyond the end do not cause a panic.
            for end in MAGIC.len()..image.len() {
                assert!(texts(&image[..end]).len() <= 3);
            }
        }
        assert_eq!(texts("no image"), ["no image"]);
        assert_eq!(texts(&format!("{WRAPPED}.version 8.0")), [".version 8.0"]);
        assert_eq!(max_registers("no image"), None);
    }
}
