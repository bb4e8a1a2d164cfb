//! A parser for mangled C++ names, as far as the types of kernels need it.
//!
//! The grammar is that of the Itanium C++ ABI, which NVRTC uses on all systems. Parts that cannot
//! occur in the type of a kernel, such as expressions, are not supported: the result is then
//! `None`.

use std::fmt;

/// A C++ type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// A built-in type, class or enum, by its name in C++.
    Name(String),
    /// A type with the qualifier `const`.
    Const(Box<Type>),
    /// A type with the qualifier `volatile`.
    Volatile(Box<Type>),
    /// A pointer to a type.
    Pointer(Box<Type>),
    /// A function type.
    Function(Vec<Type>),
    /// A reference, array or member pointer, by its name in C++.
    Other(String),
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) | Self::Other(name) => f.write_str(name),
            Self::Const(inner) | Self::Volatile(inner) => {
                let word = match self {
                    Self::Const(_) => "const",
                    _ => "volatile",
                };
                match &**inner {
                    Self::Pointer(_) => write!(f, "{inner} {word}"),
                    _ => write!(f, "{word} {inner}"),
                }
            }
            Self::Pointer(inner) => match &**inner {
                Self::Pointer(_) => write!(f, "{inner}*"),
                _ => write!(f, "{inner} *"),
            },
            Self::Function(parameters) => write!(f, "function ({})", list(parameters)),
        }
    }
}

/// Returns the types separated by commas, as in a C++ parameter list.
pub(crate) fn list(types: &[Type]) -> String {
    let types: Vec<String> = types.iter().map(ToString::to_string).collect();
    types.join(", ")
}

/// A function.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// The name in C++, with namespaces and template arguments.
    pub(crate) name: String,
    /// The first template argument, if it is a type.
    pub(crate) first_argument: Option<Type>,
    /// The types of the parameters. `None` for an instance of a template, whose name contains them
    /// as they are in the template.
    pub(crate) parameters: Option<Vec<Type>>,
}

/// Parses the mangled name of a function.
pub(crate) fn function(mangled: &str) -> Option<Function> {
    let mut parser = Parser {
        rest: mangled.strip_prefix("_Z")?.as_bytes(),
        known: Vec::new(),
        first_argument: None,
        depth: 0,
    };
    let (name, is_template) = parser.function_name()?;
    let parameters = if is_template {
        None
    } else {
        Some(parser.types_until_end()?)
    };
    Some(Function {
        name,
        first_argument: parser.first_argument,
        parameters,
    })
}

/// The name of an anonymous namespace.
pub(crate) const ANONYMOUS: &str = "(anonymous namespace)";

/// The deepest nesting of types that is parsed.
const DEPTH: usize = 100;

struct Parser<'a> {
    rest: &'a [u8],
    /// The candidates for substitution, to which `S_`, `S0_` … refer.
    known: Vec<Type>,
    /// The first template argument of the function, if it is a type.
    first_argument: Option<Type>,
    depth: usize,
}

