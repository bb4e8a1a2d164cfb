//! The types of numbers that the pointers among the parameters of a kernel point to, as the CUDA
//! C++ source states them.
//!
//! The mangled name of a kernel states them, too, but a kernel that is declared `extern "C"` has no
//! mangled name. Its declaration is read here, without the preprocessor: a type that is not one of
//! the built-in types is not known, and nothing is known about a kernel that the source declares
//! twice with different types.

use std::collections::HashMap;

use crate::module::Pointees;
use crate::types::Number;

/// The words of a parameter that do not change the type that it points to.
const IGNORED: [&str; 5] = [
    "const",
    "volatile",
    "__restrict__",
    "__restrict",
    "__grid_constant__",
];

/// Returns the types for each kernel that `source` defines or declares.
pub(super) fn of_source(source: &[u8]) -> HashMap<String, Pointees> {
    let text = String::from_utf8_lossy(source);
    let tokens = tokens(&text);
    let mut found: HashMap<String, Pointees> = HashMap::new();
    if redefines_a_type(&tokens) {
        return found;
    }
    let starts = (0..tokens.len()).filter(|at| tokens[*at] == "__global__");
    for (name, parameters) in starts.filter_map(|at| kernel(&tokens[at + 1..])) {
        let pointees: Pointees = list(parameters).map(pointee).collect();
        found
            .entry(name.to_owned())
            .and_modify(|known| {
                if *known != pointees {
                    *known = Pointees::default();
                }
            })
            .or_insert(pointees);
    }
    found
}

/// Returns whether a macro has the name of a built-in type.
fn redefines_a_type(tokens: &[&str]) -> bool {
    let is_type = |word: &str| number(&[word]).is_some() || matches!(word, "signed" | "unsigned");
    tokens
        .windows(3)
        .any(|it| it[0] == "#" && it[1] == "define" && is_type(it[2]))
}

/// Splits a text into words and single characters, without comments and literals.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if first == '"' || first == '\'' {
            literal(rest, first)
        } else if is_word(first) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            tokens.push(&rest[..end]);
            end
        } else {
            if !first.is_whitespace() {
                tokens.push(&rest[..first.len_utf8()]);
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the length of a literal. It ends at the end of the line if it is not closed, as the
/// apostrophe in the number `1'000`.
fn literal(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\n' => return 1,
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    1
}

/// Returns the name and the parameters of a kernel, from the tokens after `__global__`.
fn kernel<'a, 'b>(tokens: &'b [&'a str]) -> Option<(&'a str, &'b [&'a str])> {
    let mut at = 0;
    loop {
        let open = at
            + tokens[at..]
                .iter()
                .position(|it| matches!(*it, "(" | ";" | "{"))?;
        let close = open + closing(&tokens[open..])?;
        let name = *tokens.get(open.checked_sub(1)?)?;
        match name {
            // An attribute of the kernel stands before its name.
            "__launch_bounds__" | "__maxnreg__" | "__cluster_dims__" | "__block_size__" => {
                at = close + 1;
            }
            _ if tokens[open] == "(" && is_word(name.chars().next()?) => {
                return Some((name, &tokens[open + 1..close]));
            }
            _ => return None,
        }
    }
}

/// Returns the index of the parenthesis that closes the first one.
fn closing(tokens: &[&str]) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "(" => depth += 1,
            ")" if depth == 1 => return Some(at),
            ")" => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

/// Splits parameters at the commas outside of brackets.
fn list<'a, 'b>(tokens: &'b [&'a str]) -> impl Iterator<Item = &'b [&'a str]> {
    let mut depth = 0_i32;
    tokens.split(move |token| {
        match *token {
            "(" | "<" | "[" | "{" => depth += 1,
            ")" | ">" | "]" | "}" => depth -= 1,
            _ => {}
        }
        *token == "," && depth == 0
    })
}

