//! A lexer that splits C++ text into tokens as far as they affect nesting.

use std::borrow::Cow;

/// A kind of bracket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bracket {
    Round,
    Square,
    Curly,
}

/// A token. Alternative spellings (`<:`, `and`) give the same token as the primary spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// White space within a line, or a comment.
    Space,
    NewLine,
    Open(Bracket),
    Close(Bracket),
    Semicolon,
    Comma,
    Question,
    Colon,
    /// `<`
    Less,
    /// One or two consecutive `>`.
    Greater(u8),
    /// `#`
    Hash,
    /// `!`, `~`, and words such as `sizeof` that precede an operand.
    Prefix,
    /// `+`, `-`, `*`, `&`, `&&`, `++`, `--`: prefix or binary, depending on the preceding token.
    Sign,
    /// `=`, `+=` and the like.
    Assign,
    /// An operator between two operands, or after one.
    Binary,
    /// `::`
    Scope,
    /// A number, character or string.
    Literal,
    /// A name or keyword.
    Word(&'a [u8]),
    /// Any other character.
    Other,
}

/// Words that precede an operand, as `sizeof x` and `extern "C" int x` do.
const PREFIXES: [&[u8]; 26] = [
    b"sizeof",
    b"alignof",
    b"_Alignof",
    b"__alignof",
    b"__alignof__",
    b"alignas",
    b"typeid",
    b"noexcept",
    b"new",
    b"delete",
    b"throw",
    b"co_await",
    b"co_yield",
    b"co_return",
    b"decltype",
    b"typeof",
    b"__typeof__",
    b"requires",
    b"extern",
    b"export",
    b"operator",
    b"not",
    b"compl",
    b"__extension__",
    b"__real__",
    b"__imag__",
];

/// Alternative spellings of binary operators and assignments.
const OPERATORS: [(&[u8], Token<'static>); 9] = [
    (b"and", Token::Binary),
    (b"or", Token::Binary),
    (b"xor", Token::Binary),
    (b"bitor", Token::Binary),
    (b"not_eq", Token::Binary),
    (b"bitand", Token::Sign),
    (b"and_eq", Token::Assign),
    (b"or_eq", Token::Assign),
    (b"xor_eq", Token::Assign),
];

/// Joins lines that end with a backslash, which is an early step of every C++ compiler.
pub(super) fn joined(text: &[u8]) -> Cow<'_, [u8]> {
    let ends = |at: usize| match text[at..] {
        [b'\\', b'\n', ..] => Some(2),
        [b'\\', b'\r', b'\n', ..] => Some(3),
        _ => None,
    };
    if !(0..text.len()).any(|at| ends(at).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut joined = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        if let Some(length) = ends(at) {
            at += length;
        } else {
            joined.push(text[at]);
            at += 1;
        }
    }
    Cow::Owned(joined)
}

