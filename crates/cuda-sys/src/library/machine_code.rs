//! Whether a driver loads machine code.

use crate::DriverLibrary;

impl DriverLibrary {
    /// States whether the driver loads machine code (cubins). `true` is the default. A software
    /// driver may load only PTX; stating that here saves an attempt to compile and load a cubin.
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
