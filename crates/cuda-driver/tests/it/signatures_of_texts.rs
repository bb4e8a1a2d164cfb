//! Two parsers read the parameters of kernels: that of cuda-sys, which launches are checked with,
//! and that of cuda-ptx. They agree on every PTX text of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use cuda_driver::prelude::*;
use cuda_ptx::{Variable, parse};
use cuda_sys::image::ParameterKind;

/// The PTX files below a folder, except build outputs.
fn texts(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            texts(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            found.push(path);
        }
    }
}

/// The size and the alignment of a parameter, and the kind of its type.
fn layout(param: &Variable<'_>) -> (usize, usize, ParameterKind) {
    let digits = param.ty.trim_start_matches(char::is_alphabetic);
    let element = digits.parse::<usize>().unwrap() / 8 * param.vector as usize;
    let count = usize::try_from(param.count.unwrap()).unwrap();
    let kind = match param.ty.chars().next().unwrap() {
        _ if param.array => ParameterKind::Array,
        'b' => ParameterKind::Bits,
        'u' => ParameterKind::Unsigned,
        's' => ParameterKind::Signed,
        'f' => ParameterKind::Float,
        other => panic!("a parameter with a type that begins with {other}"),
    };
    let align = param.align.map_or(element, |align| align as usize);
    (element * count, align, kind)
}

#[test]
fn both_parsers_read_the_same_signatures() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in ["crates", "docs", "examples", "fuzz/seeds"] {
        texts(&root.join(folder), &mut found);
    }
    let mut count = 0;
    for path in found {
        // Some seeds of the fuzz targets are not PTX.
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let Ok(module) = parse(&text) else { continue };
        let signatures = Ptx::new(text.as_str()).unwrap().signatures().unwrap();
        let entries = module.functions.iter().filter(|function| function.entry);
        let entries: Vec<_> = entries.collect();
        let names: Vec<_> = entries.iter().map(|entry| entry.name).collect();
        let kernels: Vec<_> = signatures.iter().map(|it| it.kernel.as_str()).collect();
        assert_eq!(kernels, names, "{}", path.display());
        for (signature, entry) in signatures.iter().zip(entries) {
            let mut end = 0_usize;
            let expected = entry.params.iter().map(|param| {
                let (size, align, kind) = layout(param);
                let offset = end.next_multiple_of(align);
                end = offset + size;
                (offset, size, kind)
            });
            let expected: Vec<_> = expected.collect();
            let parameters = signature.parameters.iter();
            let read: Vec<_> = parameters.map(|it| (it.offset, it.size, it.kind)).collect();
            assert_eq!(read, expected, "{}: {}", path.display(), entry.name);
            count += 1;
        }
    }
    assert!(count > 100, "{count} kernels");
}
