//! The tokens of a module, for the modules that parse its parts.

use super::ast::{Literal, Span};
use super::error::Error;
use super::lexer::{Kind, Lexer, Token};

/// The largest nesting depth of braces, brackets and parentheses.
const MAX_DEPTH: u32 = 16;

pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    pub(super) ahead: Option<Token<'a>>,
    /// Whether the instruction is a call, in which parentheses enclose a list.
    pub(super) is_call: bool,
    /// Whether the operand is the first one in brackets, which may have an offset.
    pub(super) is_address: bool,
    /// The number of zeros with which initial values were padded.
    pub(super) padded: usize,
    /// The end of the token that `next` returned last, in bytes.
    end: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            lexer: Lexer::new(text),
            ahead: None,
            is_call: false,
            is_address: false,
            padded: 0,
            end: 0,
        }
    }

    pub(super) fn next(&mut self) -> Result<Token<'a>, Error> {
        let token = match self.ahead.take() {
            Some(token) => token,
            None => self.lexer.next()?,
        };
        self.end = token.end;
        Ok(token)
    }

    pub(super) fn peek(&mut self) -> Result<Token<'a>, Error> {
        let token = match self.ahead {
            Some(token) => token,
            None => self.lexer.next()?,
        };
        self.ahead = Some(token);
        Ok(token)
    }

    /// Continues at a token that was read before.
    pub(super) fn restart(&mut self, token: Token<'a>) {
        self.lexer.restart(token);
        self.ahead = None;
    }

    /// The span from `start` to the end of the last token.
    pub(super) fn span_from(&self, start: usize) -> Span {
        Span {
            start,
            end: self.end,
        }
    }

    pub(super) fn error(token: Token<'a>, message: String) -> Error {
        Error {
            line: token.line,
            column: token.column,
            message,
        }
    }

    pub(super) fn unexpected<T>(token: Token<'a>) -> Result<T, Error> {
        let message = match token.kind {
            Kind::End => String::from("Parsing error near end of input: syntax error"),
            Kind::Dot => format!("Parsing error near '.{}': syntax error", token.text),
            _ => format!("Parsing error near '{}': syntax error", token.text),
        };
        Err(Self::error(token, message))
    }

    pub(super) fn check_depth(token: Token<'a>, depth: u32) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(Self::error(token, String::from("Nesting is too deep")));
        }
        Ok(())
    }

    pub(super) fn accept(&mut self, punct: u8) -> Result<bool, Error> {
        if self.peek()?.kind == Kind::Punct(punct) {
            self.next()?;
            return Ok(true);
        }
        Ok(false)
    }

    pub(super) fn expect(&mut self, punct: u8) -> Result<(), Error> {
        let token = self.next()?;
        if token.kind == Kind::Punct(punct) {
            return Ok(());
        }
        Self::unexpected(token)
    }

    pub(super) fn name(&mut self) -> Result<Token<'a>, Error> {
        let token = self.next()?;
        if token.kind == Kind::Name {
            return Ok(token);
        }
        Self::unexpected(token)
    }

    /// A name that the text can declare.
    pub(super) fn identifier(&mut self) -> Result<Token<'a>, Error> {
        let token = self.name()?;
        if Self::is_identifier(token.text) {
            return Ok(token);
        }
        Self::unexpected(token)
    }

    /// Whether a name is neither a reserved word nor a punctuation mark.
    pub(super) fn is_identifier(name: &str) -> bool {
        !matches!(
            name,
            "_" | "$" | "%" | "WARP_SZ" | "inlined_at" | "function_name"
        )
    }

    pub(super) fn int(&mut self) -> Result<u64, Error> {
        let token = self.next()?;
        match token.kind {
            Kind::Number(Literal::Int(value)) => Ok(value),
            _ => Self::unexpected(token),
        }
    }

    /// A number below 2³².
    pub(super) fn int32(&mut self) -> Result<u32, Error> {
        let token = self.peek()?;
        u32::try_from(self.int()?).map_err(|_| {
            let message = format!("{} is too large: the limit is 4294967295", token.text);
            Self::error(token, message)
        })
    }

    /// A text in quotes.
    pub(super) fn string(&mut self) -> Result<&'a str, Error> {
        let token = self.next()?;
        if token.kind == Kind::Str {
            return Ok(token.text);
        }
        Self::unexpected(token)
    }

    /// A part of the text.
    pub(super) fn slice(&self, start: usize, end: usize) -> &'a str {
        self.lexer.slice(start, end)
    }

    /// Parses an optional offset: `+` and a constant expression.
    pub(super) fn offset(&mut self) -> Result<i64, Error> {
        match self.accept(b'+')? {
            true => Ok(self.integer()? as i64),
            false => Ok(0),
        }
    }
}
