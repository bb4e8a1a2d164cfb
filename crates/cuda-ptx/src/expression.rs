//! Constant expressions in operands, addresses and initial values, which are evaluated to literals.
//!
//! The rules are those of `ptxas`, from versions 12.0 to 13.5. They differ from the PTX manual and
//! from C in details, each of which a test compares with the assembler:
//!
//! - An integer has 64 bits. It is unsigned if it has the suffix `U` or is at least 2⁶³, and a
//!   literal that needs more bits wraps.
//! - `/`, `&`, `|`, `^`, `*`, `+` and `-` are unsigned if one side is. `%` and `~` always are.
//!   Comparisons, `&&`, `||` and `!` give a signed 0 or 1. A shift has the type of its left side,
//!   and uses the low 6 bits of the number of places. `?:` has the type of the value that it selects.
//! - Both sides of `&&` and `||`, and both values of `?:`, are evaluated, also if they fail.
//! - A float is an f64: `+`, `-`, `*`, `/` and comparisons take two of them, and no operator takes a
//!   float and an integer. A float as a condition is an error, and so is a division by 0.
//! - `0f3f800000` is a value of its own: no operator takes it, but it may be in parentheses.

use super::ast::Literal;
use super::error::Error;
use super::lexer::{Kind, Token};
use super::parser::Parser;

/// The largest nesting depth of an expression.
const MAX_DEPTH: u32 = 64;

const INTEGER: &str = "Integer constant expression expected";
const MISMATCH: &str = "Constant expression type mismatch";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Signed(i64),
    Unsigned(u64),
    Double(f64),
    /// The bits of an f32, which no operator takes.
    Single(u32),
}

impl Value {
    fn integer(bits: u64, is_unsigned: bool) -> Self {
        match is_unsigned {
            true => Self::Unsigned(bits),
            false => Self::Signed(bits as i64),
        }
    }

    fn boolean(value: bool) -> Self {
        Self::Signed(value.into())
    }

    /// The bits of an integer, and whether it is unsigned.
    fn bits(self) -> Result<(u64, bool), &'static str> {
        match self {
            Self::Signed(value) => Ok((value as u64, false)),
            Self::Unsigned(value) => Ok((value, true)),
            Self::Double(_) | Self::Single(_) => Err(INTEGER),
        }
    }

    fn literal(self) -> Literal {
        match self {
            Self::Signed(value) => Literal::Int(value as u64),
            Self::Unsigned(value) => Literal::Int(value),
            Self::Double(value) => Literal::F64(value.to_bits()),
            Self::Single(bits) => Literal::F32(bits),
        }
    }
}

/// How tightly a binary operator binds: the larger number first.
fn precedence(operator: &str) -> Option<u32> {
    Some(match operator {
        "||" => 1,
        "&&" => 2,
        "|" => 3,
        "^" => 4,
        "&" => 5,
        "==" | "!=" => 6,
        "<" | ">" | "<=" | ">=" => 7,
        "<<" | ">>" => 8,
        "+" | "-" => 9,
        "*" | "/" | "%" => 10,
        _ => return None,
    })
}

fn doubles(operator: &str, left: f64, right: f64) -> Result<Value, &'static str> {
    Ok(match operator {
        "+" => Value::Double(left + right),
        "-" => Value::Double(left - right),
        "*" => Value::Double(left * right),
        "/" if right == 0.0 => return Err("Constant expression has division by zero"),
        "/" => Value::Double(left / right),
        "==" => Value::boolean(left == right),
        "!=" => Value::boolean(left != right),
        "<" => Value::boolean(left < right),
        ">" => Value::boolean(left > right),
        "<=" => Value::boolean(left <= right),
        ">=" => Value::boolean(left >= right),
        _ => return Err(INTEGER),
    })
}

fn binary(operator: &str, left: Value, right: Value) -> Result<Value, &'static str> {
    match (left, right) {
        (Value::Double(left), Value::Double(right)) => return doubles(operator, left, right),
        (Value::Double(_), _) | (_, Value::Double(_)) => return Err(MISMATCH),
        _ => {}
    }
    let ((a, is_left), (b, is_right)) = (left.bits()?, right.bits()?);
    let unsigned = is_left || is_right;
    let order = match unsigned {
        true => a.cmp(&b),
        false => (a as i64).cmp(&(b as i64)),
    };
    Ok(match operator {
        "||" => Value::boolean(a != 0 || b != 0),
        "&&" => Value::boolean(a != 0 && b != 0),
        "|" => Value::integer(a | b, unsigned),
        "^" => Value::integer(a ^ b, unsigned),
        "&" => Value::integer(a & b, unsigned),
        "==" => Value::boolean(order.is_eq()),
        "!=" => Value::boolean(order.is_ne()),
        "<" => Value::boolean(order.is_lt()),
        ">" => Value::boolean(order.is_gt()),
        "<=" => Value::boolean(order.is_le()),
        ">=" => Value::boolean(order.is_ge()),
        "<<" => Value::integer(a.wrapping_shl(b as u32), is_left),
        ">>" => match left {
            Value::Signed(value) => Value::Signed(value.wrapping_shr(b as u32)),
            _ => Value::Unsigned(a.wrapping_shr(b as u32)),
        },
        "+" => Value::integer(a.wrapping_add(b), unsigned),
        "-" => Value::integer(a.wrapping_sub(b), unsigned),
        "*" => Value::integer(a.wrapping_mul(b), unsigned),
        "/" | "%" if b == 0 => return Err("Constant expression has division by zero"),
        "%" => Value::Unsigned(a % b),
        "/" if unsigned => Value::Unsigned(a / b),
        // `ptxas` crashes if the quotient does not fit.
        _ => match (a as i64).checked_div(b as i64) {
            Some(quotient) => Value::Signed(quotient),
            None => return Err("Constant expression has an overflow in a division"),
        },
    })
}

