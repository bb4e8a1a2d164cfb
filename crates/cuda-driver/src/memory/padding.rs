//! Compile-time errors about padding, for the derive macro of `DeviceRepr`.

/// Fails unless a field starts at `start`, where the field before it ends.
///
/// # Panics
///
/// If there is a gap, during compilation: the derive macro calls it in constants only.
#[doc(hidden)]
#[track_caller]
#[allow(clippy::panic, reason = "it runs during compilation only")]
pub const fn expect_no_gap(title: &str, before: &str, end: usize, after: &str, start: usize) {
    if start > end {
        let mut text = Text::about(title, end, start - end);
        text.push(" between the fields `");
        text.push(before);
        text.push("` and `");
        text.push(after);
        text.push("`");
        text.push_advice(start - end);
        panic!("{}", text.as_str());
    }
}

/// Fails unless the last field ends with the struct, which has `size` bytes.
///
/// # Panics
///
/// If there is a gap, during compilation: the derive macro calls it in constants only.
#[doc(hidden)]
#[track_caller]
#[allow(clippy::panic, reason = "it runs during compilation only")]
pub const fn expect_no_end_gap(title: &str, before: &str, end: usize, size: usize) {
    if size > end {
        let mut text = Text::about(title, end, size - end);
        text.push(" after the field `");
        text.push(before);
        text.push("`");
        text.push_advice(size - end);
        panic!("{}", text.as_str());
    }
}

/// A text that is put together during compilation. What does not fit is left out.
struct Text {
    bytes: [u8; 512],
    len: usize,
}

impl Text {
    const fn about(title: &str, offset: usize, gap: usize) -> Self {
        let mut text = Self {
            bytes: [b' '; 512],
            len: 0,
        };
        text.push("`");
        text.push(title);
        text.push("` has padding, which `DeviceRepr` does not allow: ");
        text.push_number(gap);
        text.push(if gap == 1 { " byte" } else { " bytes" });
        text.push(" at offset ");
        text.push_number(offset);
        text
    }

    const fn push_advice(&mut self, gap: usize) {
        self.push(". Declare a field of type `[u8; ");
        self.push_number(gap);
        self.push(
            "]` there, or derive `KernelArg` for a struct that is only passed to kernels by value",
        );
    }

    const fn push(&mut self, text: &str) {
        let text = text.as_bytes();
        let mut index = 0;
        while index < text.len() && self.len < self.bytes.len() {
            self.bytes[self.len] = text[index];
            self.len += 1;
            index += 1;
        }
    }

    const fn push_number(&mut self, number: usize) {
        if number >= 10 {
            self.push_number(number / 10);
        }
        let digits = "0123456789".as_bytes();
        if self.len < self.bytes.len() {
            self.bytes[self.len] = digits[number % 10];
            self.len += 1;
        }
    }

    const fn as_str(&self) -> &str {
        match std::str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(text) => text,
            // A long name was cut within a character.
            Err(_) => "a struct that derives `DeviceRepr` has padding",
        }
    }
}
