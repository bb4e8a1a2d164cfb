//! Whether a driver loads machine code.

use crate::DriverLibrary;

impl DriverLibrary {
    /// States whether the driver loads machine code (cubins). A software driver may load PTX only;
    /// stated here, it need not be found out by compiling a cubin in vain. `true` is the default.
    #[must_use]
    pub fn with_machine_code(self, loads_machine_code: bool) -> Self {
        Self {
            loads_machine_code,
            ..self
        }
    }

    /// Returns `false` if the driver is known to load PTX only.
    #[must_use]
    pub fn loads_machine_code(&self) -> bool {
        self.loads_machine_code
    }
}