fn unary(operator: u8, value: Value) -> Result<Value, &'static str> {
    match (operator, value) {
        (b'+', Value::Double(_)) => return Ok(value),
        (b'-', Value::Double(value)) => return Ok(Value::Double(-value)),
        _ => {}
    }
    let (bits, unsigned) = value.bits()?;
    Ok(match operator {
        b'-' => Value::integer(bits.wrapping_neg(), unsigned),
        b'~' => Value::Unsigned(!bits),
        b'!' => Value::boolean(bits == 0),
        _ => value,
    })
}

impl<'a> Parser<'a> {
    /// Parses a constant expression.
    pub(super) fn constant(&mut self) -> Result<Literal, Error> {
        Ok(self.conditional(0)?.literal())
    }

    /// Parses a constant expression that must be an integer, and returns its bits.
    pub(super) fn integer(&mut self) -> Result<u64, Error> {
        let token = self.peek()?;
        let (bits, _) = Self::at(token, self.conditional(0)?.bits())?;
        Ok(bits)
    }

    fn at<T>(token: Token<'a>, value: Result<T, &'static str>) -> Result<T, Error> {
        value.map_err(|message| Self::error(token, String::from(message)))
    }

    fn conditional(&mut self, depth: u32) -> Result<Value, Error> {
        let token = self.peek()?;
        let condition = self.binary(0, depth)?;
        if !self.accept(b'?')? {
            return Ok(condition);
        }
        let first = self.conditional(depth + 1)?;
        self.expect(b':')?;
        let second = self.conditional(depth + 1)?;
        let (condition, _) = Self::at(token, condition.bits())?;
        Self::at(token, first.bits())?;
        Self::at(token, second.bits())?;
        Ok(if condition != 0 { first } else { second })
    }

    /// The binary operator that follows, with one or two characters.
    fn operator(&mut self) -> Result<Option<&'a str>, Error> {
        let token = self.peek()?;
        let is_remainder = (token.kind, token.text) == (Kind::Name, "%");
        if !is_remainder && !matches!(token.kind, Kind::Punct(_)) {
            return Ok(None);
        }
        let two = self.slice(token.start, token.start + 2);
        Ok(match two {
            "||" | "&&" | "==" | "!=" | "<=" | ">=" | "<<" | ">>" => Some(two),
            _ => Some(token.text),
        })
    }

    /// Operators that bind tighter than `least`, from left to right.
    fn binary(&mut self, least: u32, depth: u32) -> Result<Value, Error> {
        let mut left = self.unary(depth)?;
        while let Some(operator) = self.operator()?
            && let Some(own) = precedence(operator)
            && own > least
        {
            let token = self.next()?;
            if operator.len() == 2 {
                self.next()?;
            }
            let right = self.binary(own, depth + 1)?;
            left = Self::at(token, binary(operator, left, right))?;
        }
        Ok(left)
    }

    fn unary(&mut self, depth: u32) -> Result<Value, Error> {
        let token = self.next()?;
        if depth > MAX_DEPTH {
            return Err(Self::error(token, String::from("Nesting is too deep")));
        }
        match (token.kind, token.text) {
            (Kind::Punct(sign @ (b'+' | b'-' | b'~' | b'!')), _) => {
                let operand = self.peek()?;
                let value = self.unary(depth + 1)?;
                if let Value::Single(_) = value {
                    return Self::unexpected(operand);
                }
                Self::at(operand, unary(sign, value))
            }
            (Kind::Punct(b'('), _) => {
                let inner = self.peek()?;
                if inner.kind == Kind::Dot {
                    return self.cast(depth);
                }
                let value = self.conditional(depth + 1)?;
                self.expect(b')')?;
                Ok(value)
            }
            (Kind::Name, "WARP_SZ") => Ok(Value::Signed(32)),
            (Kind::Number(Literal::Int(bits)), text) => {
                let is_unsigned = text.ends_with('U') || bits > i64::MAX as u64;
                Ok(Value::integer(bits, is_unsigned))
            }
            (Kind::Number(Literal::F64(bits)), _) => Ok(Value::Double(f64::from_bits(bits))),
            (Kind::Number(Literal::F32(bits)), _) => {
                let after = self.peek()?;
                if self
                    .operator()?
                    .is_some_and(|it| precedence(it).is_some() || it == "?")
                {
                    return Self::unexpected(after);
                }
                Ok(Value::Single(bits))
            }
            _ => Self::unexpected(token),
        }
    }

    /// `(.s64)value`, after its opening parenthesis.
    fn cast(&mut self, depth: u32) -> Result<Value, Error> {
        let ty = self.next()?;
        self.expect(b')')?;
        let operand = self.peek()?;
        let (bits, _) = Self::at(operand, self.unary(depth + 1)?.bits())?;
        match ty.text {
            "s64" => Ok(Value::integer(bits, false)),
            "u64" => Ok(Value::integer(bits, true)),
            _ => Err(Self::error(ty, String::from("Unsupported cast operation"))),
        }
    }
}
