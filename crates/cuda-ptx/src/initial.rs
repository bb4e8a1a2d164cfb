//! Parses initial values of variables.

use super::ast::{Init, Literal, Variable};
use super::error::Error;
use super::lexer::{Kind, Token};
use super::parser::Parser;

/// The largest number of elements of one initial value.
const MAX_INIT: usize = 1 << 24;
/// The largest number of zeros with which all initial values of a text are padded.
const MAX_PADDED: usize = 1 << 21;
/// The message for an initial value with more elements.
const TOO_LONG: &str = "Initial value is too long";

impl<'a> Parser<'a> {
    /// Parses the initial value of a variable with the given dimensions, after its `=`.
    pub(super) fn initial(
        &mut self,
        variable: &mut Variable<'a>,
        mut dims: Vec<u64>,
    ) -> Result<(), Error> {
        let vector = u64::from(variable.vector);
        if vector > 1 {
            dims.push(vector);
        }
        self.initializer(variable, &dims, 0)?;
        if variable.count.is_none() {
            // The elements of one row.
            let row: u64 = dims.iter().skip(1).product();
            let rows = (variable.init.len() as u64).div_ceil(row.max(1));
            variable.count = Some(rows * (row / vector));
        }
        Ok(())
    }

    /// Parses a value, or values in braces. `dims` are the dimensions of the array that remain at
    /// this depth, of which the last one is that of a vector.
    fn initializer(
        &mut self,
        variable: &mut Variable<'a>,
        dims: &[u64],
        depth: u32,
    ) -> Result<(), Error> {
        let token = self.peek()?;
        Self::check_depth(token, depth)?;
        let error = |message: &str| Err(Self::error(token, String::from(message)));
        if variable.init.len() > MAX_INIT {
            return error(TOO_LONG);
        }
        let is_list = self.accept(b'{')?;
        let Some((&length, rest)) = dims.split_first().filter(|_| is_list) else {
            if is_list || !dims.is_empty() {
                return error("Initial value type mismatch");
            }
            let value = self.init_value()?;
            variable.init.push(value);
            return Ok(());
        };
        // Only the first dimension can be left out.
        let is_open = depth == 0 && variable.count.is_none();
        let (start, mut count) = (variable.init.len(), 0);
        if !self.accept(b'}')? {
            loop {
                if count == length && !is_open {
                    return error("Greater number of elements in array initializer");
                }
                self.initializer(variable, rest, depth + 1)?;
                count += 1;
                if !self.accept(b',')? {
                    break;
                }
            }
            self.expect(b'}')?;
        }
        if variable.vector > 1 && rest.is_empty() && count != length {
            return error("Incorrect number of elements in vector initializer");
        }
        // A short inner row is padded with zeros.
        if depth > 0 {
            let row = dims.iter().fold(1, |all: u64, &n| all.saturating_mul(n));
            let end = row.saturating_add(start as u64);
            let missing = end.saturating_sub(variable.init.len() as u64);
            if missing > 0 {
                if missing > (MAX_PADDED - self.padded) as u64 {
                    return error(TOO_LONG);
                }
                self.padded += missing as usize;
                let zero = match variable.ty {
                    "f32" | "f64" => Literal::F64(0),
                    _ => Literal::Int(0),
                };
                variable.init.resize(end as usize, Init::Literal(zero));
            }
        }
        Ok(())
    }

    fn init_value(&mut self) -> Result<Init<'a>, Error> {
        let token = self.peek()?;
        match (token.kind, token.text) {
            (Kind::Name, "generic") => {
                self.next()?;
                self.expect(b'(')?;
                let name = self.name()?.text;
                self.expect(b')')?;
                Ok(Init::Symbol {
                    name,
                    offset: self.offset()?,
                    generic: true,
                    byte: None,
                })
            }
            (Kind::Name, name) if name != "WARP_SZ" => {
                self.next()?;
                Ok(Init::Symbol {
                    name,
                    offset: self.offset()?,
                    generic: false,
                    byte: None,
                })
            }
            (Kind::Number(Literal::Int(mask)), _) => {
                self.next()?;
                if self.accept(b'(')? {
                    return self.masked(token, mask);
                }
                self.restart(token);
                self.constant().map(Init::Literal)
            }
            _ => self.constant().map(Init::Literal),
        }
    }

    /// `0xFF00(symbol)`, one byte of an address, after its opening parenthesis.
    fn masked(&mut self, token: Token<'a>, mask: u64) -> Result<Init<'a>, Error> {
        let inner = self.peek()?;
        if inner.kind != Kind::Name {
            return Self::unexpected(inner);
        }
        let Init::Symbol {
            name,
            offset,
            generic,
            byte: None,
        } = self.init_value()?
        else {
            return Self::unexpected(inner);
        };
        self.expect(b')')?;
        let byte = mask.trailing_zeros() / 8;
        if byte > 7 || mask != 0xff << (byte * 8) {
            let message = format!("Invalid mask value '{mask:#x}' used in initializer");
            return Err(Self::error(token, message));
        }
        Ok(Init::Symbol {
            name,
            offset,
            generic,
            byte: Some(byte),
        })
    }
}
