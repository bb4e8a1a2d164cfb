//! Parsing versions and sizes.

/// Parses two numbers of at most two digits with a dot between them.
pub(crate) fn pair(text: &str) -> Option<(u32, u32)> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|&number| number < 100);
    let (major, minor) = text.split_once('.')?;
    Some((number(major)?, number(minor)?))
}

/// Parses a number of bytes, which may end with `K`, `M` or `G`.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 10),
        b'M' | b'm' => (&text[..text.len() - 1], 20),
        b'G' | b'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::{bytes, pair};

    #[test]
    fn sizes_and_versions() {
        assert_eq!(bytes("12"), Some(12));
        assert_eq!(bytes("3k"), Some(3072));
        assert_eq!(bytes("2G"), Some(2_147_483_648));
        assert_eq!(bytes("99999999999G"), None);
        assert_eq!(bytes("G"), None);
        assert_eq!(bytes(""), None);
        assert_eq!(pair("12.2"), Some((12, 2)));
        assert_eq!(pair("12"), None);
        assert_eq!(pair("4000000000.1"), None);
    }
}
