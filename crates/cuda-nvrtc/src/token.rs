//! The value that only this crate can make, for the functions of sealed traits.

/// A value that only this crate can make.
///
/// Functions of a supertrait can be called through a public bound (`T: Output`) even where the
/// supertrait has no public path. So each of them takes a token, which no other crate has.
#[derive(Clone, Copy, Debug)]
pub struct Token(());

/// The token of this crate.
pub(crate) const TOKEN: Token = Token(());
