//! The advice for a header that the compiler did not find.

use std::fmt;
use std::path::Path;

/// The headers of C and C++ on the host whose functions kernels have without a header.
const BUILT_IN: [&str; 13] = [
    "assert.h",
    "cassert",
    "cmath",
    "cstdio",
    "cstdlib",
    "cstring",
    "cuda.h",
    "cuda_runtime.h",
    "cuda_runtime_api.h",
    "math.h",
    "stdio.h",
    "stdlib.h",
    "string.h",
];

/// The headers of C that have a counterpart in CUDA's C++ library.
const OF_C: [(&str, &str); 7] = [
    ("complex.h", "complex"),
    ("float.h", "cfloat"),
    ("limits.h", "climits"),
    ("stdbool.h", "cstdint"),
    ("stddef.h", "cstddef"),
    ("stdint.h", "cstdint"),
    ("time.h", "ctime"),
];

/// The headers of C++ that have a counterpart in CUDA's C++ library.
const OF_CPP: [&str; 26] = [
    "array",
    "atomic",
    "barrier",
    "bit",
    "cfloat",
    "chrono",
    "climits",
    "complex",
    "concepts",
    "cstddef",
    "cstdint",
    "ctime",
    "functional",
    "initializer_list",
    "iterator",
    "limits",
    "numeric",
    "optional",
    "ratio",
    "span",
    "string_view",
    "tuple",
    "type_traits",
    "utility",
    "variant",
    "version",
];

/// The headers of C and C++ on the host that kernels cannot use.
const OF_THE_HOST: [&str; 17] = [
    "algorithm",
    "fstream",
    "iomanip",
    "iostream",
    "list",
    "map",
    "memory",
    "mutex",
    "ostream",
    "random",
    "set",
    "sstream",
    "string",
    "thread",
    "unistd.h",
    "unordered_map",
    "vector",
];

/// A header that the compiler did not find, and the folders in which it was searched for.
/// Displayed, it is the advice for this header.
pub(crate) struct MissingHeader<'a>(pub(crate) &'a str, pub(crate) &'a [String]);

impl fmt::Display for MissingHeader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(header, searched) = self;
        write!(f, "The header {header} was not found")?;
        let of_c = OF_C.iter().find(|(name, _)| name == header);
        let instead = of_c.map(|(_, cpp)| *cpp);
        let instead = instead.or_else(|| OF_CPP.into_iter().find(|name| name == header));
        if BUILT_IN.contains(header) {
            return f.write_str(
                ": it is one of the host. Remove the `#include`: printf, assert, malloc and the \
                 functions for mathematics are built into kernels.",
            );
        }
        if let Some(name) = instead {
            return write!(
                f,
                ": it is one of the host. Include <cuda/std/{name}> of CUDA's headers instead, \
                 whose folder `cuda_headers` adds."
            );
        }
        if OF_THE_HOST.contains(header) {
            return f.write_str(
                ": it is one of the host, whose library kernels cannot use. Remove the `#include`.",
            );
        }
        for folder in searched.iter().filter(|it| !Path::new(it).is_dir()) {
            write!(f, ", and the folder {folder} does not exist")?;
        }
        f.write_str(
            ": name its folder with `include_dir`, or that of CUDA's own headers with \
             `cuda_headers`.",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::MissingHeader;

    #[test]
    fn the_advice_depends_on_the_header() {
        let here = [
            env!("CARGO_MANIFEST_DIR").to_owned(),
            "/no/where".to_owned(),
        ];
        for (header, part) in [
            ("stdio.h", "Remove the `#include`: printf"),
            ("cuda_runtime.h", "Remove the `#include`: printf"),
            ("stdint.h", "Include <cuda/std/cstdint>"),
            ("limits", "Include <cuda/std/limits>"),
            ("vector", "whose library kernels cannot use"),
            (
                "mine.h",
                "and the folder /no/where does not exist: name its folder",
            ),
        ] {
            let text = MissingHeader(header, &here).to_string();
            assert!(text.contains(part), "{text}");
        }
        let text = MissingHeader("mine.h", &here[..1]).to_string();
        assert!(!text.contains("does not exist"), "{text}");
    }
}
