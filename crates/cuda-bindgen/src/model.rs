//! The model of the headers: bindgen's output sorted by kind, and the merging of two models.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Expr, File, ForeignItem, ImplItem, ImplItemConst, Item, Type, TypeFnPtr};

use crate::Error;

/// The declarations of the headers, sorted by name so that equal headers give equal text.
#[derive(Default)]
pub(crate) struct Model {
    /// `#define` constants.
    pub(crate) consts: BTreeMap<String, Sourced<syn::ItemConst>>,
    /// Structs, unions and newtype enums by name, each with its nested types.
    pub(crate) types: BTreeMap<String, Sourced<TypeGroup>>,
    /// Values of the newtype enums.
    pub(crate) values: BTreeMap<(String, String), Sourced<ImplItemConst>>,
    /// `typedef`s, and additional names of enums.
    pub(crate) aliases: BTreeMap<String, Alias>,
    /// `PFN_…` typedefs: signatures by name.
    pub(crate) typedefs: BTreeMap<String, TypeFnPtr>,
    /// Exported functions.
    pub(crate) functions: BTreeMap<String, Function>,
}

/// An item, with the information whether it comes from the header on the machine or the snapshot.
pub(crate) struct Sourced<T> {
    pub(crate) item: T,
    pub(crate) from_header: bool,
}

/// A type with its nested types, trait impls and layout asserts.
#[derive(Default)]
pub(crate) struct TypeGroup {
    pub(crate) items: Vec<Item>,
    pub(crate) size: usize,
    /// The header's definition, if this definition of the snapshot replaces it.
    pub(crate) replaced: Option<Box<TypeGroup>>,
}

/// An additional name of a type.
pub(crate) enum Alias {
    /// `pub type A = …;`
    Type(syn::ItemType),
    /// `pub use self::X as A;`, which also names the constructor.
    Use(syn::ItemUse, String),
}

/// An exported function.
#[derive(Clone)]
pub(crate) struct Function {
    pub(crate) docs: Vec<Attribute>,
    pub(crate) signature: TypeFnPtr,
    /// The name without its revision.
    pub(crate) base: String,
    /// The version that introduced this revision, in CUDA's encoding.
    pub(crate) since: u32,
    pub(crate) per_thread: bool,
    pub(crate) from_header: bool,
}

impl Model {
    /// Reads files that this generator wrote.
    pub(crate) fn read(paths: &[PathBuf]) -> Result<Self, Error> {
        let mut model = Self::default();
        for path in paths {
            let text = fs::read_to_string(path).map_err(|source| Error::Io {
                path: path.clone(),
                source,
            })?;
            model.add(&path.display().to_string(), &text, false)?;
        }
        Ok(model)
    }

    /// Parses the output of bindgen.
    pub(crate) fn parse(what: &str, text: &str) -> Result<Self, Error> {
        let mut model = Self::default();
        model.add(what, text, true)?;
        model.name_enums_by_typedef();
        Ok(model)
    }

    fn add(&mut self, what: &str, text: &str, from_header: bool) -> Result<(), Error> {
        let file: File = syn::parse_file(text).map_err(|source| Error::Syntax {
            what: what.to_owned(),
            source,
        })?;
        let mut layouts = Vec::new();
        for item in file.items {
            match item {
                Item::Const(mut item) if item.ident == "_" => {
                    // The module that includes the generated text already allows these lints.
                    item.attrs.retain(|attr| !attr.path().is_ident("allow"));
                    layouts.push(item);
                }
                Item::Const(item) => {
                    self.consts
                        .insert(item.ident.to_string(), Sourced { item, from_header });
                }
                Item::Type(item) => self.add_alias(item),
                Item::Use(item) => {
                    if let Some((target, name)) = renamed(&item) {
                        self.aliases.insert(name, Alias::Use(item, target));
                    }
                }
                Item::Struct(ref s) if is_table(s) => {
                    s.fields
                        .iter()
                        .for_each(|field| crate::emit::read_field(self, field));
                }
                Item::Struct(ref s) => self
                    .group(s.ident.to_string(), from_header)
                    .items
                    .push(item),
                Item::Union(ref u) => self
                    .group(u.ident.to_string(), from_header)
                    .items
                    .push(item),
                Item::Impl(item) => self.add_impl(item, from_header),
                Item::Static(_) => crate::emit::read_rows(self, &item),
                Item::ForeignMod(block) => self.add_functions(block, from_header),
                _ => {}
            }
        }
        for item in layouts {
            let facts = layout_facts(&item);
            let Some((name, _)) = facts
                .first()
                .and_then(|(text, size)| Some((text.strip_prefix("Size of ")?.to_owned(), *size)))
            else {
                return Err(Error::Header(format!(
                    "{what}: a layout assert without a size"
                )));
            };
            let size = facts[0].1;
            let is_root = root(&name) == name;
            let group = self.group(name, from_header);
            if is_root {
                group.size = size;
            }
            group.items.push(Item::Const(item));
        }
        Ok(())
    }