/// Returns the token at the start of `text`, and its length. An unterminated token extends to the
/// end of the text.
pub(super) fn token(text: &[u8]) -> (Token<'_>, usize) {
    use Bracket::{Curly, Round, Square};
    match text {
        [b'/', b'*', rest @ ..] => (Token::Space, 2 + through(rest, b"*/")),
        [b'/', b'/', rest @ ..] => {
            let line = rest.iter().position(|&byte| byte == b'\n');
            (Token::Space, 2 + line.unwrap_or(rest.len()))
        }
        [b'\n', ..] => (Token::NewLine, 1),
        [b' ' | b'\t' | b'\r' | b'\x0b' | b'\x0c', ..] => (Token::Space, 1),
        // C++ lexes this as `<` followed by `::`.
        [b'<', b':', b':', next, ..] if !matches!(next, b':' | b'>') => (Token::Less, 1),
        [b'(', ..] => (Token::Open(Round), 1),
        [b'[', ..] => (Token::Open(Square), 1),
        [b'<', b':', ..] => (Token::Open(Square), 2),
        [b'{', ..] => (Token::Open(Curly), 1),
        [b'<', b'%', ..] => (Token::Open(Curly), 2),
        [b')', ..] => (Token::Close(Round), 1),
        [b']', ..] => (Token::Close(Square), 1),
        [b':', b'>', ..] => (Token::Close(Square), 2),
        [b'}', ..] => (Token::Close(Curly), 1),
        [b'%', b'>', ..] => (Token::Close(Curly), 2),
        [b';', ..] => (Token::Semicolon, 1),
        [b',', ..] => (Token::Comma, 1),
        [b'?', ..] => (Token::Question, 1),
        [b':', b':', ..] => (Token::Scope, 2),
        [b':', ..] => (Token::Colon, 1),
        [b'%', b':', ..] => (Token::Hash, 2),
        [b'#', ..] => (Token::Hash, 1),
        [b'<', b'<', b'=', ..] | [b'>', b'>', b'=', ..] => (Token::Assign, 3),
        [b'<', b'=', b'>', ..] => (Token::Binary, 3),
        [b'<', b'<', ..] | [b'<' | b'>' | b'=' | b'!', b'=', ..] | [b'|', b'|', ..] => {
            (Token::Binary, 2)
        }
        [b'-', b'>', ..] => (Token::Binary, 2),
        [b'>', b'>', ..] => (Token::Greater(2), 2),
        [b'>', ..] => (Token::Greater(1), 1),
        [b'<', ..] => (Token::Less, 1),
        [
            b'+' | b'-' | b'*' | b'/' | b'%' | b'&' | b'|' | b'^',
            b'=',
            ..,
        ] => (Token::Assign, 2),
        [b'+', b'+', ..] | [b'-', b'-', ..] | [b'&', b'&', ..] => (Token::Sign, 2),
        [b'+' | b'-' | b'*' | b'&', ..] => (Token::Sign, 1),
        [b'=', ..] => (Token::Assign, 1),
        [b'!' | b'~', ..] => (Token::Prefix, 1),
        [b'.', next, ..] if next.is_ascii_digit() => (Token::Literal, number(text)),
        [b'/' | b'%' | b'^' | b'|' | b'.', ..] => (Token::Binary, 1),
        [b'"', rest @ ..] => (Token::Literal, 1 + string(rest)),
        // Only complete character literals count, because not every `'` begins one.
        [b'\'', b'\\', _, b'\'', ..] => (Token::Literal, 4),
        [b'\'', _, b'\'', ..] => (Token::Literal, 3),
        [byte, ..] if byte.is_ascii_digit() => (Token::Literal, number(text)),
        _ => word(text),
    }
}

/// Returns the length of the number at the start of `text`.
fn number(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(&byte) = text.get(at) {
        let next = text.get(at + 1).copied().unwrap_or(0);
        let before = text[at - 1];
        let is_part = is_of_word(byte)
            || byte == b'.'
            || (byte == b'\'' && next.is_ascii_alphanumeric())
            || (matches!(byte, b'+' | b'-') && matches!(before, b'e' | b'E' | b'p' | b'P'));
        if !is_part {
            break;
        }
        at += 1;
    }
    at
}

/// Returns the distance to the end of the first `end` in `text`.
fn through(text: &[u8], end: &[u8]) -> usize {
    let found = text.windows(end.len()).position(|window| window == end);
    found.map_or(text.len(), |at| at + end.len())
}

/// Returns the length of the rest of a string literal, to its quote or to the end of the line.
fn string(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        match text.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') => return at + 1,
            None | Some(b'\n') => return at,
            Some(_) => at += 1,
        }
    }
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// Returns the word at the start of `text`, or the raw string whose prefix it is.
fn word(text: &[u8]) -> (Token<'_>, usize) {
    let length = text.iter().take_while(|&&byte| is_of_word(byte)).count();
    let (word, rest) = text.split_at(length);
    if word.is_empty() {
        return (Token::Other, 1);
    }
    if let [b'"', rest @ ..] = rest
        && [&b"R"[..], b"LR", b"uR", b"UR", b"u8R"].contains(&word)
    {
        // The delimiter of a raw string has at most 16 characters.
        if let Some(name) = rest.iter().take(17).position(|&byte| byte == b'(') {
            let end = [b")", &rest[..name], b"\""].concat();
            return (Token::Literal, length + 1 + through(rest, &end));
        }
    }
    if PREFIXES.contains(&word) {
        return (Token::Prefix, length);
    }
    let operator = OPERATORS.iter().find(|(name, _)| *name == word);
    (
        operator.map_or(Token::Word(word), |&(_, token)| token),
        length,
    )
}
