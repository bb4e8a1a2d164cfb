//! The types of numbers that the pointers among the parameters of a kernel point to, as the mangled
//! name of the kernel states them.
//!
//! The grammar is that of the Itanium C++ ABI, which NVIDIA's compilers use on all systems. Only
//! what most kernels have is parsed. The types after anything else are not known.

use crate::types::Number;

/// The type that each pointer among the parameters points to; `None` for other parameters, and if
/// it is not known.
pub(crate) type Pointees = Box<[Option<Number>]>;

/// Reads the types in the mangled name of a kernel. The result is empty for any other name.
pub(crate) fn of_mangled(name: &str) -> Pointees {
    let Some(rest) = name.strip_prefix("_Z") else {
        return Pointees::default();
    };
    let mut parser = Parser {
        rest: rest.as_bytes(),
        known: Vec::new(),
        arguments: Vec::new(),
    };
    let mut pointees = Vec::new();
    // Fails at the first part that is not parsed.
    let _ = parser.parameters(&mut pointees);
    pointees.into()
}

/// A type. Only numbers and pointers to numbers are distinguished.
#[derive(Clone, Copy)]
enum Type {
    Number(Number),
    PointerTo(Number),
    Other,
}

struct Parser<'a> {
    rest: &'a [u8],
    /// The candidates for substitution, to which `S_`, `S0_` … refer.
    known: Vec<Type>,
    /// The template arguments of the kernel, to which `T_`, `T0_` … refer.
    arguments: Vec<Type>,
}

impl Parser<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.rest.first() == Some(&byte);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    /// Parses the name of the kernel, and then its parameters.
    fn parameters(&mut self, pointees: &mut Vec<Option<Number>>) -> Option<()> {
        let is_template = self.name()?;
        if is_template {
            // The type of the result, which only the names of templates have.
            self.ty()?;
        }
        while !self.rest.is_empty() {
            pointees.push(match self.ty()? {
                Type::PointerTo(number) => Some(number),
                Type::Number(_) | Type::Other => None,
            });
        }
        Some(())
    }

    /// Parses the name of the kernel. Returns whether it is an instance of a template.
    fn name(&mut self) -> Option<bool> {
        if !self.take(b'N') {
            self.take(b'L');
            self.identifier()?;
            let is_template = self.rest.first() == Some(&b'I');
            if is_template {
                self.known.push(Type::Other);
                self.template_arguments()?;
            }
            return Some(is_template);
        }
        let mut is_template = false;
        loop {
            match *self.rest.first()? {
                b'E' => {
                    self.next();
                    // The last prefix is the name itself, to which nothing refers.
                    return Some(is_template);
                }
                b'I' => {
                    self.template_arguments()?;
                    is_template = true;
                    if self.rest.first() != Some(&b'E') {
                        self.known.push(Type::Other);
                    }
                }
                _ => {
                    self.take(b'L');
                    self.identifier()?;
                    is_template = false;
                    self.arguments.clear();
                    if self.rest.first() != Some(&b'E') {
                        self.known.push(Type::Other);
                    }
                }
            }
        }
    }

    fn identifier(&mut self) -> Option<()> {
        let mut length = 0_usize;
        while let Some(digit) = self.rest.first().filter(|byte| byte.is_ascii_digit()) {
            length = length.checked_mul(10)? + usize::from(digit - b'0');
            self.next();
        }
        self.rest = self.rest.get(length..).filter(|_| length > 0)?;
        Some(())
    }

    fn template_arguments(&mut self) -> Option<()> {
        if !self.take(b'I') {
            return None;
        }
        let mut arguments = Vec::new();
        while !self.take(b'E') {
            if self.take(b'L') {
                // A number, such as `Lj256E`.
                self.ty()?;
                let end = self.rest.iter().position(|byte| *byte == b'E')?;
                self.rest = &self.rest[end + 1..];
                arguments.push(Type::Other);
            } else {
                arguments.push(self.ty()?);
            }
        }
        self.arguments = arguments;
        Some(())
    }

    fn ty(&mut self) -> Option<Type> {
        let first = *self.rest.first()?;
        match first {
            b'0'..=b'9' => {
                self.identifier()?;
                // An instance of a class template would follow.
                if self.rest.first() == Some(&b'I') {
                    return None;
                }
                self.known.push(Type::Other);
                return Some(Type::Other);
            }
            _ => self.next(),
        };
        let compound = match first {
            b'P' => match self.ty()? {
                Type::Number(number) => Type::PointerTo(number),
                Type::PointerTo(_) | Type::Other => Type::Other,
            },
            b'V' => {
                self.take(b'K');
                self.ty()?
            }
            b'K' => self.ty()?,
            b'T' => {
                let index = self.index()?;
                self.arguments.get(index).copied()?
            }
            b'S' => {
                let index = self.index()?;
                return self.known.get(index).copied();
            }
            letter => return builtin(letter),
        };
        self.known.push(compound);
        Some(compound)
    }

    /// Parses the number of a candidate or an argument: `_` is the first, `0_` the second.
    fn index(&mut self) -> Option<usize> {
        let mut index = None;
        loop {
            let digit = match self.next()? {
                b'_' => return Some(index.map_or(0, |index: usize| index + 1)),
                digit @ b'0'..=b'9' => digit - b'0',
                digit @ b'A'..=b'Z' => digit - b'A' + 10,
                // A name of the standard library, such as `St`.
                _ => return None,
            };
            index = Some(
                index
                    .unwrap_or(0)
                    .checked_mul(36)?
                    .checked_add(digit.into())?,
            );
        }
    }
}

