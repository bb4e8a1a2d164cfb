//! The pairing of each exported function with its `PFN_…_v<version>` typedef.
//!
//! `cudaTypedefs.h` has one typedef for every revision of every function. Its suffix is the version
//! that introduced the revision and the version to pass to `cuGetProcAddress`. The name of the
//! typedef does not determine the exported name, and counting revisions gives wrong results
//! (`cuMemcpyHtoD_v2_ptds` is `PFN_cuMemcpyHtoD_v7000_ptds`). So the revisions of one base name and
//! one stream mode are sorted in both lists, and the signatures of each pair must be identical.

use std::collections::BTreeMap;

use quote::ToTokens;
use syn::TypeFnPtr;

use crate::Error;
use crate::model::{Alias, Model};

/// Base name and stream mode, which identify the functions that are sorted together.
type Family = (String, Option<String>);

/// Sets base name, version and stream mode of every function of the model.
pub(crate) fn pair(model: &mut Model) -> Result<(), Error> {
    let mut typedefs: BTreeMap<Family, Vec<(u32, String)>> = BTreeMap::new();
    for name in model.typedefs.keys() {
        let (base, version, mode) = split_typedef(name)
            .ok_or_else(|| Error::Header(format!("{name}: not PFN_<name>_v<version>")))?;
        typedefs
            .entry((base, mode))
            .or_default()
            .push((version, name.clone()));
    }
    let mut exports: BTreeMap<Family, Vec<(u32, String)>> = BTreeMap::new();
    for name in model.functions.keys() {
        let (base, revision, mode) = split_export(name);
        exports
            .entry((base, mode))
            .or_default()
            .push((revision, name.clone()));
    }
    for (family, names) in &mut exports {
        let versions = typedefs
            .get_mut(family)
            .ok_or_else(|| Error::Header(format!("{}: no PFN typedef", names[0].1)))?;
        if names.len() != versions.len() {
            return Err(Error::Header(format!(
                "{}: {} revisions but {} PFN typedefs",
                family.0,
                names.len(),
                versions.len()
            )));
        }
        names.sort();
        versions.sort();
        for ((_, export), (since, typedef)) in names.iter().zip(versions.iter()) {
            let theirs = canonical(model, &model.typedefs[typedef]);
            let ours = canonical(model, &model.functions[export].signature);
            if ours != theirs {
                return Err(Error::Header(format!(
                    "{export} and {typedef} differ: {ours} against {theirs}"
                )));
            }
            if let Some(function) = model.functions.get_mut(export) {
                function.base.clone_from(&family.0);
                function.since = *since;
                function.per_thread = family.1.is_some();
            }
        }
    }
    match typedefs
        .keys()
        .find(|family| !exports.contains_key(*family))
    {
        Some(family) => Err(Error::Header(format!(
            "{}: a PFN typedef without a function",
            family.0
        ))),
        None => Ok(()),
    }
}

/// Splits `PFN_cuMemcpy_v7000_ptds` into `cuMemcpy`, 7000 and `_ptds`.
fn split_typedef(name: &str) -> Option<(String, u32, Option<String>)> {
    let (name, mode) = split_mode(name.strip_prefix("PFN_")?);
    let (base, version) = name.rsplit_once("_v")?;
    Some((base.to_owned(), version.parse().ok()?, mode))
}

/// Splits `cuMemcpyHtoD_v2_ptds` into `cuMemcpyHtoD`, 2 and `_ptds`.
fn split_export(name: &str) -> (String, u32, Option<String>) {
    let (name, mode) = split_mode(name);
    if let Some((base, revision)) = name.rsplit_once("_v")
        && let Ok(revision) = revision.parse()
    {
        return (base.to_owned(), revision, mode);
    }
    (name.to_owned(), 1, mode)
}

fn split_mode(name: &str) -> (&str, Option<String>) {
    for mode in ["_ptsz", "_ptds"] {
        if let Some(rest) = name.strip_suffix(mode) {
            return (rest, Some(mode.to_owned()));
        }
    }
    (name, None)
}

/// Returns the signature with all typedefs resolved and without parameter names.
fn canonical(model: &Model, signature: &TypeFnPtr) -> String {
    let inputs: Vec<String> = signature
        .inputs
        .iter()
        .map(|input| resolve(model, &input.ty.to_token_stream()))
        .collect();
    format!(
        "fn({}){}",
        inputs.join(", "),
        resolve(model, &signature.output.to_token_stream())
    )
}

fn resolve(model: &Model, tokens: &proc_macro2::TokenStream) -> String {
    let mut words = Vec::new();
    for token in tokens.clone() {
        match &token {
            proc_macro2::TokenTree::Ident(name) => match model.aliases.get(&name.to_string()) {
                Some(Alias::Type(item)) => {
                    words.push(resolve(model, &item.ty.to_token_stream()));
                }
                Some(Alias::Use(_, target)) => words.push(target.clone()),
                None => words.push(name.to_string()),
            },
            _ => words.push(token.to_string()),
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::{pair, split_export, split_typedef};
    use crate::model::Model;

    #[test]
    fn names_split_into_base_revision_and_mode() {
        let ptds = Some("_ptds".to_owned());
        assert_eq!(
            split_export("cuMemcpyHtoD_v2_ptds"),
            ("cuMemcpyHtoD".into(), 2, ptds.clone())
        );
        assert_eq!(split_export("cuInit"), ("cuInit".into(), 1, None));
        assert_eq!(
            split_typedef("PFN_cuMemcpyHtoD_v7000_ptds"),
            Some(("cuMemcpyHtoD".into(), 7000, ptds))
        );
        assert_eq!(split_typedef("PFN_cuMemcpyHtoD"), None);
    }

    #[test]
    fn revisions_pair_in_order_and_with_equal_signatures() {
        let functions = "extern \"C\" { pub fn cuA(x: u32) -> i32; pub fn cuA_v2(x: u64) -> i32; }";
        let good = "pub type PFN_cuA_v12000 = Option<unsafe extern \"C\" fn(y: W) -> i32>;
                    pub type PFN_cuA_v2000 = Option<unsafe extern \"C\" fn(x: u32) -> i32>;
                    pub type W = u64;";
        let mut model = Model::parse("test", &format!("{functions}{good}")).unwrap();
        pair(&mut model).unwrap();
        assert_eq!(model.functions["cuA"].since, 2000);
        assert_eq!(model.functions["cuA_v2"].since, 12000);
        assert_eq!(model.functions["cuA_v2"].base, "cuA");

        let bad = good.replace("W = u64", "W = u16");
        let mut model = Model::parse("test", &format!("{functions}{bad}")).unwrap();
        assert!(pair(&mut model).unwrap_err().to_string().contains("cuA_v2"));
    }
}
