//! Beginnings for new names.

use std::collections::HashSet;

/// Returns the first of `word0_`, `word1_` and so on that no text contains. The time is linear in
/// the length of the texts, whatever they contain.
pub(crate) fn unused<'t>(word: &str, texts: impl Iterator<Item = &'t str>) -> String {
    let mut used: HashSet<u64> = HashSet::new();
    for text in texts {
        for (at, _) in text.match_indices(word) {
            let rest = text.get(at + word.len()..).unwrap_or_default();
            let length = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (digits, rest) = rest.split_at(length);
            // A number with a leading zero is not one of these beginnings.
            let is_number = digits == "0" || !digits.starts_with('0');
            if is_number
                && rest.starts_with('_')
                && let Ok(number) = digits.parse()
            {
                used.insert(number);
            }
        }
    }
    let mut numbers = 0..;
    let number: u64 = numbers.find(|it| !used.contains(it)).unwrap_or_default();
    format!("{word}{number}_")
}

#[cfg(test)]
mod tests {
    use super::unused;

    #[test]
    fn the_first_number_that_no_text_has_is_taken() {
        let of = |texts: &[&str]| unused("inl", texts.iter().copied());
        assert_eq!(of(&[]), "inl0_");
        assert_eq!(of(&["inl0", "inl00_", "inl_", "chk0_"]), "inl0_");
        assert_eq!(of(&["%inl0_a", "xinlinl2_", "inl1_inl4_"]), "inl3_");
        let all: Vec<String> = (0..50_000).map(|number| format!("inl{number}_")).collect();
        assert_eq!(of(&[&all.concat()]), "inl50000_");
    }
}
