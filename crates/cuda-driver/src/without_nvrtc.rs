//! What takes the place of methods of the feature `nvrtc`, if the feature is off: the compiler then
//! names the feature.

use crate::context::Context;
use crate::error::{Error, Result};
use crate::module::Module;
use crate::safe::SafeModule;

/// A source for `from_source`. No type implements this without the feature `nvrtc`.
///
/// ```compile_fail,E0277
/// # fn f(context: &cuda_driver::Context) -> cuda_driver::Result<()> {
/// let module = cuda_driver::Module::from_source(context, "__global__ void k() {}")?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`from_source` needs the feature `nvrtc` of cuda-driver, which is off",
    label = "CUDA C++ cannot be compiled without the feature `nvrtc`",
    note = "add the feature to the dependency: `cargo add cuda-driver --features nvrtc`"
)]
pub trait Source {}

const OFF: Error = Error::Unsupported {
    what: "compiling CUDA C++ without the feature `nvrtc`; switch the feature on",
};

/// # Compiling
impl Module {
    /// Needs the feature `nvrtc`.
    #[doc(hidden)]
    pub fn from_source(_: &Context, _: impl Source) -> Result<Self> {
        Err(OFF)
    }
}

/// # Compiling
impl SafeModule {
    /// Needs the feature `nvrtc`.
    #[doc(hidden)]
    pub fn from_source(_: &Context, _: impl Source) -> Result<Self> {
        Err(OFF)
    }
}