/// Returns the built-in type of a letter. The size of `long` depends on the system on which the
/// kernel was compiled.
fn builtin(letter: u8) -> Option<Type> {
    Some(Type::Number(match letter {
        b'v' | b'l' | b'm' => return Some(Type::Other),
        b'b' | b'h' => Number::U8,
        b'a' | b'c' => Number::I8,
        b's' => Number::I16,
        b't' => Number::U16,
        b'i' => Number::I32,
        b'j' => Number::U32,
        b'x' => Number::I64,
        b'y' => Number::U64,
        b'n' => Number::I128,
        b'o' => Number::U128,
        b'f' => Number::F32,
        b'd' => Number::F64,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::of_mangled;

    fn names(mangled: &str) -> String {
        let pointees = of_mangled(mangled);
        let names = pointees.iter().map(|it| it.map_or("-", |it| it.name()));
        names.collect::<Vec<_>>().join(" ")
    }

    /// The names are those that NVRTC 13.5 gives to these kernels.
    #[test]
    fn pointers_to_numbers_are_found() {
        for (mangled, expected) in [
            ("_Z5scalePffj", "f32 - -"),
            ("_Z3mixPjPKjj", "u32 u32 -"),
            ("_Z4copyPKdPdi", "f64 f64 -"),
            ("_Z4swapPfS_S_", "f32 f32 f32"),
            ("_Z3addPKfS0_Pfj", "f32 f32 f32 -"),
            ("_Z3dotPVKdPiS1_", "f64 i32 i32"),
            ("_ZN4math5scaleEPdS0_", "f64 f64"),
            ("_ZN1a1b1kEPf", "f32"),
            ("_Z5scaleIfEvPT_S0_", "f32 -"),
            ("_Z5scaleIdEvPT_PKS0_j", "f64 f64 -"),
            ("_ZN4math5scaleIdEEvPT_", "f64"),
            ("_Z4tileIfLj16EEvPKT_PS0_", "f32 f32"),
            ("_Z4bothIfdEvPT_PT0_", "f32 f64"),
            ("_Z1kP6float4PfS0_S1_", "- f32 - f32"),
            ("_Z1kPPfS0_", "- -"),
            ("_Z1kPvPlPs", "- - i16"),
            ("scale", ""),
            ("_Z1kv", "-"),
            // Not parsed from the second parameter on.
            ("_Z1kPfSt4pairIffEPd", "f32"),
            ("_Z1kPfA4_fPd", "f32"),
            ("_Z", ""),
            ("_Z99x", ""),
        ] {
            assert_eq!(names(mangled), expected, "{mangled}");
        }
    }
}
