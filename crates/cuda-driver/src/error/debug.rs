//! `Debug` of the errors: the text of `Display`, because `main` and `unwrap` print `Debug`.

use std::fmt;

use super::{
    ArgumentError, ArrayError, ExchangeError, GraphUpdateError, InstantiateError,
    LaunchConfigError, RangeError, SafeLaunchError, TensorMapError,
};

macro_rules! debug_prints_the_text {
    ($($error:ty),* $(,)?) => {
        $(
            impl fmt::Debug for $error {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    fmt::Display::fmt(self, f)
                }
            }
        )*
    };
}

debug_prints_the_text!(
    ArgumentError,
    ArrayError,
    ExchangeError,
    GraphUpdateError,
    InstantiateError,
    LaunchConfigError,
    RangeError,
    SafeLaunchError,
    TensorMapError,
);
