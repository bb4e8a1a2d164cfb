//! The type of a kernel argument, for the comparison with the parameter of the kernel.

use cuda_sys::image::ParameterKind;

macro_rules! numbers {
    ($($name:ident $rust:literal $bytes:expr,)*) => {
        /// The type of a kernel argument, as far as it is compared with the parameter of the
        /// kernel.
        ///
        /// A newtype around an argument takes it from the inner type: see
        /// [`KernelArg::ARG_TYPE`](crate::launch::KernelArg::ARG_TYPE).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum ArgType {
            /// Any other type, such as a struct: it fits every parameter of its size.
            Other,
            /// The address of a buffer or view.
            Address,
            /// The address of a buffer or view whose elements are numbers.
            AddressOf(Number),
            $(
                #[doc = concat!("`", $rust, "`.")]
                $name,
            )*
        }

        /// The type of the elements of a buffer or view, if they are numbers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Number {
            $(
                #[doc = concat!("`", $rust, "`.")]
                $name,
            )*
        }

        impl ArgType {
            /// Returns the type of the address of a buffer or view with elements of type
            /// `element`.
            #[must_use]
            pub const fn address_of(element: Self) -> Self {
                match element {
                    $(Self::$name => Self::AddressOf(Number::$name),)*
                    Self::Other | Self::Address | Self::AddressOf(_) => Self::Address,
                }
            }

            /// Returns the name for messages; `None` for a type that only its size describes.
            pub(crate) const fn name(self) -> Option<&'static str> {
                Some(match self {
                    Self::Other => return None,
                    Self::Address => "a buffer",
                    $(Self::AddressOf(Number::$name) => concat!("a buffer of ", $rust),)*
                    $(Self::$name => $rust,)*
                })
            }
        }

        impl Number {
            const fn size(self) -> usize {
                match self {
                    $(Self::$name => $bytes,)*
                }
            }

            /// Returns the name of the type in Rust.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $rust,)*
                }
            }
        }
    };
}

numbers! {
    U8 "u8" 1,
    U16 "u16" 2,
    U32 "u32" 4,
    U64 "u64" 8,
    U128 "u128" 16,
    Usize "usize" size_of::<usize>(),
    I8 "i8" 1,
    I16 "i16" 2,
    I32 "i32" 4,
    I64 "i64" 8,
    I128 "i128" 16,
    Isize "isize" size_of::<isize>(),
    F32 "f32" 4,
    F64 "f64" 8,
}

impl ArgType {
    /// Returns the type without that of the elements of a buffer.
    pub(crate) const fn without_elements(self) -> Self {
        match self {
            Self::AddressOf(_) => Self::Address,
            other => other,
        }
    }

    pub(crate) const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    pub(crate) const fn is_integer(self) -> bool {
        !self.is_float() && !matches!(self, Self::Other)
    }

    /// Returns whether an argument of this type is certainly wrong for a parameter of the same
    /// size: a float for an integer, or an integer for a float.
    pub(crate) const fn contradicts(self, kind: ParameterKind) -> bool {
        match kind {
            ParameterKind::Float => self.is_integer(),
            ParameterKind::Unsigned | ParameterKind::Signed => self.is_float(),
            ParameterKind::Unknown | ParameterKind::Bits | ParameterKind::Array => false,
        }
    }

    /// Returns whether this is a buffer whose elements are certainly wrong for a pointer to
    /// numbers of type `pointee`: they have another size, or one of the types is a float and the
    /// other an integer. Bytes fit every pointer, and a pointer to bytes fits every buffer.
    pub(crate) const fn contradicts_pointee(self, pointee: Number) -> bool {
        let (element, pointee) = (self.element_class(), pointee.class());
        element != 0 && pointee != 0 && element != pointee
    }

    /// Returns the [class](Number::class) of the elements of a buffer, or 0 if it is not known.
    pub(crate) const fn element_class(self) -> u8 {
        match self {
            Self::AddressOf(element) => element.class(),
            _ => 0,
        }
    }
}

impl Number {
    /// The largest result of [`class`](Self::class).
    pub(crate) const MAX_CLASS: u8 = 6;

    /// Returns a number that two types have in common if memory of the one may be passed for the
    /// other. It is 0 for bytes, which may be passed for everything. Integers of 16 bits may be
    /// halves: C++ programs store them so.
    const fn class(self) -> u8 {
        match (self.size(), matches!(self, Self::F32 | Self::F64)) {
            (2, _) => 1,
            (4, false) => 2,
            (4, true) => 3,
            (8, false) => 4,
            (8, true) => 5,
            (16, _) => Self::MAX_CLASS,
            _ => 0,
        }
    }
}
