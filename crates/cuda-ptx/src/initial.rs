//! Parses initial values of variables.

use super::ast::{Init, Literal, Variable};
use super::error::Error;
use super::lexer::Kind;
use super::parser::Parser;

/// The largest number of elements of one initial value.
const MAX_INIT: usize = 1 << 24;
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
    /// this depth.
    fn initializer(
        &mut self,
        variable: &mut Variable<'a>,
        dims: &[u64],
        depth: u32,
    ) -> Result<(), Error> {
        let token = self.peek()?;
        Self::check_depth(token, depth)?;
        if variable.init.len() > MAX_INIT {
            return Err(Self::error(token, String::from(TOO_LONG)));
        }
        if !self.accept(b'{')? {
            let value = self.init_value(depth)?;
            variable.init.push(value);
            return Ok(());
        }
        let start = variable.init.len();
        if !self.accept(b'}')? {
            loop {
                self.initializer(variable, dims.get(1..).unwrap_or(&[]), depth + 1)?;
                if !self.accept(b',')? {
                    break;
                }
            }
            self.expect(b'}')?;
        }
        // A short inner row is padded with zeros.
        if depth > 0 {
            let row = dims.iter().fold(1, |all: u64, &n| all.saturating_mul(n));
            let end = row.saturating_add(start as u64);
            if end > variable.init.len() as u64 {
                if end > MAX_INIT as u64 {
                    return Err(Self::error(token, String::from(TOO_LONG)));
                }
                let zero = Init::Literal(Literal::Int(0));
                variable.init.resize(end as usize, zero);
            }
        }
        Ok(())
    }

    fn init_value(&mut self, depth: u32) -> Result<Init<'a>, Error> {
        let token = self.next()?;
        Self::check_depth(token, depth)?;
        match (token.kind, token.text) {
            (Kind::Number(Literal::Int(mask)), _) if self.accept(b'(')? => {
                // `0xFF00(symbol)`: one byte of an address.
                let inner = self.init_value(depth + 1)?;
                self.expect(b')')?;
                let Init::Symbol {
                    name,
                    offset,
                    generic,
                    ..
                } = inner
                else {
                    return Self::unexpected(token);
                };
                let byte = mask.trailing_zeros() / 8;
                if byte > 7 || mask != 0xff << (byte * 8) {
                    return Err(Self::error(token, String::from("Bad mask of an address")));
                }
                Ok(Init::Symbol {
                    name,
                    offset,
                    generic,
                    byte: Some(byte),
                })
            }
            (Kind::Number(literal), _) => Ok(Init::Literal(literal)),
            (Kind::Punct(b'-'), _) => match self.init_value(depth + 1)? {
                Init::Literal(Literal::Int(value)) => {
                    Ok(Init::Literal(Literal::Int(value.wrapping_neg())))
                }
                Init::Literal(Literal::F32(bits)) => {
                    Ok(Init::Literal(Literal::F32(bits ^ 1 << 31)))
                }
                Init::Literal(Literal::F64(bits)) => {
                    Ok(Init::Literal(Literal::F64(bits ^ 1 << 63)))
                }
                Init::Symbol { .. } => Self::unexpected(token),
            },
            (Kind::Name, "generic") if self.accept(b'(')? => {
                let name = self.name()?.text;
                let inner = self.offset()?;
                self.expect(b')')?;
                let offset = inner.wrapping_add(self.offset()?);
                Ok(Init::Symbol {
                    name,
                    offset,
                    generic: true,
                    byte: None,
                })
            }
            (Kind::Name, name) => {
                let offset = self.offset()?;
                Ok(Init::Symbol {
                    name,
                    offset,
                    generic: false,
                    byte: None,
                })
            }
            _ => Self::unexpected(token),
        }
    }
}
