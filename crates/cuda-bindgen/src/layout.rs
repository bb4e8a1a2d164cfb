//! The layout facts that a C compiler checks against the real header: sizes, offsets, values and
//! signatures.
//!
//! The generated file has one function, which only tests include. Its numbers are those of the Rust
//! compiler, and its names those of C.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Item, Member, Type, TypeFnPtr};

use crate::Error;
use crate::model::{Model, Sourced, TypeGroup, ident, root, signature};

/// Returns the function `facts` for `model`. `header` distinguishes tags (`struct X`) from typedef
/// names.
pub(crate) fn emit(model: &Model, header: &str) -> Result<String, Error> {
    let types = model
        .types
        .iter()
        .filter_map(|(name, entry)| type_facts(name, entry, header));
    let values = model.values.iter().map(|((owner, name), entry)| {
        let (owner, value, from_header) = (ident(owner), ident(name), entry.from_header);
        quote!((#name, #owner::#value.0 as i64, #from_header))
    });
    let consts = model.consts.iter().filter_map(|(name, entry)| {
        crate::emit::number(&entry.item.expr)?;
        let (value, from_header) = (ident(name), entry.from_header);
        Some(quote!((#name, #value as i64, #from_header)))
    });
    let mut functions = Vec::new();
    for (name, function) in &model.functions {
        let (inputs, output) = c_signature(&function.signature).ok_or_else(|| {
            Error::Header(format!(
                "{name}: its signature has a type that this generator cannot write in C"
            ))
        })?;
        let from_header = function.from_header;
        functions.push(quote!((#name, #output, #inputs, #from_header)));
    }
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

/// Returns the `TypeFacts` literal of one type; `None` for a type that C only declares.
fn type_facts(name: &str, entry: &Sourced<TypeGroup>, header: &str) -> Option<TokenStream> {
    let group = &entry.item;
    let item = group.items.iter().find(|item| is_type(item, name))?;
    if is_opaque(item) {
        return None;
    }
    let c = c_name(item, name, header);
    let in_header = entry.from_header || group.replaced.is_some();
    // A type that changed after the header may be longer and have a stricter alignment than in the
    // header.
    let same_size = group
        .replaced
        .as_ref()
        .is_none_or(|theirs| theirs.size == group.size);
    let same_align = group.replaced.is_none();
    let theirs = group
        .replaced
        .as_ref()
        .map(|theirs| field_names(theirs, name));
    let ty = ident(name);
    let fields = fields(group, item).into_iter().map(|(c, rust)| {
        let in_header = match &theirs {
            // Reserved space may have been put to use since, so that the rest of it has another
            // offset.
            Some(names) => names.contains(&c) && !c.starts_with("reserved"),
            None => entry.from_header,
        };
        quote!((#c, ::core::mem::offset_of!(#ty, #rust), #in_header))
    });
    Some(quote! {
        TypeFacts {
            c: #c,
            size: ::core::mem::size_of::<#ty>(),
            align: ::core::mem::align_of::<#ty>(),
            in_header: #in_header,
            same_size: #same_size,
            same_align: #same_align,
            fields: &[#(#fields),*],
        }
    })
}

/// Returns the fields of `item` as C and as Rust write them. A newtype has none.
fn fields(group: &TypeGroup, item: &Item) -> Vec<(String, TokenStream)> {
    let mut fields = Vec::new();
    if !is_newtype(item) {
        list_fields(&group.items, item, "", TokenStream::new(), &mut fields);
    }
    fields
}

fn field_names(group: &TypeGroup, name: &str) -> Vec<String> {
    let item = group.items.iter().find(|item| is_type(item, name));
    item.map(|item| fields(group, item))
        .unwrap_or_default()
        .into_iter()
        .map(|(c, _)| c)
        .collect()
}

/// Returns the field's name in C. bindgen appends `_` to names that are keywords in Rust.
fn c_field(name: &str) -> &str {
    match name.strip_suffix('_') {
        Some(keyword) if syn::parse_str::<syn::Ident>(keyword).is_err() => keyword,
        _ => name,
    }
}

/// Returns the parameters and the result as C writes them.
fn c_signature(signature: &TypeFnPtr) -> Option<(String, String)> {
    let inputs: Option<Vec<String>> = signature
        .inputs
        .iter()
        .map(|input| c_type(&input.ty))
        .collect();
    let inputs = match inputs?.join(", ") {
        none if none.is_empty() => "void".to_owned(),
        some => some,
    };
    let output = match &signature.output {
        syn::ReturnType::Default => "void".to_owned(),
        syn::ReturnType::Type(_, ty) => c_type(ty)?,
    };
    Some((inputs, output))
}

fn is_type(item: &Item, name: &str) -> bool {
    match item {
        Item::Struct(item) => item.ident == name,
        Item::Union(item) => item.ident == name,
        _ => false,
    }
}

/// Returns the type's name in C, with its tag if it has one. The name of the enclosing type, which
/// bindgen prepends and C does not, is removed.
fn c_name(item: &Item, name: &str, header: &str) -> String {
    let kind = match item {
        Item::Union(_) => "union",
        _ => "struct",
    };
    let inner = name
        .match_indices('_')
        .map(|(at, _)| &name[at + 1..])
        .find(|inner| has_word(header, kind, inner));
    match inner {
        _ if has_word(header, kind, name) => format!("{kind} {name}"),
        Some(inner) if !has_word(header, "}", name) => format!("{kind} {inner}"),
        _ => name.to_owned(),
    }
}

/// Returns whether `name` follows `before` and a space, as a whole word.
fn has_word(header: &str, before: &str, name: &str) -> bool {
    let text = format!("{before} {name}");
    header.match_indices(&text).any(|(at, _)| {
        !header[at + text.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
    })
}

fn is_newtype(item: &Item) -> bool {
    matches!(item, Item::Struct(item) if matches!(item.fields, syn::Fields::Unnamed(_)))
}

/// Returns whether a type is only declared. bindgen writes a declared type as an empty struct.
fn is_opaque(item: &Item) -> bool {
    let Item::Struct(item) = item else {
        return false;
    };
    item.fields
        .iter()
        .all(|field| field.ident.as_ref().is_some_and(|name| name == "_unused"))
}

/// Lists each field as C and as Rust write it, including fields of nested types.
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
        let c = format!("{c_prefix}{}", c_field(&text));
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

/// Returns a Rust type as C writes it without a name; `None` for types that CUDA's headers do not
/// use.
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
            if name == "Option" {
                let (inputs, output) = c_signature(&signature(ty)?)?;
                return Some(format!("{output} (*)({inputs})"));
            }
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
