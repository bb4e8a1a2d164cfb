//! How deep a source is nested, as far as that can be seen without a parser.
//!
//! NVRTC's parser has no limit of its own: it recurses until its stack ends, and that ends the process. Macros can
//! nest deeper than what is seen here, and headers on disk are not looked at.

use std::borrow::Cow;

use crate::Error;

/// The stack that one level costs at most, with room to spare: NVRTC 12.0 to 13.5 were seen to need up to half.
const PER_LEVEL: usize = 8 << 10;

/// Refuses a text that could not be parsed on a stack of `stack` bytes.
pub(crate) fn check(place: &str, text: &[u8], stack: usize) -> Result<(), Error> {
    let limit = stack / PER_LEVEL;
    // No text is nested deeper than it is long.
    if text.len() <= limit {
        return Ok(());
    }
    let depth = depth(text);
    if depth <= limit {
        return Ok(());
    }
    Err(Error::TooDeep {
        place: place.to_owned(),
        depth,
        limit,
        stack,
    })
}

/// The most brackets that are open at once, with the prefix operators in a row before them.
fn depth(text: &[u8]) -> usize {
    let text = joined(text);
    let (mut open, mut run, mut deepest) = (0_usize, 0_usize, 0_usize);
    let mut rest = &*text;
    while !rest.is_empty() {
        let (piece, length) = piece(rest);
        match piece {
            Piece::Open => open += 1,
            Piece::Close => {
                open = open.saturating_sub(1);
                run = 0;
            }
            Piece::Prefix => run += 1,
            Piece::Space => {}
            Piece::Other => run = 0,
        }
        deepest = deepest.max(open + run);
        rest = rest.get(length..).unwrap_or_default();
    }
    deepest
}

/// The text with the lines joined that end with a backslash, as a compiler first does.
fn joined(text: &[u8]) -> Cow<'_, [u8]> {
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

/// What a text is made of, as far as it matters here.
#[derive(Clone, Copy)]
enum Piece {
    Open,
    Close,
    Prefix,
    /// White space or a comment.
    Space,
    /// A word, a literal, or another character.
    Other,
}

/// The piece that `text` begins with, and its length. What should end and does not is as long as the text.
fn piece(text: &[u8]) -> (Piece, usize) {
    match text {
        [b'/', b'*', rest @ ..] => (Piece::Space, 2 + through(rest, b"*/")),
        [b'/', b'/', rest @ ..] => (Piece::Space, 2 + through(rest, b"\n")),
        // C++ takes these for `<` and `::`.
        [b'<', b':', b':', next, ..] if !matches!(next, b':' | b'>') => (Piece::Other, 3),
        [b'<', b'%' | b':', ..] => (Piece::Open, 2),
        [b'%', b':', ..] | [b':', b':', ..] => (Piece::Other, 2),
        [b'%' | b':', b'>', ..] => (Piece::Close, 2),
        [b'(' | b'[' | b'{', ..] => (Piece::Open, 1),
        [b')' | b']' | b'}', ..] => (Piece::Close, 1),
        [b'!' | b'~' | b'-' | b'+' | b'*' | b'&', ..] => (Piece::Prefix, 1),
        [b' ' | b'\t' | b'\r' | b'\n' | b'\x0b' | b'\x0c', ..] => (Piece::Space, 1),
        [b'"', rest @ ..] => (Piece::Other, 1 + string(rest)),
        // No other character matters: not every one of these begins a literal.
        [b'\'', b'\\', _, b'\'', ..] => (Piece::Other, 4),
        [b'\'', _, b'\'', ..] => (Piece::Other, 3),
        _ => (Piece::Other, word(text).max(1)),
    }
}

/// How far the first `end` reaches in `text`.
fn through(text: &[u8], end: &[u8]) -> usize {
    let found = text.windows(end.len()).position(|window| window == end);
    found.map_or(text.len(), |at| at + end.len())
}

/// How far a string reaches that has begun before `text`: to its end, or to that of the line.
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

/// How far the word at the beginning of `text` reaches, with the raw string that it may begin.
fn word(text: &[u8]) -> usize {
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
    let length = text.iter().take_while(|byte| is_of_word(byte)).count();
    let (word, rest) = text.split_at(length);
    let [b'"', rest @ ..] = rest else {
        return length;
    };
    if ![&b"R"[..], b"LR", b"uR", b"UR", b"u8R"].contains(&word) {
        return length;
    }
    // No name of an end is longer than 16.
    let Some(name) = rest.iter().take(17).position(|&byte| byte == b'(') else {
        return length;
    };
    let end = [b")", &rest[..name], b"\""].concat();
    length + 1 + through(rest, &end)
}

#[cfg(test)]
mod tests {
    use super::{check, depth};
    use crate::Error;

    #[test]
    fn brackets_and_prefixes_nest() {
        assert_eq!(depth(b""), 0);
        assert_eq!(depth(b"f(a[b(c)], {d})"), 3);
        assert_eq!(depth(b")))((x) + 1"), 2);
        assert_eq!(depth(b"x = - - -(-y);"), 5);
        assert_eq!(depth(b"a-b-c-d"), 1);
    }

    #[test]
    fn brackets_of_two_characters_are_brackets() {
        assert_eq!(depth(b"f<:g<:0:>:>; <% <% <%"), 3);
        assert_eq!(depth(b"<%%><%%><::>"), 1);
        assert_eq!(depth(b"A<::b> B<::c> %:define X"), 0);
        assert_eq!(depth(b"<\\\n%<\\\r\n:"), 2);
    }

    #[test]
    fn comments_are_space_and_literals_are_operands() {
        assert_eq!(depth(b"- /* a */ - // b\n - (y)"), 4);
        assert_eq!(depth(b"( /*)*/ ( //)\n ( // \\\n)\n ("), 4);
        assert_eq!(depth(b"/* ((( */ // (((\n x"), 0);
        assert_eq!(depth(b"- \"a\" - 'b' - 1"), 1);
        assert_eq!(
            depth(b"f(\"/*\", \"http://x\", \"\\\"((\", '\"', '\\'', '(') (("),
            2
        );
        assert_eq!(depth(b"1'000'(("), 2);
        assert_eq!(depth(b"R\"x(\" )\" (( )x\" (( u8R\"((()\" \"(\n ("), 3);
        // Not raw ones.
        assert_eq!(depth(b"AR\"(\" (("), 2);
        // What has no end.
        for text in [&b"(( /* )("[..], b"(( R\"x( )\" (", b"(( \"(", b"(( //("] {
            assert_eq!(depth(text), 2, "{text:?}");
        }
        for text in [&b"'"[..], b"'\\", b"\"\\", b"R\"", b"/", b"<", b"<:", b"\\"] {
            assert!(depth(text) <= 1, "{text:?}");
        }
    }

    #[test]
    fn looking_takes_time_in_proportion_to_the_length() {
        for text in ["/*", "//", "\"", "R\"(", "'", "<:", "\\\n", "R\"abc"] {
            let start = std::time::Instant::now();
            depth(text.repeat(1 << 18).as_bytes());
            let took = start.elapsed();
            assert!(
                took < std::time::Duration::from_secs(10),
                "{text}: {took:?}"
            );
        }
    }

    #[test]
    fn the_limit_follows_the_stack() {
        let text = vec![b'('; 5000];
        assert!(check("a", &text, 256 << 20).is_ok());
        let error = check("a", &text, 8 << 20).unwrap_err();
        let Error::TooDeep { depth, limit, .. } = error else {
            panic!("{error}");
        };
        assert_eq!((depth, limit), (5000, 1024));
    }
}
