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

    fn byte(&self, ahead: usize) -> u8 {
        let bytes = self.text.as_bytes();
        bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn slice(&self, start: usize, end: usize) -> &'a str {
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
                self.at += 1;
            }
            b'%' | b'$' | b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                self.at += 1;
                self.skip_while(is_name);
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

    fn number(&mut self) -> Result<Literal, Error> {
        let start = self.at;
        let digits = |lexer: &mut Self, prefix: usize, radix: u32| {
            lexer.at += prefix;
            let first = lexer.at;
            lexer.skip_while(|byte| char::from(byte).is_digit(radix));
            let value = u64::from_str_radix(lexer.slice(first, lexer.at), radix);
            value.map_err(|_| lexer.error("Bad number"))
        };
        let value = match (self.byte(0), self.byte(1)) {
            (b'0', b'x' | b'X') => digits(self, 2, 16)?,
            (b'0', b'b' | b'B') => digits(self, 2, 2)?,
            (b'0', b'f' | b'F') => {
                let bits = digits(self, 2, 16)?;
                return match u32::try_from(bits) {
                    Ok(bits) => Ok(Literal::F32(bits)),
                    Err(_) => Err(self.error("Bad single precision number")),
                };
            }
            (b'0', b'd' | b'D') => return Ok(Literal::F64(digits(self, 2, 16)?)),
            _ => {
                self.skip_while(|byte| byte.is_ascii_digit());
                let point = self.byte(0) == b'.' && self.byte(1).is_ascii_digit();
                if point {
                    self.at += 1;
                    self.skip_while(|byte| byte.is_ascii_digit());
                }
                let sign = usize::from(matches!(self.byte(1), b'+' | b'-'));
                let exponent =
                    matches!(self.byte(0), b'e' | b'E') && self.byte(1 + sign).is_ascii_digit();
                if exponent {
                    self.at += 1 + sign;
                    self.skip_while(|byte| byte.is_ascii_digit());
                }
                let text = self.slice(start, self.at);
                if point || exponent {
                    let value: f64 = text.parse().map_err(|_| self.error("Bad number"))?;
                    return Ok(Literal::F64(value.to_bits()));
                }
                let octal = text.len() > 1 && text.starts_with('0');
                let radix = if octal { 8 } else { 10 };
                u64::from_str_radix(text, radix).map_err(|_| self.error("Bad number"))?
            }
        };
        if matches!(self.byte(0), b'U' | b'u') {
            self.at += 1;
        }
        Ok(Literal::Int(value))
    }
}
