//! The trait for objects that an error describes, and the error for objects of different contexts.

use super::{ArgumentError, Error};

/// An object that an error describes.
pub(crate) trait Described {
    /// Returns a description that follows the words "belongs to".
    fn described(&self) -> String;
}

impl Error {
    /// Creates the error for an object of the context or driver `of`, used with an object of
    /// `used_with`.
    #[cold]
    pub(crate) fn other_context(
        what: &'static str,
        of: &dyn Described,
        used_with: &dyn Described,
    ) -> Self {
        Self::OtherContext {
            what,
            argument: None,
            of: of.described().into(),
            used_with: used_with.described().into(),
        }
    }

    /// Adds the argument of the launch that the error is about, counted from 1.
    #[cold]
    pub(crate) fn in_argument(mut self, index: u8) -> Self {
        if let Self::OtherContext { argument, .. } = &mut self {
            *argument = Some(index);
        }
        self
    }

    /// Says that a signature, not the arguments of a launch, does not match the parameters.
    #[cold]
    pub(crate) fn in_signature(self) -> Self {
        match self {
            Self::Argument(error) => Self::Argument(Box::new(ArgumentError::Signature(error))),
            other => other,
        }
    }
}
