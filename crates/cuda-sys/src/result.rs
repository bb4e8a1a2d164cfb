//! A description of each status code, which needs no driver.

use std::fmt;

use crate::CUresult;

impl CUresult {
    /// Returns whether the call succeeded.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 == Self::CUDA_SUCCESS.0
    }

    /// Returns a description in one line; `None` for a code that these bindings do not know.
    #[must_use]
    pub const fn description(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "no error",
            1 => "an argument is out of its range",
            2 => "out of memory",
            3 => "the driver is not initialized",
            4 => "the driver is shutting down",
            5 => "the profiler is disabled",
            6 => "the profiler is not initialized",
            7 => "the profiler is already started",
            8 => "the profiler is already stopped",
            34 => "the loaded library is a stub without a driver in it",
            36 => "the function needs a newer driver",
            46 => "the device is not available, perhaps held exclusively by another process",
            47 => "multicast resources are exhausted",
            100 => "no CUDA device was found",
            101 => "no device has this ordinal",
            102 => "the device has no valid licence",
            200 => "the image of device code is invalid",
            201 => "the context is invalid, or no context is current",
            202 => "the context is already current",
            205 => "mapping failed",
            206 => "unmapping failed",
            207 => "the array is mapped",
            208 => "the resource is already mapped",
            209 => "the image holds no code for this device",
            210 => "the resource is already acquired",
            211 => "the resource is not mapped",
            212 => "the resource is not mapped as an array",
            213 => "the resource is not mapped as a pointer",
            214 => "an uncorrectable ECC error was found",
            215 => "the device does not support this limit",
            216 => "the context is in use by another thread",
            217 => "the devices do not support peer access",
            218 => "the PTX could not be compiled",
            219 => "the graphics context is invalid",
            220 => "an uncorrectable NVLink error was found",
            221 => "the PTX compiler of the driver was not found",
            222 => "the PTX was written by a compiler newer than the driver",
            223 => "compilation of PTX is disabled",
            224 => "the device does not support this execution affinity",
            225 => "the PTX synchronizes on the device in a way that is not supported",
            226 => "an error on the device was contained to this context",
            227 => "the image needs a newer loader",
            300 => "the kernel source is invalid",
            301 => "the file was not found",
            302 => "a shared object lacks a symbol",
            303 => "a shared object could not be initialized",
            304 => "a call to the operating system failed",
            400 => "the handle is not valid",
            401 => "the resource is in the wrong state for this operation",
            402 => "the query would lose information",
            500 => "the named symbol was not found",
            600 => "the work has not completed yet",
            700 => "a kernel accessed an invalid address",
            701 => "the launch needs more resources than there are",
            702 => "the kernel ran longer than is allowed",
            703 => "the launch uses an incompatible texturing mode",
            704 => "peer access is already enabled",
            705 => "peer access is not enabled",
            708 => "the primary context is already active",
            709 => "the context is destroyed",
            710 => "a device-side assertion failed",
            711 => "no more peer mappings are possible",
            712 => "the host memory is already registered",
            713 => "the host memory is not registered",
            714 => "the stack of a kernel is corrupt or overflowed",
            715 => "a kernel met an illegal instruction",
            716 => "a kernel used a misaligned address",
            717 => "a kernel used an address of the wrong memory space",
            718 => "the program counter of a kernel is invalid",
            719 => "a kernel failed",
            720 => "the cooperative launch has more blocks than fit on the device",
            721 => "a kernel ended without freeing its tensor memory",
            800 => "the operation is not permitted",
            801 => "the operation is not supported on this system",
            802 => "the system is not ready for CUDA work",
            803 => "the driver and the library do not match",
            804 => "forward compatibility is not supported on this device",
            805 => "the MPS client could not connect",
            806 => "the MPS server reported a failure",
            807 => "the MPS server is not ready",
            808 => "the MPS server has no room for another client",
            809 => "the MPS server has no room for another connection",
            810 => "the MPS server ended this client",
            811 => "dynamic parallelism is not supported here",
            812 => "the versions of dynamic parallelism do not match",
            900 => "the operation is not allowed while a stream is captured",
            901 => "the capture was invalidated by an earlier error",
            902 => "the operation would merge two captures",
            903 => "the capture was not started in this stream",
            904 => "the capture has a fork that was not joined",
            905 => "the operation would make a capture depend on work outside it",
            906 => "the operation would involve the legacy stream in a capture",
            907 => "the event was last recorded in a capture",
            908 => "the capture was begun by another thread",
            909 => "the operation timed out",
            910 => "the executable graph cannot take this update",
            911 => "a device other than a GPU failed",
            912 => "the cluster is misconfigured",
            913 => "the function is not loaded",
            914 => "the resource is of the wrong type",
            915 => "the configuration of the resource is insufficient",
            916 => "a key rotation is under way",
            917 => "the stream is detached",
            918 => "the recaptured work does not match the graph",
            919 => "the fabric is not ready",
            999 => "unknown error",
            _ => return None,
        })
    }
}

impl fmt::Display for CUresult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.description()) {
            (Some(name), Some(description)) => write!(f, "{description} ({name}, {})", self.0),
            (Some(name), None) => write!(f, "{name} ({})", self.0),
            _ => write!(f, "unknown status {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::CUresult;

    #[test]
    fn every_code_with_a_name_has_a_description() {
        let named: Vec<u32> = (0..2000)
            .filter(|&code| CUresult(code).name().is_some())
            .collect();
        assert!(named.len() >= 100, "{} codes", named.len());
        for code in 0..2000 {
            let result = CUresult(code);
            assert_eq!(
                result.name().is_some(),
                result.description().is_some(),
                "code {code}"
            );
        }
        assert_eq!(
            CUresult(36).name(),
            Some("CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER")
        );
    }

    #[test]
    fn unknown_status_codes_are_kept_as_numbers() {
        assert_eq!(CUresult(123_456).to_string(), "unknown status 123456");
        assert_eq!(
            CUresult(2).to_string(),
            "out of memory (CUDA_ERROR_OUT_OF_MEMORY, 2)"
        );
    }
}