impl Parser<'_> {
    fn take(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix.as_bytes()) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// Parses the name of a function. Returns it, and whether it is an instance of a template.
    fn function_name(&mut self) -> Option<(String, bool)> {
        if self.rest.first() == Some(&b'N') {
            return self.nested_name(false);
        }
        let name = self.source_name()?;
        if self.rest.first() != Some(&b'I') {
            return Some((name, false));
        }
        self.known.push(Type::Name(name.clone()));
        let arguments = self.template_arguments(true)?;
        Some((format!("{name}{arguments}"), true))
    }

    /// Parses `<length><identifier>`.
    fn source_name(&mut self) -> Option<String> {
        // Internal linkage.
        self.take("L");
        let length = self.number()?;
        let name = self.rest.get(..length)?;
        self.rest = &self.rest[length..];
        let name = std::str::from_utf8(name).ok()?;
        if name.starts_with("_GLOBAL__N_") {
            return Some(ANONYMOUS.to_owned());
        }
        Some(name.to_owned())
    }

    fn number(&mut self) -> Option<usize> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit());
        let (digits, rest) = self.rest.split_at(digits.count());
        self.rest = rest;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }

    /// Parses `N … E`. Returns the name, and whether it ends with template arguments. The whole
    /// name is a candidate for substitution only if it names a type.
    fn nested_name(&mut self, is_type: bool) -> Option<(String, bool)> {
        self.take("N");
        while ["r", "V", "K"].into_iter().any(|word| self.take(word)) {}
        let mut name = String::new();
        // Whether `name` is a new candidate, which is added when the next component follows.
        let mut is_new = false;
        let mut is_template = false;
        while !self.take("E") {
            if is_new {
                self.known.push(Type::Name(name.clone()));
            }
            is_new = true;
            is_template = false;
            match *self.rest.first()? {
                b'S' if name.is_empty() => {
                    self.next();
                    name = self.substitution()?.to_string();
                    is_new = false;
                }
                b'I' => {
                    let arguments = self.template_arguments(!is_type)?;
                    name.push_str(&arguments);
                    is_template = true;
                }
                _ => {
                    let component = self.source_name()?;
                    if !name.is_empty() {
                        name.push_str("::");
                    }
                    name.push_str(&component);
                }
            }
        }
        if is_new && is_type {
            self.known.push(Type::Name(name.clone()));
        }
        Some((name, is_template))
    }

    /// Parses `I … E`, and returns the arguments as C++ writes them. Those of the function itself
    /// are recorded.
    fn template_arguments(&mut self, of_function: bool) -> Option<String> {
        self.take("I");
        let mut texts = Vec::new();
        let mut first = None;
        while !self.take("E") {
            if self.take("L") {
                texts.push(self.literal()?);
            } else if self.take("J") {
                // A pack of arguments.
                while !self.take("E") {
                    texts.push(self.parse_type()?.to_string());
                }
            } else {
                let argument = self.parse_type()?;
                texts.push(argument.to_string());
                if texts.len() == 1 {
                    first = Some(argument);
                }
            }
        }
        if of_function {
            self.first_argument = first;
        }
        Some(format!("<{}>", texts.join(", ")))
    }

    /// Parses an integer after `L`: its type, `n` if it is negative, its digits, and `E`.
    fn literal(&mut self) -> Option<String> {
        let of = self.parse_type()?;
        let sign = if self.take("n") { "-" } else { "" };
        let number = self.number()?;
        self.take("E").then_some(())?;
        Some(match of {
            Type::Name(name) if name == "bool" => (number != 0).to_string(),
            Type::Name(name) if name.contains("int") || name.contains("long") => {
                format!("{sign}{number}")
            }
            // An enum, for example.
            of => format!("({of}){sign}{number}"),
        })
    }

    /// Parses what follows the `S` of a substitution.
    fn substitution(&mut self) -> Option<Type> {
        for (letter, name) in [
            ("t", "std"),
            ("a", "std::allocator"),
            ("b", "std::basic_string"),
            ("s", "std::string"),
        ] {
            if self.take(letter) {
                return Some(Type::Name(name.to_owned()));
            }
        }
        if self.take("_") {
            return self.known.first().cloned();
        }
        let mut index: usize = 0;
        while !self.take("_") {
            let digit = char::from(self.next()?).to_digit(36)?;
            index = index
                .checked_mul(36)?
                .checked_add(usize::try_from(digit).ok()?)?;
        }
        self.known.get(index.checked_add(1)?).cloned()
    }

    /// Parses types up to the end of the text. `v` alone is the empty list.
    fn types_until_end(&mut self) -> Option<Vec<Type>> {
        let mut types = Vec::new();
        while !self.rest.is_empty() {
            types.push(self.parse_type()?);
        }
        Some(without_void(types))
    }

    fn parse_type(&mut self) -> Option<Type> {
        if self.depth >= DEPTH {
            return None;
        }
        self.depth += 1;
        let parsed = self.type_here();
        self.depth -= 1;
        parsed
    }

    fn type_here(&mut self) -> Option<Type> {
        let first = *self.rest.first()?;
        let found = match first {
            b'r' | b'V' | b'K' => {
                // Qualifiers are one candidate, together with the type.
                self.take("r");
                let is_volatile = self.take("V");
                let is_const = self.take("K");
                let mut inner = self.parse_type()?;
                if is_volatile {
                    inner = Type::Volatile(Box::new(inner));
                }
                if is_const {
                    inner = Type::Const(Box::new(inner));
                }
                inner
            }
            b'P' => {
                self.next();
                Type::Pointer(Box::new(self.parse_type()?))
            }
            b'R' | b'O' => {
                self.next();
                let sign = if first == b'R' { "&" } else { "&&" };
                Type::Other(format!("{} {sign}", self.parse_type()?))
            }
            b'A' => {
                self.next();
                let length = self.number().map(|length| length.to_string());
                self.take("_").then_some(())?;
                let element = self.parse_type()?;
                Type::Other(format!("{element}[{}]", length.unwrap_or_default()))
            }
            b'M' => {
                self.next();
                let class = self.parse_type()?;
                Type::Other(format!("{} {class}::*", self.parse_type()?))
            }
            b'F' => self.function_type()?,
            b'D' if self.rest.starts_with(b"DoF") => {
                self.rest = &self.rest[2..];
                self.function_type()?
            }
            b'N' => {
                // The name is a candidate already.
                return Some(Type::Name(self.nested_name(true)?.0));
            }
            b'S' => {
                self.next();
                let is_std = self.rest.first() == Some(&b't');
                let found = self.substitution()?;
                let name = if is_std {
                    Type::Name(format!("std::{}", self.source_name()?))
                } else {
                    found
                };
                if is_std {
                    self.known.push(name.clone());
                }
                return self.with_arguments(name);
            }
            b'L' | b'0'..=b'9' => {
                let name = Type::Name(self.source_name()?);
                self.known.push(name.clone());
                return self.with_arguments(name);
            }
            _ => return self.builtin(),
        };
        self.known.push(found.clone());
        Some(found)
    }

    /// Parses the template arguments that may follow a type.
    fn with_arguments(&mut self, name: Type) -> Option<Type> {
        if self.rest.first() != Some(&b'I') {
            return Some(name);
        }
        let found = Type::Name(format!("{name}{}", self.template_arguments(false)?));
        self.known.push(found.clone());
        Some(found)
    }

    /// Parses `F <return type> <parameter types> E`.
    fn function_type(&mut self) -> Option<Type> {
        self.take("F");
        self.take("Y");
        self.parse_type()?;
        let mut parameters = Vec::new();
        while !self.take("E") {
            parameters.push(self.parse_type()?);
        }
        Some(Type::Function(without_void(parameters)))
    }

    /// Parses a built-in type, which is not a candidate for substitution.
    fn builtin(&mut self) -> Option<Type> {
        let name = match self.next()? {
            b'v' => "void",
            b'b' => "bool",
            b'c' => "char",
            b'a' => "signed char",
            b'h' => "unsigned char",
            b's' => "short",
            b't' => "unsigned short",
            b'i' => "int",
            b'j' => "unsigned int",
            b'l' => "long",
            b'm' => "unsigned long",
            b'x' => "long long",
            b'y' => "unsigned long long",
            b'n' => "__int128",
            b'o' => "unsigned __int128",
            b'f' => "float",
            b'd' => "double",
            b'e' => "long double",
            b'g' => "__float128",
            b'w' => "wchar_t",
            b'D' => match self.next()? {
                b'i' => "char32_t",
                b's' => "char16_t",
                b'u' => "char8_t",
                b'n' => "std::nullptr_t",
                _ => return None,
            },
            _ => return None,
        };
        Some(Type::Name(name.to_owned()))
    }
}

fn without_void(mut types: Vec<Type>) -> Vec<Type> {
    if matches!(&types[..], [Type::Name(name)] if name == "void") {
        types.clear();
    }
    types
}

#[cfg(test)]
mod tests;
