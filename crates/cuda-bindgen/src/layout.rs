//! The facts that a C compiler checks against the real header: sizes, offsets, values, signatures.
//!
//! The file is an expression that only tests include: the numbers are those of the Rust compiler, the names
//! those of C.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Item, Member, Type};

use crate::Error;
use crate::model::{Model, ident, root};

/// One `Facts` literal for all of `model`. `header` tells tags (`struct X`) from typedef names.
pub(crate) fn emit(model: &Model, header: &str) -> Result<String, Error> {
    let types = model.types.iter().filter_map(|(name, entry)| {
        let item = entry.item.items.iter().find(|item| is_type(item, name))?;
        let c = match item {
            Item::Struct(_) if has_tag(header, "struct", name) => format!("struct {name}"),
            Item::Union(_) if has_tag(header, "union", name) => format!("union {name}"),
            _ => name.clone(),
        };
        let mut fields = Vec::new();
        if !is_opaque(item) && !is_newtype(item) {
            list_fields(&entry.item.items, item, "", TokenStream::new(), &mut fields);
        } else if is_opaque(item) {
            return None;
        }
        let from_header = entry.from_header;
        let ty = ident(name);
        let rows = fields
            .iter()
            .map(|(c, rust)| quote!((#c, ::core::mem::offset_of!(#ty, #rust))));
        Some(quote! {
            TypeFacts {
                c: #c,
                size: ::core::mem::size_of::<#ty>(),
                align: ::core::mem::align_of::<#ty>(),
                from_header: #from_header,
                fields: &[#(#rows),*],
            }
        })
    });
    let values = model.values.iter().map(|((owner, name), entry)| {
        let (owner, value, from_header) = (ident(owner), ident(name), entry.from_header);
        quote!((#name, #owner::#value.0 as i64, #from_header))
    });
    let consts = model.consts.iter().filter_map(|(name, entry)| {
        crate::emit::number(&entry.item.expr)?;
        let (value, from_header) = (ident(name), entry.from_header);
        Some(quote!((#name, #value as i64, #from_header)))
    });
    let functions = model.functions.iter().filter_map(|(name, function)| {
        let from_header = function.from_header;
        let inputs: Option<Vec<String>> = function
            .signature
            .inputs
            .iter()
            .map(|input| c_type(&input.ty))
            .collect();
        let mut inputs = inputs?.join(", ");
        if inputs.is_empty() {
            inputs.push_str("void");
        }
        Some(quote!((#name, #inputs, #from_header)))
    });
    let tokens = quote! {
        fn facts() -> Facts {
            Facts {
                types: &[#(#types),*],
                values: &[#(#values,)* #(#consts),*],
                functions: &[#(#functions),*],
            }
        }
    };
    let file = syn::parse2(tokens).map_err(|source| Error::Syntax {
        what: "layout facts".to_owned(),
        source,
    })?;
    Ok(format!(
        "// Generated with the bindings. Included by the ABI test.\n\n{}",
        prettyplease::unparse(&file)
    ))
}

fn is_type(item: &Item, name: &str) -> bool {
    match item {
        Item::Struct(item) => item.ident == name,
        Item::Union(item) => item.ident == name,
        _ => false,
    }
}

fn has_tag(header: &str, kind: &str, name: &str) -> bool {
    let tag = format!("{kind} {name}");
    header.match_indices(&tag).any(|(at, _)| {
        !header[at + tag.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
    })
}

fn is_newtype(item: &Item) -> bool {
    matches!(item, Item::Struct(item) if matches!(item.fields, syn::Fields::Unnamed(_)))
}

/// bindgen writes a type that is only declared as a struct of nothing.
fn is_opaque(item: &Item) -> bool {
    let Item::Struct(item) = item else {
        return false;
    };
    item.fields
        .iter()
        .all(|field| field.ident.as_ref().is_some_and(|name| name == "_unused"))
}

/// Each field as C and as Rust write it, descending into what is nested.
fn list_fields(
    items: &[Item],
    item: &Item,
    c_prefix: &str,
    rust_prefix: TokenStream,
    out: &mut Vec<(String, TokenStream)>,
) {
    let fields: Vec<&syn::Field> = match item {
        Item::Struct(item) => item.fields.iter().collect(),
        Item::Union(item) => item.fields.named.iter().collect(),
        _ => return,
    };
    for field in fields {
        let Some(name) = &field.ident else { continue };
        let member = Member::Named(name.clone());
        let rust = quote!(#rust_prefix #member);
        let text = name.to_string();
        let anonymous = text.starts_with("__bindgen_anon");
        let c = format!("{c_prefix}{}", text.strip_suffix('_').unwrap_or(&text));
        if !anonymous {
            out.push((c.clone(), rust.clone()));
        }
        let Type::Path(path) = &field.ty else {
            continue;
        };
        let Some(ty) = path.path.get_ident().map(ToString::to_string) else {
            continue;
        };
        if root(&ty) == ty {
            continue;
        }
        if let Some(nested) = items.iter().find(|item| is_type(item, &ty)) {
            let c_prefix = if anonymous {
                c_prefix.to_owned()
            } else {
                format!("{c}.")
            };
            list_fields(items, nested, &c_prefix, quote!(#rust .), out);
        }
    }
}

/// A Rust type as C writes it; `None` for what needs a declarator around a name.
fn c_type(ty: &Type) -> Option<String> {
    match ty {
        Type::Ptr(pointer) => {
            let inner = c_type(&pointer.elem)?;
            Some(
                if matches!(pointer.mutability, syn::PointerMutability::Const(_)) {
                    format!("{inner} const *")
                } else {
                    format!("{inner} *")
                },
            )
        }
        Type::Path(path) => {
            let name = path.path.segments.last()?.ident.to_string();
            Some(
                match name.as_str() {
                    "c_char" => "char",
                    "c_uchar" => "unsigned char",
                    "c_schar" => "signed char",
                    "c_short" => "short",
                    "c_ushort" => "unsigned short",
                    "c_int" => "int",
                    "c_uint" => "unsigned int",
                    "c_long" => "long",
                    "c_ulong" => "unsigned long",
                    "c_longlong" => "long long",
                    "c_ulonglong" => "unsigned long long",
                    "c_void" => "void",
                    "f32" => "float",
                    "usize" => "size_t",
                    other => return Some(other.to_owned()),
                }
                .to_owned(),
            )
        }
        _ => None,
    }
}
