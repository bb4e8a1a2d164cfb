//! Corrections of `#define` constants for which bindgen does not keep that the number is unsigned,
//! or that the header undefines the name again.

use crate::emit::number;
use crate::model::Model;

/// Removes the constants that the header itself undefines (`#undef`), so that C does not have them.
pub(crate) fn drop_undefined(model: &mut Model, header: &str) {
    for line in header.lines() {
        if let Some(name) = line.trim().strip_prefix("#undef ") {
            model.consts.remove(name.trim());
        }
    }
}

/// Restores the C type and value of constants such as `(~0u)`, which bindgen generates as -1.
pub(crate) fn restore_unsigned(model: &mut Model, header: &str) {
    for (name, entry) in &mut model.consts {
        let Some(value) = number(&entry.item.expr).and_then(|value| i32::try_from(value).ok())
        else {
            continue;
        };
        if value < 0 && definition(header, name).is_some_and(is_unsigned) {
            let value = proc_macro2::Literal::u32_unsuffixed(value.cast_unsigned());
            *entry.item.ty = syn::parse_quote!(u32);
            *entry.item.expr = syn::parse_quote!(#value);
        }
    }
}

/// Returns the text to which `#define name` expands.
fn definition<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    header.lines().find_map(|line| {
        let text = line.trim().strip_prefix("#define ")?.trim_start();
        text.strip_prefix(name)?.strip_prefix([' ', '\t'])
    })
}

/// Returns whether the definition contains a number with the suffix `u`.
fn is_unsigned(definition: &str) -> bool {
    let bytes = definition.as_bytes();
    bytes
        .windows(2)
        .any(|pair| pair[0].is_ascii_digit() && matches!(pair[1], b'u' | b'U'))
}

#[cfg(test)]
mod tests {
    use quote::ToTokens;

    use super::{drop_undefined, restore_unsigned};
    use crate::model::Model;

    #[test]
    fn negative_number_of_unsigned_type_becomes_unsigned() {
        let text = "pub const ANY: i32 = -1; pub const MINUS: i32 = -1; pub const ONE: u32 = 1;";
        let mut model = Model::parse("test", text).unwrap();
        restore_unsigned(
            &mut model,
            "#define ANY_OTHER -1\n#define ANY (~0u)\n#define MINUS -1\n#define ONE 1u\n",
        );
        let shown = |name: &str| model.consts[name].item.to_token_stream().to_string();
        assert_eq!(shown("ANY"), "pub const ANY : u32 = 4294967295 ;");
        assert_eq!(shown("MINUS"), "pub const MINUS : i32 = - 1 ;");
        assert_eq!(shown("ONE"), "pub const ONE : u32 = 1 ;");
    }

    #[test]
    fn a_constant_that_is_undefined_again_is_dropped() {
        let text = "pub const KEPT: u32 = 1; pub const GONE: u32 = 2;";
        let mut model = Model::parse("test", text).unwrap();
        drop_undefined(&mut model, "#define GONE 2\n#undef GONE\n#undef OTHER\n");
        assert_eq!(model.consts.keys().collect::<Vec<_>>(), ["KEPT"]);
    }
}