    fn add_alias(&mut self, item: syn::ItemType) {
        let name = item.ident.to_string();
        match signature(&item.ty) {
            Some(signature) if name.starts_with("PFN_") => {
                self.typedefs.insert(name, signature);
            }
            _ => {
                self.aliases.insert(name, Alias::Type(item));
            }
        }
    }

    fn add_impl(&mut self, mut item: syn::ItemImpl, from_header: bool) {
        let owner = item.self_ty.to_token_stream().to_string();
        if owner.ends_with("Table") {
            return;
        }
        item.items.retain(|member| {
            if let ImplItem::Const(value) = member {
                self.values.insert(
                    (owner.clone(), value.ident.to_string()),
                    Sourced {
                        item: value.clone(),
                        from_header,
                    },
                );
                return false;
            }
            // The method `name` is not bindgen's: it is generated from the values each time.
            !matches!(member, ImplItem::Fn(method) if method.sig.ident == "name")
        });
        if !item.items.is_empty() {
            self.group(owner, from_header).items.push(Item::Impl(item));
        }
    }

    fn add_functions(&mut self, block: syn::ItemForeignMod, from_header: bool) {
        for member in block.items {
            let ForeignItem::Fn(function) = member else {
                continue;
            };
            let inputs = function.sig.inputs;
            let output = function.sig.output;
            let name = function.sig.ident.to_string();
            let signature = syn::parse_quote!(unsafe extern "C" fn(#inputs) #output);
            self.functions.insert(
                name.clone(),
                Function {
                    docs: function.attrs,
                    signature,
                    base: name,
                    since: 0,
                    per_thread: false,
                    from_header,
                },
            );
        }
    }

    fn group(&mut self, name: String, from_header: bool) -> &mut TypeGroup {
        &mut self
            .types
            .entry(root(&name).to_owned())
            .or_insert_with(|| Sourced {
                item: TypeGroup::default(),
                from_header,
            })
            .item
    }

    /// Names each newtype enum as its `typedef` does: `typedef enum cudaError_enum {…} CUresult`
    /// becomes `CUresult`, which is the name that C programs use.
    fn name_enums_by_typedef(&mut self) {
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        for (alias, kind) in &self.aliases {
            let Alias::Use(_, target) = kind else {
                continue;
            };
            // An alias of an alias (`CUkernelNodeAttrID`) stays an alias.
            if self.types.contains_key(target)
                && (!names.contains_key(target)
                    || Some(alias.as_str()) == target.strip_suffix("_enum"))
            {
                names.insert(target.clone(), alias.clone());
            }
        }
        let mut rename = Rename { names };
        let old = std::mem::take(self);
        for (name, mut entry) in old.consts {
            rename.visit_item_const_mut(&mut entry.item);
            self.consts.insert(name, entry);
        }
        for (name, mut entry) in old.types {
            entry
                .item
                .items
                .iter_mut()
                .for_each(|item| rename.visit_item_mut(item));
            self.types.insert(rename.apply(&name), entry);
        }
        for ((owner, value), mut entry) in old.values {
            rename.visit_impl_item_const_mut(&mut entry.item);
            self.values.insert((rename.apply(&owner), value), entry);
        }
        for (name, alias) in old.aliases {
            let (name, alias) = match alias {
                Alias::Type(mut item) => {
                    rename.visit_item_type_mut(&mut item);
                    (name, Alias::Type(item))
                }
                Alias::Use(_, target) => {
                    let new = rename.apply(&target);
                    let other = if new == name { target } else { name };
                    let (from, to) = (ident(&new), ident(&other));
                    (
                        other,
                        Alias::Use(syn::parse_quote!(pub use self::#from as #to;), new),
                    )
                }
            };
            self.aliases.insert(name, alias);
        }
        self.typedefs = old.typedefs;
        for signature in self.typedefs.values_mut() {
            rename.visit_type_fn_ptr_mut(signature);
        }
        self.functions = old.functions;
        for function in self.functions.values_mut() {
            rename.visit_type_fn_ptr_mut(&mut function.signature);
        }
    }

    /// Merges every item of both models. If both have an item, the rules of [`crate::joined`]
    /// apply.
    pub(crate) fn join(mut self, snapshot: Self) -> Self {
        for (name, mut old) in snapshot.types {
            match self.types.remove(&name) {
                Some(new) if new.item.size > old.item.size || same_items(&new.item, &old.item) => {
                    self.types.insert(name, new);
                }
                new => {
                    old.item.replaced = new.map(|new| Box::new(new.item));
                    self.types.insert(name, old);
                }
            }
        }
        for (name, old) in snapshot.consts {
            self.consts.entry(name).or_insert(old);
        }
        for (name, old) in snapshot.values {
            self.values.entry(name).or_insert(old);
        }
        for (name, old) in snapshot.aliases {
            self.aliases.entry(name).or_insert(old);
        }
        for (name, old) in snapshot.functions {
            self.functions.entry(name).or_insert(old);
        }
        self
    }
}

/// Compares two groups without their docs, which only one of them may have, and in the printer's
/// spelling.
fn same_items(a: &TypeGroup, b: &TypeGroup) -> bool {
    let texts = |group: &TypeGroup| -> Vec<String> {
        let mut texts: Vec<String> = group.items.iter().cloned().map(bare_text).collect();
        texts.sort();
        texts
    };
    texts(a) == texts(b)
}

fn bare_text(mut item: Item) -> String {
    StripDocs.visit_item_mut(&mut item);
    prettyplease::unparse(&File {
        shebang: None,
        frontmatter: None,
        attrs: Vec::new(),
        items: vec![item],
    })
}

struct StripDocs;

impl VisitMut for StripDocs {
    fn visit_attributes_mut(&mut self, attrs: &mut Vec<Attribute>) {
        attrs.retain(|attr| !attr.path().is_ident("doc"));
    }
}

struct Rename {
    names: BTreeMap<String, String>,
}

impl Rename {
    fn apply(&self, name: &str) -> String {
        self.names
            .get(name)
            .cloned()
            .unwrap_or_else(|| name.to_owned())
    }
}

impl VisitMut for Rename {
    fn visit_ident_mut(&mut self, name: &mut proc_macro2::Ident) {
        if let Some(new) = self.names.get(&name.to_string()) {
            *name = ident(new);
        }
        visit_mut::visit_ident_mut(self, name);
    }
}

/// Returns the outermost type in which `name` is nested, by bindgen's naming.
pub(crate) fn root(name: &str) -> &str {
    name.split("__bindgen_ty").next().unwrap_or(name)
}

pub(crate) fn ident(name: &str) -> proc_macro2::Ident {
    proc_macro2::Ident::new(name, proc_macro2::Span::call_site())
}

/// Returns the function type in `Option<unsafe extern "C" fn(…)>`.
pub(crate) fn signature(ty: &Type) -> Option<TypeFnPtr> {
    let Type::Path(path) = ty else { return None };
    let syn::PathArguments::AngleBracketed(args) = &path.path.segments.last()?.arguments else {
        return None;
    };
    match args.args.first()? {
        syn::GenericArgument::Type(Type::FnPtr(function)) => Some(function.clone()),
        _ => None,
    }
}

/// Returns the text and the number of each line of a layout assert.
pub(crate) fn layout_facts(item: &syn::ItemConst) -> Vec<(String, usize)> {
    let Expr::Block(block) = &*item.expr else {
        return Vec::new();
    };
    block
        .block
        .stmts
        .iter()
        .filter_map(|statement| {
            let mut text = None;
            let mut number = None;
            literals(statement.to_token_stream(), &mut |literal| match literal {
                syn::Lit::Str(value) if text.is_none() => text = Some(value.value()),
                syn::Lit::Int(value) => number = value.base10_parse().ok(),
                _ => {}
            });
            Some((text?, number?))
        })
        .collect()
}

fn literals(tokens: TokenStream, found: &mut impl FnMut(syn::Lit)) {
    for token in tokens {
        match token {
            proc_macro2::TokenTree::Group(group) => literals(group.stream(), found),
            proc_macro2::TokenTree::Literal(literal) => found(syn::Lit::new(literal)),
            _ => {}
        }
    }
}

fn is_table(item: &syn::ItemStruct) -> bool {
    item.ident.to_string().ends_with("Table")
}

/// Returns `pub use self::X as Y;` as (X, Y).
fn renamed(item: &syn::ItemUse) -> Option<(String, String)> {
    let syn::UseTree::Path(path) = &item.tree else {
        return None;
    };
    let syn::UseTree::Rename(rename) = &*path.tree else {
        return None;
    };
    Some((rename.ident.to_string(), rename.rename.to_string()))
}

#[cfg(test)]
mod tests {
    use quote::ToTokens;

    use super::Model;

    const NEW: &str = "
        /// The struct A, as in the header.
        #[repr(C)] pub struct A { pub x: u32 }
        const _: () = { [\"Size of A\"][size_of::<A>() - 4usize]; };
        #[repr(C)] pub struct Grown { pub x: u32 }
        const _: () = { [\"Size of Grown\"][size_of::<Grown>() - 4usize]; };
        #[repr(C)] pub struct Newer { pub x: u64 }
        const _: () = { [\"Size of Newer\"][size_of::<Newer>() - 8usize]; };
        #[repr(C)] pub struct Spelled { pub id: u32 }
        const _: () = { [\"Size of Spelled\"][size_of::<Spelled>() - 4usize]; };";

    const OLD: &str = "
        #[repr(C)] pub struct A { pub x: u32 }
        const _: () = { [\"Size of A\",][size_of::<A>() - 4usize]; };
        #[repr(C)] pub struct Grown { pub x: u32, pub y: u32 }
        const _: () = { [\"Size of Grown\",][size_of::<Grown>() - 8usize]; };
        #[repr(C)] pub struct Newer { pub x: u32 }
        const _: () = { [\"Size of Newer\",][size_of::<Newer>() - 4usize]; };
        #[repr(C)] pub struct Spelled { pub ordinal: u32 }
        const _: () = { [\"Size of Spelled\",][size_of::<Spelled>() - 4usize]; };
        pub struct Missing { pub x: u32 }";

    #[test]
    fn longer_type_wins_then_header_unless_spelling_differs() {
        let mut old = Model::default();
        old.add("snapshot", OLD, false).unwrap();
        let joined = Model::parse("header", NEW).unwrap().join(old);
        let facts = |name: &str| {
            let entry = &joined.types[name];
            let replaced = entry.item.replaced.as_ref().map(|theirs| theirs.size);
            (entry.from_header, entry.item.size, replaced)
        };
        assert_eq!(facts("A"), (true, 4, None));
        assert_eq!(facts("Grown"), (false, 8, Some(4)));
        assert_eq!(facts("Newer"), (true, 8, None));
        assert_eq!(facts("Spelled"), (false, 4, Some(4)));
        assert_eq!(facts("Missing"), (false, 0, None));
        let text = joined.types["A"].item.items[0]
            .to_token_stream()
            .to_string();
        assert!(text.contains("The struct A, as in the header"), "{text}");
    }
}
