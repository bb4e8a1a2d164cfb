//! How deep a source is nested, as far as that can be seen without a parser.
//!
//! NVRTC's parser has no limit of its own: it recurses until its stack ends, and that ends the process. Macros can
//! nest deeper than what is seen here.

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
    let (mut open, mut run, mut deepest) = (0_usize, 0_usize, 0_usize);
    for byte in text {
        match byte {
            b'(' | b'[' | b'{' => {
                open += 1;
            }
            b')' | b']' | b'}' => {
                open = open.saturating_sub(1);
                run = 0;
            }
            b'!' | b'~' | b'-' | b'+' | b'*' | b'&' => run += 1,
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => run = 0,
        }
        deepest = deepest.max(open + run);
    }
    deepest
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
