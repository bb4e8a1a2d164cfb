//! The kernels of an image, and the types of their parameters.
//!
//! PTX has neither element types nor constness, and the name of an `extern "C"` kernel does not
//! contain its type. The compiler states it in the mangled name of a helper template that is
//! instantiated with the type of the kernel.

use crate::Error;
use crate::generate::Signature;
use crate::mangled::{self, Type};
use crate::types::Types;

/// The helper template, which follows the source.
pub(crate) const HELPER: &str =
    "\n\ntemplate <typename T> __global__ void cuda_build_signature() {}\n";

/// The largest number of parameters of a typed kernel in cuda-driver.
const MOST_PARAMETERS: usize = 16;

/// A kernel of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The name in the image.
    pub(crate) symbol: String,
    /// The name expression that names the kernel, if the user gave one.
    pub(crate) expression: Option<String>,
    /// The mangled name that contains the types: that of the helper, or of the kernel itself.
    pub(crate) types: Option<String>,
}

/// Returns the kernels with these names in the image. `lowered` are the user's name expressions
/// with their names in the image.
pub(crate) fn entries(
    symbols: impl Iterator<Item = String>,
    lowered: &[(String, String)],
) -> Vec<Entry> {
    let entry = |symbol: String| {
        let found = lowered.iter().find(|(_, name)| *name == symbol);
        let expression = found.map(|(expression, _)| expression.clone());
        // The name of an instance of a template may contain types such as `typename T::Element`,
        // which the helper resolves.
        let has_types = expression.is_none()
            && symbol.starts_with("_Z")
            && mangled::function(&symbol).is_none_or(|found| found.parameters.is_some());
        Entry {
            types: has_types.then(|| symbol.clone()),
            symbol,
            expression,
        }
    };
    symbols.map(entry).collect()
}

impl Entry {
    /// Returns the name in C++.
    pub(crate) fn name(&self) -> String {
        if let Some(expression) = &self.expression {
            return expression.clone();
        }
        mangled::function(&self.symbol).map_or_else(|| self.symbol.clone(), |found| found.name)
    }

    pub(crate) fn lacks_types(&self) -> bool {
        self.types.is_none()
    }

    /// Returns the name expression of the helper whose mangled name contains the types.
    pub(crate) fn helper(&self) -> String {
        // Names in an anonymous namespace are visible without it.
        let name = self
            .name()
            .replace(&format!("{}::", mangled::ANONYMOUS), "");
        format!("cuda_build_signature<decltype(&{name})>")
    }

    /// Returns the types of the parameters.
    pub(crate) fn signature(&self, file: &str, types: &Types) -> Result<Signature, Error> {
        let kernel = self.name();
        let parameters = self.parameters().ok_or_else(|| Error::Unreadable {
            file: file.to_owned(),
            kernel: kernel.clone(),
            mangled: self.types.clone().unwrap_or_default(),
        })?;
        if parameters.len() > MOST_PARAMETERS {
            return Err(Error::TooManyParameters {
                file: file.to_owned(),
                kernel,
                count: parameters.len(),
                limit: MOST_PARAMETERS,
            });
        }
        let cpp = mangled::list(&parameters);
        let mut rust = Vec::new();
        for (number, parameter) in (1..).zip(&parameters) {
            let found = types.parameter(parameter);
            rust.push(found.map_err(|unknown| Error::UnknownType {
                file: file.to_owned(),
                kernel: kernel.clone(),
                parameters: cpp.clone(),
                number,
                cpp: unknown,
            })?);
        }
        Ok(Signature { cpp, rust })
    }

    fn parameters(&self) -> Option<Vec<Type>> {
        let types = self.types.as_ref()?;
        let function = mangled::function(types)?;
        if self.types.as_ref() == Some(&self.symbol) {
            return function.parameters;
        }
        match function.first_argument? {
            Type::Pointer(pointee) => match *pointee {
                Type::Function(parameters) => Some(parameters),
                _ => None,
            },
            _ => None,
        }
    }
}
