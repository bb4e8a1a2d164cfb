//! The message for a kernel that a module does not have: the kernels that exist, and how C++ names
//! are looked up.

use std::fmt;

/// The most names of kernels that a message lists.
const MOST_NAMES: usize = 10;

/// Writes what a program can look up instead of `name`.
pub(super) fn write_kernels(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    kernels: Option<&[String]>,
) -> fmt::Result {
    let Some(kernels) = kernels else {
        return f.write_str(
            "its kernels are not listed; a kernel declared as `extern \"C\" __global__` can be \
             looked up by its plain name",
        );
    };
    let wanted = plain(name);
    let mut names: Vec<&str> = kernels.iter().map(String::as_str).collect();
    names.sort_by_cached_key(|it| {
        let by_identifier = distance(wanted, identifier(it).unwrap_or(it));
        by_identifier.min(distance(name, it))
    });
    match *names {
        [] => f.write_str("it has no kernels")?,
        [only] => write!(f, "its only kernel is {only}")?,
        _ => {
            let shown = names.len().min(MOST_NAMES);
            write!(
                f,
                "its kernels, the nearest name first, are {}",
                names[..shown].join(", ")
            )?;
            if names.len() > shown {
                write!(f, " and {} more", names.len() - shown)?;
            }
        }
    }
    let mangled = names.iter().find(|it| identifier(it) == Some(wanted));
    match mangled {
        _ if name.contains('<') => write!(
            f,
            "; a template is compiled only for the name expressions that the compiler is given: \
             add {name:?} to them"
        ),
        Some(mangled) => write!(
            f,
            "; C++ has mangled the name: look up {mangled:?}, or declare the kernel as \
             `extern \"C\" __global__`"
        ),
        None => Ok(()),
    }
}

/// Returns the last identifier of a C++ name: `scale` of `math::scale<float>`.
fn plain(name: &str) -> &str {
    let name = name.split('<').next().unwrap_or(name);
    let name = name.rsplit("::").next().unwrap_or(name);
    name.trim()
}

/// Returns the last identifier of a name that C++ mangled: `scale` of `_ZN4math5scaleEPf`.
fn identifier(mangled: &str) -> Option<&str> {
    let mut rest = mangled.strip_prefix("_Z")?;
    rest = rest.strip_prefix('N').unwrap_or(rest);
    let mut found = None;
    loop {
        let behind = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let Ok(length) = rest[..rest.len() - behind.len()].parse::<usize>() else {
            return found;
        };
        let (identifier, behind) = behind.split_at_checked(length)?;
        found = Some(identifier);
        rest = behind;
    }
}

/// Returns the number of characters that must be inserted, removed or replaced to turn one name
/// into the other. Upper and lower case are the same.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, c) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (index, d) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(!c.eq_ignore_ascii_case(d));
            diagonal = row[index + 1];
            row[index + 1] = replaced.min(diagonal + 1).min(row[index] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::{distance, identifier, plain};

    #[test]
    fn distances_count_edits() {
        assert_eq!(distance("scale", "Scale"), 0);
        assert_eq!(distance("scale", "scael"), 2);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn identifiers_are_the_last_part_of_a_name() {
        assert_eq!(identifier("_Z5scalePf"), Some("scale"));
        assert_eq!(identifier("_ZN4math5scaleEPf"), Some("scale"));
        assert_eq!(identifier("_Z5scaleIfEvPT_"), Some("scale"));
        assert_eq!(identifier("scale"), None);
        assert_eq!(identifier("_Z"), None);
        assert_eq!(identifier("_Z9scale"), None);
        assert_eq!(identifier("_Z99999999999999999999999x"), None);
        assert_eq!(plain("math::scale<float>"), "scale");
        assert_eq!(plain("scale"), "scale");
    }
}
