//! The kernels of a PTX text and their parameters, against which launches are checked.

/// A kernel and its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    /// The name in the image.
    pub kernel: String,
    /// The parameters, in order.
    pub parameters: Vec<Parameter>,
}

/// A parameter of a kernel: its location in the parameter block, and what the PTX states about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Parameter {
    /// The offset in bytes.
    pub offset: usize,
    /// The size in bytes.
    pub size: usize,
    /// The kind of its type.
    pub kind: ParameterKind,
    /// The name in the PTX, unless a compiler generated it from the name of the kernel
    /// (`scale_param_0`).
    pub name: Option<String>,
}

/// The kind of a parameter's type. Together with the size it gives the PTX type: an `Unsigned` of 4
/// bytes is `.u32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ParameterKind {
    /// The type is not known. The driver, for example, describes only offsets and sizes.
    #[default]
    Unknown,
    /// `.b32`: a number or any other value of this size.
    Bits,
    /// `.u32`. Compilers also declare pointers and signed integers as unsigned ones.
    Unsigned,
    /// `.s32`.
    Signed,
    /// `.f32`.
    Float,
    /// `.b8 name[12]`: a struct or an array.
    Array,
}

/// Returns the signature of each `.entry` of `text`; `None` if a parameter list does not follow the
/// PTX manual.
///
/// Only `.entry` directives are parsed, so errors elsewhere in the text are not detected.
pub(super) fn read(text: &str) -> Option<Vec<Signature>> {
    let mut words = Words { rest: text };
    let mut signatures = Vec::new();
    while let Some(word) = words.next() {
        if word == ".entry" {
            let kernel = words.next().filter(|name| is_name(name))?.to_owned();
            signatures.push(Signature {
                parameters: parameters(&mut words, &kernel)?,
                kernel,
            });
        }
    }
    Some(signatures)
}

/// Parses the list after a kernel's name, such as `( .param .u64 a, .param .align 4 .b8 b[12] )`.
/// The list may be absent.
fn parameters(words: &mut Words<'_>, kernel: &str) -> Option<Vec<Parameter>> {
    let mut found: Vec<Parameter> = Vec::new();
    if words.peek()? != "(" {
        return Some(found);
    }
    words.next();
    let mut word = words.next()?;
    while word != ")" {
        if word == "," {
            word = words.next()?;
        }
        if word != ".param" {
            return None;
        }
        let (mut align, mut ty) = (None, None);
        word = words.next()?;
        while word.starts_with('.') {
            match word {
                // `.ptr .global .align 16` describes the memory pointed to, not the layout of the
                // parameter.
                ".ptr" => {
                    word = words.next()?;
                    while word.starts_with('.') {
                        let is_align = word == ".align";
                        word = words.next()?;
                        if is_align {
                            word = words.next()?;
                        }
                    }
                    continue;
                }
                ".align" => align = Some(words.next()?.parse::<usize>().ok()?),
                other => ty = Some(type_of(other)?),
            }
            word = words.next()?;
        }
        let (mut kind, width) = ty.filter(|_| is_name(word))?;
        let name = declared_name(word, kernel).map(str::to_owned);
        let mut size = width;
        word = words.next()?;
        if word == "[" {
            kind = ParameterKind::Array;
            size = width.checked_mul(words.next()?.parse().ok()?)?;
            if words.next()? != "]" {
                return None;
            }
            word = words.next()?;
        }
        let align = align.unwrap_or(width);
        let end = found.last().map_or(0, |last| last.offset + last.size);
        let offset = end.checked_next_multiple_of(align)?;
        offset.checked_add(size)?;
        found.push(Parameter {
            offset,
            size,
            kind,
            name,
        });
    }
    Some(found)
}

/// Returns the name of a parameter, unless a compiler generated it: `<kernel>_param_<index>`.
fn declared_name<'a>(name: &'a str, kernel: &str) -> Option<&'a str> {
    let index = name.strip_prefix(kernel);
    let index = index.and_then(|rest| rest.strip_prefix("_param_"));
    index
        .is_none_or(|it| it.parse::<u32>().is_err())
        .then_some(name)
}

