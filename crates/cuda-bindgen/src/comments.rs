//! The text of rustdoc comments: the header's own comments, escaped, or a generated line.

use std::collections::HashMap;

use syn::visit_mut::VisitMut;
use syn::{Attribute, Expr, Lit, Meta};

use crate::Docs;
use crate::model::Model;

/// The address of the driver API's documentation.
const DRIVER_PAGES: &str = "https://docs.nvidia.com/cuda/cuda-driver-api";
/// The address of NVRTC's documentation.
const NVRTC_PAGE: &str = "https://docs.nvidia.com/cuda/nvrtc/index.html";

/// Adds the generated line to each function, and escapes the comments of all other items.
pub(crate) fn finish(model: &mut Model, header: &str, docs: Docs) {
    let groups = groups(header);
    for (name, function) in &mut model.functions {
        let since = format!(
            "Since CUDA {}.{}.",
            function.since / 1000,
            function.since % 1000 / 10
        );
        let page = match groups.get(function.base.as_str()) {
            _ if name.starts_with("nvrtc") => format!("[NVRTC]({NVRTC_PAGE})"),
            Some((group, title)) => {
                let title = title.replace('[', "\\[").replace(']', "\\]");
                format!(
                    "[{title}]({DRIVER_PAGES}/group__{}.html)",
                    group.replace('_', "__")
                )
            }
            None => format!("[CUDA Driver API]({DRIVER_PAGES}/index.html)"),
        };
        let line = format!(" `{name}`. {since} {page}.");
        let mut attrs = vec![syn::parse_quote!(#[doc = #line])];
        if docs == Docs::FromHeader && !function.docs.is_empty() {
            attrs.push(syn::parse_quote!(#[doc = ""]));
            Clean.visit_attributes_mut(&mut function.docs);
            attrs.append(&mut function.docs);
        }
        function.docs = attrs;
    }
    if docs == Docs::FromHeader {
        for entry in model.consts.values_mut() {
            Clean.visit_item_const_mut(&mut entry.item);
        }
        for entry in model.types.values_mut() {
            entry
                .item
                .items
                .iter_mut()
                .for_each(|item| Clean.visit_item_mut(item));
        }
        for entry in model.values.values_mut() {
            Clean.visit_impl_item_const_mut(&mut entry.item);
        }
        for alias in model.aliases.values_mut() {
            if let crate::model::Alias::Type(item) = alias {
                Clean.visit_item_type_mut(item);
            }
        }
    }
}

/// Returns the name and the title of each function's Doxygen group.
fn groups(header: &str) -> HashMap<&str, (&str, &str)> {
    let mut groups = HashMap::new();
    let mut open: Vec<(&str, &str)> = Vec::new();
    for line in header.lines() {
        if let Some(rest) = line.split("\\defgroup ").nth(1) {
            open.push(
                rest.trim()
                    .split_once(' ')
                    .unwrap_or((rest.trim(), rest.trim())),
            );
        } else if line.contains("/** @} */") || line.contains("/* @} */") {
            open.pop();
        } else if let Some((_, rest)) = line.split_once("CUDAAPI ")
            && let Some((name, _)) = rest.split_once('(')
            && let Some(group) = open.last()
        {
            groups.entry(name.trim()).or_insert(*group);
        }
    }
    groups
}

struct Clean;

impl VisitMut for Clean {
    fn visit_attributes_mut(&mut self, attrs: &mut Vec<Attribute>) {
        for attr in attrs {
            let Meta::NameValue(pair) = &attr.meta else {
                continue;
            };
            let (true, Expr::Lit(value)) = (pair.path.is_ident("doc"), &pair.value) else {
                continue;
            };
            let Lit::Str(text) = &value.lit else { continue };
            let clean = clean(&text.value());
            *attr = syn::parse_quote!(#[doc = #clean]);
        }
    }
}

/// Converts Doxygen to Markdown without code blocks, links or HTML, so that it produces neither
/// doctests nor broken links.
fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let mut line = line.trim().trim_start_matches(['<', '*']).trim();
        for heading in ["\\brief", "\\details", "\\par"] {
            line = line.strip_prefix(heading).unwrap_or(line).trim_start();
        }
        if let Some(parameter) = line.strip_prefix("\\param ") {
            out.push_str("- ");
            line = parameter.trim_start();
        } else if let Some(item) = line.strip_prefix("- ") {
            out.push_str("- ");
            line = item.trim_start();
        }
        let mut previous = ' ';
        for c in line.chars() {
            if matches!(c, '[' | ']' | '<' | '>' | '`' | '*' | '_' | '|' | '~' | '#' | '\\' | '&')
                // Four of anything are at most a rule, never a code block, once the line is
                // trimmed.
                && !(c == '\\' && previous == '\\')
            {
                out.push('\\');
            }
            out.push(c);
            previous = c;
        }
        out.push('\n');
    }
    // rustdoc warns about a bare address.
    out.replace("://", ":\\/\\/")
}

/// The attribute form of one line, for tests.
#[cfg(test)]
fn as_doc(text: &str) -> String {
    let text = clean(text);
    quote::quote!(#[doc = #text]).to_string()
}

#[cfg(test)]
mod tests {
    use super::{as_doc, clean, groups};

    #[test]
    fn markdown_markup_in_comments_is_escaped() {
        let text =
            clean("    int x[4]; // indented\n ```\n [link] <b> see ::cuInit https://example.org");
        assert!(text.lines().all(|line| !line.starts_with(' ')));
        assert!(text.contains("x\\[4\\]"));
        assert!(text.contains("\\`\\`\\`"));
        assert!(!text.contains("https://"));
        assert!(as_doc("x").contains("doc"));
    }

    #[test]
    fn functions_are_found_in_their_group() {
        let header = "/**\n * \\defgroup CUDA_CTX Context Management\n * @{\n */\nCUresult CUDAAPI cuCtxCreate(\n/** @} */\nCUresult CUDAAPI cuOther(";
        let groups = groups(header);
        assert_eq!(groups["cuCtxCreate"], ("CUDA_CTX", "Context Management"));
        assert!(!groups.contains_key("cuOther"));
    }
}