/// Returns the type that a parameter points to, if it is a pointer to numbers.
fn pointee(parameter: &[&str]) -> Option<Number> {
    let words = |tokens: &[&'_ str]| -> Vec<String> {
        let kept = tokens.iter().filter(|it| !IGNORED.contains(it));
        kept.map(|it| (*it).to_owned()).collect()
    };
    let star = parameter.iter().position(|it| *it == "*")?;
    let (before, after) = (words(&parameter[..star]), words(&parameter[star + 1..]));
    // Behind the star there is the name, or nothing.
    let is_name = |word: &String| word.chars().all(is_word);
    if after.len() > 1 || !after.iter().all(is_name) {
        return None;
    }
    let before: Vec<&str> = before.iter().map(String::as_str).collect();
    number(&before)
}

/// Returns the built-in type of these words. The size of `long` depends on the system, and one byte
/// fits everything.
fn number(words: &[&str]) -> Option<Number> {
    Some(match *words {
        ["float"] => Number::F32,
        ["double"] => Number::F64,
        ["short"] | ["short", "int"] | ["signed", "short"] | ["int16_t"] => Number::I16,
        ["unsigned", "short"] | ["unsigned", "short", "int"] | ["uint16_t"] => Number::U16,
        ["int"] | ["signed"] | ["signed", "int"] | ["int32_t"] => Number::I32,
        ["unsigned"] | ["unsigned", "int"] | ["uint32_t"] => Number::U32,
        ["long", "long"] | ["long", "long", "int"] | ["int64_t"] => Number::I64,
        ["unsigned", "long", "long"] | ["unsigned", "long", "long", "int"] | ["uint64_t"] => {
            Number::U64
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::of_source;

    fn names(source: &str, kernel: &str) -> String {
        let found = of_source(source.as_bytes());
        let Some(pointees) = found.get(kernel) else {
            return "?".to_owned();
        };
        let names = pointees.iter().map(|it| it.map_or("-", |it| it.name()));
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn declarations_are_read() {
        for (parameters, expected) in [
            ("float *x, float a, unsigned n", "f32 - -"),
            ("const float* __restrict__ x, double *const y", "f32 f64"),
            ("float const *x, unsigned long long *n", "f32 u64"),
            ("Real *x, float4 *y, void *z, float **w", "- - - -"),
            ("float x[], float (*f)(int, int), T<int, 2> *t", "- - -"),
            ("", "-"),
            ("int * /* the , result */ result", "i32"),
            ("uint32_t *x, unsigned char *y, long *z", "u32 - -"),
        ] {
            let source = format!("extern \"C\" __global__ void k({parameters}) {{ f(x, y); }}");
            assert_eq!(names(&source, "k"), expected, "{parameters}");
        }
    }

    #[test]
    fn attributes_stand_before_the_name() {
        let bounds = "extern \"C\" __global__ void __launch_bounds__(256, 2) k(float *x) {}";
        assert_eq!(names(bounds, "k"), "f32");
        let before = "extern \"C\" __launch_bounds__(64) __global__ void k(double *x);";
        assert_eq!(names(before, "k"), "f64");
    }

    #[test]
    fn nothing_is_known_about_texts_that_the_preprocessor_changes() {
        let twice = "#ifdef D\n__global__ void k(double *x);\n#else\n__global__ void k(float *x);";
        assert_eq!(names(twice, "k"), "");
        let again = "__global__ void k(float *x);\n__global__ void k(float *y) {}";
        assert_eq!(names(again, "k"), "f32");
        assert_eq!(
            names("#define float double\n__global__ void k(float *x) {}", "k"),
            "?"
        );
        assert_eq!(
            names("// __global__ void k(float *x) {}\nint x = 1'000;", "k"),
            "?"
        );
        assert_eq!(
            names("const char *s = \"__global__ void k(float *x)\";", "k"),
            "?"
        );
        for broken in [
            "__global__",
            "__global__ void k(",
            "__global__ k;",
            "__global__ (",
        ] {
            assert_eq!(names(broken, "k"), "?", "{broken}");
        }
    }
}