/// Returns the kind and the size in bytes of a type: `.u64`, `.f32`, `.b8`.
fn type_of(word: &str) -> Option<(ParameterKind, usize)> {
    let digits = word.trim_start_matches(|c: char| !c.is_ascii_digit());
    let kind = match &word[..word.len() - digits.len()] {
        ".b" => ParameterKind::Bits,
        ".u" => ParameterKind::Unsigned,
        ".s" => ParameterKind::Signed,
        ".f" => ParameterKind::Float,
        _ => return None,
    };
    let bits: usize = digits.parse().ok()?;
    matches!(bits, 8 | 16 | 32 | 64 | 128).then_some((kind, bits / 8))
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$' | '%'))
}

/// An iterator over the words of a PTX text: names, directives, numbers and punctuation characters.
/// Comments and strings are skipped.
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    fn peek(&mut self) -> Option<&'a str> {
        let before = self.rest;
        let word = self.next();
        self.rest = before;
        word
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            self.rest = self.rest.trim_start();
            if let Some(comment) = self.rest.strip_prefix("//") {
                self.rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
            } else if let Some(comment) = self.rest.strip_prefix("/*") {
                self.rest = comment.split_once("*/").map_or("", |(_, rest)| rest);
            } else if let Some(string) = self.rest.strip_prefix('"') {
                self.rest = string.split_once('"').map_or("", |(_, rest)| rest);
            } else {
                break;
            }
        }
        let first = self.rest.chars().next()?;
        let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.');
        let len = if part(first) {
            let behind = &self.rest[first.len_utf8()..];
            // A directive ends where the next one begins: `.align.b8` is two directives.
            let stop = |c: char| !part(c) || c == '.';
            first.len_utf8() + behind.find(stop).unwrap_or(behind.len())
        } else {
            first.len_utf8()
        };
        let (word, rest) = self.rest.split_at(len);
        self.rest = rest;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::{Parameter, ParameterKind, read};

    fn sizes(text: &str) -> Vec<(String, Vec<(usize, usize)>)> {
        let pairs = |list: &[Parameter]| list.iter().map(|p| (p.offset, p.size)).collect();
        read(text)
            .unwrap()
            .iter()
            .map(|s| (s.kernel.clone(), pairs(&s.parameters)))
            .collect()
    }

    #[test]
    fn parameter_offsets_follow_sizes_and_alignments() {
        let text = "// .entry commented(.param .u8 x)\n/* .entry too( */ .version 8.4\n\
            .visible .entry _Z1kPf( .param .u64 .ptr .global .align 16 a, .param .u32 n, .param .f64 d )\n{ ret; }\n\
            .visible .entry s(\n\t.param .align 8 .b8 s_param_0[24],\n\t.param .u8 c,\n\t.param.align 4.b8 v[12]\n)\n\
            .maxntid 256, 1, 1 { ret; }\n.entry none { ret; }\n.entry empty() { ret; }\n.func f(.param .b32 x) { ret; }";
        let want = [
            ("_Z1kPf", vec![(0, 8), (8, 4), (16, 8)]),
            ("s", vec![(0, 24), (24, 1), (28, 12)]),
            ("none", vec![]),
            ("empty", vec![]),
        ];
        let want = want.map(|(name, list)| (name.to_owned(), list));
        assert_eq!(sizes(text), want);
    }

    #[test]
    fn parameters_have_kinds_and_declared_names() {
        let text = ".entry k(.param .f32 k_param_0, .param .u64 .ptr .global .align 4 x, .param .s32 k_param_x,\n\
            .param .b64 k_param_3, .param .align 4 .b8 k_param_4[8], .param .b8 j_param_5) { ret; }";
        let found = read(text).unwrap().remove(0).parameters;
        let found: Vec<_> = found
            .iter()
            .map(|it| (it.kind, it.name.as_deref()))
            .collect();
        let want = [
            (ParameterKind::Float, None),
            (ParameterKind::Unsigned, Some("x")),
            (ParameterKind::Signed, Some("k_param_x")),
            (ParameterKind::Bits, None),
            (ParameterKind::Array, None),
            (ParameterKind::Bits, Some("j_param_5")),
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn invalid_parameter_lists_give_no_signature() {
        let text = ".entry k(.param .align 8 .b8 s[24], .param .u64 p) { ret; }";
        assert!(read(text).is_some());
        for end in 0..text.len() {
            let _ = read(&text[..end]);
        }
        for wrong in [
            ".entry k(.param .u65 x)",
            ".entry k(.reg .u64 x)",
            ".entry k(.param .u64)",
            ".entry k(.param .b8 x[-1])",
            ".entry k(.param .align 0 .b8 x[1])",
            ".entry k(.param .b64 x[99999999999999999999])",
            ".entry 12()",
            ".entry \u{1F980}(",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
