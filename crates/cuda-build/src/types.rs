//! The Rust types of kernel parameters.

use std::collections::BTreeMap;

use crate::mangled::Type;

/// The Rust type of each C++ type that needs no option.
///
/// The sizes of `long` and the sign of `char` depend on the system, as those of the C types of Rust
/// do.
const KNOWN: &[(&str, &str)] = &[
    ("bool", "u8"),
    ("char", "::core::ffi::c_char"),
    ("signed char", "i8"),
    ("unsigned char", "u8"),
    ("short", "i16"),
    ("unsigned short", "u16"),
    ("int", "i32"),
    ("unsigned int", "u32"),
    ("long", "::core::ffi::c_long"),
    ("unsigned long", "::core::ffi::c_ulong"),
    ("long long", "i64"),
    ("unsigned long long", "u64"),
    ("__int128", "i128"),
    ("unsigned __int128", "u128"),
    ("float", "f32"),
    ("double", "f64"),
    ("char8_t", "u8"),
    ("char16_t", "u16"),
    ("char32_t", "u32"),
    ("__half", "::half::f16"),
    ("__nv_bfloat16", "::half::bf16"),
    ("__half2", "::cuda_driver::vector::Half2"),
    ("__nv_bfloat162", "::cuda_driver::vector::Bf162"),
    ("longlong4_16a", "::cuda_driver::vector::LongLong4"),
    ("ulonglong4_16a", "::cuda_driver::vector::ULongLong4"),
    ("double4_16a", "::cuda_driver::vector::Double4"),
];

/// The vector types of CUDA with two to four components, by the element in C++ and in Rust.
const VECTORS: &[(&str, &str)] = &[
    ("char", "Char"),
    ("uchar", "UChar"),
    ("short", "Short"),
    ("ushort", "UShort"),
    ("int", "Int"),
    ("uint", "UInt"),
    ("longlong", "LongLong"),
    ("ulonglong", "ULongLong"),
    ("float", "Float"),
    ("double", "Double"),
];

/// The Rust types of C++ types, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Types {
    /// The types that the user named, which take precedence.
    pub(crate) named: BTreeMap<String, String>,
}

impl Types {
    /// Returns the type of a kernel parameter in Rust. The error is the C++ type that has none.
    pub(crate) fn parameter(&self, parameter: &Type) -> Result<String, String> {
        match unqualified(parameter).0 {
            Type::Pointer(element) => {
                let (element, is_const) = unqualified(element);
                let rust = self.value(element)?;
                let marker = if is_const { "Reads" } else { "Writes" };
                Ok(format!("::cuda_driver::launch::{marker}<{rust}>"))
            }
            value => self.value(value),
        }
    }

    fn value(&self, of: &Type) -> Result<String, String> {
        let name = of.to_string();
        if let Some(rust) = self.named.get(&name) {
            return Ok(rust.clone());
        }
        let known = KNOWN.iter().find(|(cpp, _)| *cpp == name);
        let known = known.map(|(_, rust)| (*rust).to_owned());
        known.or_else(|| vector(&name)).ok_or(name)
    }
}

/// Removes the qualifiers of a type. Returns whether one of them is `const`.
fn unqualified(of: &Type) -> (&Type, bool) {
    match of {
        Type::Const(inner) => (unqualified(inner).0, true),
        Type::Volatile(inner) => unqualified(inner),
        _ => (of, false),
    }
}

fn vector(name: &str) -> Option<String> {
    let (element, count) = name.split_at_checked(name.len().checked_sub(1)?)?;
    let (_, rust) = VECTORS.iter().find(|(cpp, _)| *cpp == element)?;
    matches!(count, "2" | "3" | "4").then(|| format!("::cuda_driver::vector::{rust}{count}"))
}

#[cfg(test)]
mod tests {
    use super::Types;
    use crate::mangled::{Type, function};

    /// Returns the Rust types of the parameters of a mangled kernel, or the type that has none.
    fn rust(types: &Types, mangled: &str) -> Result<String, String> {
        let parameters = function(mangled).unwrap().parameters.unwrap();
        let rust: Result<Vec<String>, String> =
            parameters.iter().map(|of| types.parameter(of)).collect();
        rust.map(|all| {
            all.join(" ")
                .replace("::cuda_driver::launch::", "")
                .replace("::cuda_driver::", "")
        })
    }

    #[test]
    fn constness_decides_between_reads_and_writes() {
        let types = Types::default();
        for (mangled, expected) in [
            ("_Z1kPf", "Writes<f32>"),
            ("_Z1kPKf", "Reads<f32>"),
            ("_Z1kPVf", "Writes<f32>"),
            ("_Z1kPVKd", "Reads<f64>"),
            (
                "_Z1kPK6float4P5uint2",
                "Reads<vector::Float4> Writes<vector::UInt2>",
            ),
            (
                "_Z1kbahstijxyno",
                "u8 i8 u8 i16 u16 i32 u32 i64 u64 i128 u128",
            ),
            (
                "_Z1kfd6__half13__nv_bfloat16",
                "f32 f64 ::half::f16 ::half::bf16",
            ),
            (
                "_Z1kclm",
                "::core::ffi::c_char ::core::ffi::c_long ::core::ffi::c_ulong",
            ),
            ("_Z1kv", ""),
        ] {
            assert_eq!(rust(&types, mangled).as_deref(), Ok(expected), "{mangled}");
        }
    }

    #[test]
    fn an_unknown_type_is_named() {
        let mut types = Types::default();
        for (mangled, expected) in [
            ("_Z1kf6Params", "Params"),
            ("_Z1kPKN2ns6ParamsE", "ns::Params"),
            ("_Z1kPv", "void"),
            ("_Z1kPPf", "float *"),
            ("_Z1kPA4_f", "float[4]"),
            ("_Z1kPFviE", "function (int)"),
            ("_Z1kRi", "int &"),
            ("_Z1k6float5", "float5"),
        ] {
            assert_eq!(rust(&types, mangled), Err(expected.to_owned()), "{mangled}");
        }
        types
            .named
            .insert("ns::Params".to_owned(), "crate::Params".to_owned());
        types.named.insert("void".to_owned(), "u8".to_owned());
        types
            .named
            .insert("float".to_owned(), "crate::Real".to_owned());
        types.named.insert("float *".to_owned(), "u64".to_owned());
        let found = rust(&types, "_Z1kPKN2ns6ParamsEPvfPPf");
        assert_eq!(
            found.as_deref(),
            Ok("Reads<crate::Params> Writes<u8> crate::Real Writes<u64>")
        );
    }

    #[test]
    fn a_const_value_is_a_value() {
        let value = Type::Const(Box::new(Type::Name("float".to_owned())));
        assert_eq!(Types::default().parameter(&value).as_deref(), Ok("f32"));
    }
}
