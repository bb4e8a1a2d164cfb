//! The variables and functions that a text declares, found in a list of its tokens.

use std::collections::HashSet;

use crate::lexer::{Kind, Token};

/// Finds functions with the name of a variable that was declared before. NVIDIA's assembler reports
/// such a function, and then follows a null pointer. It does so in a text with other errors too, so
/// tokens are searched instead of the tree.
#[derive(Default)]
pub(super) struct Declared<'a> {
    variables: HashSet<&'a str>,
    /// The number of open parentheses, brackets and braces.
    depth: u32,
    place: Place,
}

/// What the next name outside of all parentheses declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Nothing,
    Function,
    /// After a type, as in `.u32 a`.
    Variable,
    /// After the name of a variable: the next one follows a comma.
    Behind,
}

impl<'a> Declared<'a> {
    /// Takes the next token. Returns whether it is the name of a function that is also the name of
    /// a variable.
    pub(super) fn take(&mut self, token: Token<'a>) -> bool {
        match token.kind {
            Kind::Punct(b'(' | b'[' | b'{') => self.depth += 1,
            Kind::Punct(b')' | b']' | b'}') => self.depth = self.depth.saturating_sub(1),
            _ if self.depth > 0 => {}
            Kind::Punct(b';') => self.place = Place::Nothing,
            Kind::Punct(b',') if self.place == Place::Behind => self.place = Place::Variable,
            Kind::Dot if matches!(token.text, "entry" | "func") => self.place = Place::Function,
            Kind::Dot if is_type(token.text) => self.place = Place::Variable,
            Kind::Name => match self.place {
                Place::Function => {
                    self.place = Place::Nothing;
                    return self.variables.contains(token.text);
                }
                Place::Variable => {
                    self.variables.insert(token.text);
                    self.place = Place::Behind;
                }
                Place::Nothing | Place::Behind => {}
            },
            _ => {}
        }
        false
    }
}

/// Whether the text after a dot is a type, such as `b32` and `texref`.
fn is_type(text: &str) -> bool {
    let mut chars = text.chars();
    let is_number = matches!(chars.next(), Some('b' | 'u' | 's' | 'f'))
        && chars.next().is_some_and(|c| c.is_ascii_digit());
    is_number || matches!(text, "pred" | "texref" | "samplerref" | "surfref")
}
