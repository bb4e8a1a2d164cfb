//! Splits PTX text into tokens.

use super::ast::Literal;
use super::error::Error;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// A name, with its `%` or `$` if it has one.
    Name,
    /// `.word`. The text does not include the dot.
    Dot,
    Number(Literal),
    /// The text does not include the quotes.
    Str,
    Punct(u8),
    End,
}

/// A token and its position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    pub(super) line: u32,
    pub(super) column: u32,
    /// The positions in bytes of its beginning and its end.
    pub(super) start: usize,
    pub(super) end: usize,
    /// Whether this token directly follows the one before.
    pub(super) adjacent: bool,
}

pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
}

/// The message for a byte that begins no token.
pub(super) const UNEXPECTED: &str = "Unexpected character in the text";
/// The message for a string with other characters than those of ASCII.
pub(super) const NOT_ASCII: &str = "Unexpected non-ASCII character encountered in a string";

/// The largest number of bytes of a name. An assembler has no limit, and mangled names of C++ have
/// a few thousand bytes. A name is copied where it is used: into messages, for example.
pub(super) const MAX_NAME: usize = 1 << 16;

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            line: 1,
            line_start: 0,
        }
    }

    /// Continues at `token`.
    pub(super) fn restart(&mut self, token: Token<'a>) {
        self.at = token.start;
        self.line = token.line;
        self.line_start = token.start + 1 - token.column as usize;
    }

    fn byte(&self, ahead: usize) -> u8 {
        let bytes = self.text.as_bytes();
        bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    pub(super) fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or("")
    }

    fn skip_while(&mut self, keep: impl Fn(u8) -> bool) {
        while self.at < self.text.len() && keep(self.byte(0)) {
            self.at += 1;
        }
    }

    fn new_line(&mut self) {
        self.at += 1;
        self.line += 1;
        self.line_start = self.at;
    }

    fn error(&self, message: &str) -> Error {
        Error {
            line: self.line,
            column: (self.at - self.line_start) as u32 + 1,
            message: message.to_owned(),
        }
    }

    fn skip_blank(&mut self) -> Result<(), Error> {
        while self.at < self.text.len() {
            match (self.byte(0), self.byte(1)) {
                (b'\n', _) => self.new_line(),
                (b' ' | b'\t' | b'\r' | 0x0b | 0x0c, _) => self.at += 1,
                (b'/', b'/') => self.skip_while(|byte| byte != b'\n'),
                (b'/', b'*') => {
                    self.at += 2;
                    while (self.byte(0), self.byte(1)) != (b'*', b'/') {
                        if self.at >= self.text.len() {
                            return Err(self.error("Comment is not closed"));
                        }
                        match self.byte(0) {
                            b'\n' => self.new_line(),
                            _ => self.at += 1,
                        }
                    }
                    self.at += 2;
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Returns the next token. After the last one, returns `End` at every call.
    pub(super) fn next(&mut self) -> Result<Token<'a>, Error> {
        let before = self.at;
        self.skip_blank()?;
        let start = self.at;
        let mut token = Token {
            kind: Kind::End,
            text: "",
            line: self.line,
            column: (start - self.line_start) as u32 + 1,
            start,
            end: start,
            adjacent: start == before,
        };
        if start >= self.text.len() {
            return Ok(token);
        }
        let first = self.byte(0);
        match first {
            // `.5` is a number, and `.2d` a modifier.
            b'.' if self.byte(1).is_ascii_digit() && self.is_fraction() => {
                token.kind = Kind::Number(self.number()?);
                token.text = self.slice(start, self.at);
            }
            b'.' if is_name(self.byte(1)) => {
                self.at += 1;
                loop {
                    self.skip_while(is_name);
                    if (self.byte(0), self.byte(1)) == (b':', b':') && is_name(self.byte(2)) {
                        self.at += 2;
                    } else {
                        break;
                    }
                }
                token.kind = Kind::Dot;
                token.text = self.slice(start + 1, self.at);
            }
            b'0'..=b'9' => {
                token.kind = Kind::Number(self.number()?);
                token.text = self.slice(start, self.at);
            }
            b'"' => {
                self.at += 1;
                self.skip_while(|byte| byte != b'"' && byte != b'\n');
                if self.byte(0) != b'"' {
                    return Err(self.error("String is not closed"));
                }
                token.kind = Kind::Str;
                token.text = self.slice(start + 1, self.at);
                if !token.text.is_ascii() {
                    return Err(self.error(NOT_ASCII));
                }
                self.at += 1;
            }
            b'%' | b'$' | b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                self.at += 1;
                self.skip_while(is_name);
                let length = self.at - start;
                if length > MAX_NAME {
                    let begin = self.slice(start, start + 32);
                    self.at = start;
                    return Err(self.error(&format!(
                        "the name {begin}... has {length} bytes; the limit is {MAX_NAME}: use a \
                         shorter name"
                    )));
                }
                token.kind = Kind::Name;
                token.text = self.slice(start, self.at);
            }
            0x21..=0x7e => {
                self.at += 1;
                token.kind = Kind::Punct(first);
                token.text = self.slice(start, self.at);
            }
            _ => return Err(self.error(UNEXPECTED)),
        }
        token.end = self.at;
        Ok(token)
    }

    /// Whether the point at the current position begins a number.
    fn is_fraction(&self) -> bool {
        let length = self.float_length();
        length > 0 && !is_name(self.byte(length))
    }

    /// The length of a decimal number with a point or an exponent at the current position, or 0.
    fn float_length(&self) -> usize {
        let digits = |from: usize| {
            let mut end = from;
            while self.byte(end).is_ascii_digit() {
                end += 1;
            }
            end
        };
        let whole = digits(0);
        let mut end = whole;
        let mut is_float = false;
        if self.byte(end) == b'.' {
            let fraction = digits(end + 1);
            // `1.` and `.5` are numbers, `.` is not.
            if whole > 0 || fraction > end + 1 {
                (end, is_float) = (fraction, true);
            }
        }
        if end > 0 && matches!(self.byte(end), b'e' | b'E') {
            let sign = usize::from(matches!(self.byte(end + 1), b'+' | b'-'));
            let exponent = digits(end + 1 + sign);
            if exponent > end + 1 + sign {
                (end, is_float) = (exponent, true);
            }
        }
        if is_float { end } else { 0 }
    }

    fn float(&mut self, length: usize) -> Result<Literal, Error> {
        let text = self.slice(self.at, self.at + length);
        let value: f64 = text.parse().map_err(|_| self.error("Bad number"))?;
        let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
        let is_zero = mantissa.bytes().all(|byte| matches!(byte, b'0' | b'.'));
        if !value.is_normal() && !is_zero {
            return Err(self.error("Constant overflow"));
        }
        self.at += length;
        Ok(Literal::F64(value.to_bits()))
    }

    /// Skips `count` hexadecimal digits after the prefix `0f` or `0d`, and returns their value.
    fn exact(&mut self, count: usize) -> Option<u64> {
        let digits = self.slice(self.at + 2, self.at + 2 + count);
        if digits.len() < count || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.at += 2 + count;
        u64::from_str_radix(digits, 16).ok()
    }

    /// Skips the digits of an integer, and returns its value modulo 2⁶⁴.
    fn digits(&mut self, prefix: usize, radix: u32) -> u64 {
        self.at += prefix;
        let mut value = 0u64;
        while let Some(digit) = char::from(self.byte(0)).to_digit(radix) {
            value = value.wrapping_mul(radix.into()).wrapping_add(digit.into());
            self.at += 1;
        }
        value
    }

    fn number(&mut self) -> Result<Literal, Error> {
        let (first, second, third) = (self.byte(0), self.byte(1), self.byte(2));
        if first == b'0' {
            let exact = match second {
                b'f' | b'F' => self.exact(8).map(|bits| Literal::F32(bits as u32)),
                b'd' | b'D' => self.exact(16).map(Literal::F64),
                _ => None,
            };
            if let Some(literal) = exact {
                return Ok(literal);
            }
        }
        let value = match second {
            b'x' | b'X' if first == b'0' && third.is_ascii_hexdigit() => self.digits(2, 16),
            b'b' | b'B' if first == b'0' && matches!(third, b'0' | b'1') => self.digits(2, 2),
            _ => match self.float_length() {
                0 if first == b'0' => self.digits(0, 8),
                0 => self.digits(0, 10),
                length => return self.float(length),
            },
        };
        if self.byte(0) == b'U' {
            self.at += 1;
        }
        Ok(Literal::Int(value))
    }
}
