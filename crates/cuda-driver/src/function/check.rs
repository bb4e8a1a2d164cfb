//! What a launch is checked against before the driver is called.

use std::sync::atomic::Ordering;

use cuda_sys::CUdevice_attribute;
use cuda_sys::image::Parameter;

use super::Function;
use crate::error::{ArgumentError, Error, LaunchConfigError, Result};
use crate::launch::{Dim3, LaunchConfig};

/// No device has more; where it is fewer, or more than 8 are not allowed, the driver says so.
const MOST_BLOCKS_PER_CLUSTER: u64 = 16;

/// What [`pack`] makes of sizes that do not fit in it.
pub(crate) const UNPACKED: u128 = u128::MAX;

/// Sizes in one word, to be compared at once: up to 16, none of them greater than 254.
pub(crate) const fn pack(sizes: &[usize]) -> u128 {
    let (mut packed, mut at) = (0, 0);
    if sizes.len() > 16 {
        return UNPACKED;
    }
    while at < sizes.len() {
        if sizes[at] == 0 || sizes[at] > 254 {
            return UNPACKED;
        }
        packed |= (sizes[at] as u128) << (8 * at);
        at += 1;
    }
    packed
}

impl Function {
    /// An error unless arguments of these sizes are what the kernel takes. `packed` is what [`pack`] makes of the sizes.
    #[inline]
    pub(crate) fn check_packed(&self, packed: u128, sizes: &[usize]) -> Result<()> {
        if packed == self.0.packed && packed != UNPACKED {
            return Ok(());
        }
        self.check_arguments(sizes)
    }

    /// An error unless arguments of these sizes are what the kernel takes.
    pub(crate) fn check_arguments(&self, sizes: &[usize]) -> Result<()> {
        match &self.0.parameters {
            Some(parameters) if self.0.sizes != sizes => {
                Err(self.argument_error(parameters, sizes))
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn argument_error(&self, parameters: &[Parameter], sizes: &[usize]) -> Error {
        let kernel = self.name().to_owned();
        let (expected, given) = (parameters.len(), sizes.len());
        let differs = parameters
            .iter()
            .zip(sizes)
            .position(|(parameter, size)| parameter.size != *size);
        Error::Argument(Box::new(match differs {
            Some(index) if expected == given => ArgumentError::Size {
                kernel,
                index,
                expected: parameters[index].size,
                given: sizes[index],
            },
            _ => ArgumentError::Count {
                kernel,
                expected,
                given,
            },
        }))
    }

    /// An error unless device and kernel allow this configuration.
    #[inline]
    pub(crate) fn check_config(&self, config: &LaunchConfig) -> Result<()> {
        let limits = &self.0.limits;
        let within = |dim: Dim3, most: [u32; 3]| {
            dim.x.wrapping_sub(1) < most[0]
                && dim.y.wrapping_sub(1) < most[1]
                && dim.z.wrapping_sub(1) < most[2]
        };
        let fine = within(config.grid, limits.grid)
            && within(config.block, limits.block)
            && config.block.count() <= u64::from(self.0.max_threads)
            && config.shared_bytes <= self.0.allowed_shared.load(Ordering::Relaxed);
        if fine { Ok(()) } else { self.allow(config) }
    }

    /// Allows the function the dynamic shared memory that it is given, if nothing else is in the way.
    #[cold]
    fn allow(&self, config: &LaunchConfig) -> Result<()> {
        let fixed = self.static_shared_bytes()?;
        let most = self.0.limits.shared.saturating_sub(fixed);
        match self.config_error(config, most) {
            Some(error) => Err(error),
            None => self.allow_shared(config.shared_bytes),
        }
    }

    fn config_error(&self, config: &LaunchConfig, most_shared: u32) -> Option<Error> {
        let limits = &self.0.limits;
        let LaunchConfig {
            grid,
            block,
            shared_bytes,
        } = *config;
        let [gx, gy, gz] = limits.grid;
        let [bx, by, bz] = limits.block;
        let facts = [
            ("grid.x", grid.x, 1, gx),
            ("grid.y", grid.y, 1, gy),
            ("grid.z", grid.z, 1, gz),
            ("block.x", block.x, 1, bx),
            ("block.y", block.y, 1, by),
            ("block.z", block.z, 1, bz),
            (
                "dynamic shared memory in bytes",
                shared_bytes,
                0,
                most_shared,
            ),
        ];
        let broken = facts
            .into_iter()
            .find(|(_, given, least, most)| given < least || given > most);
        let (what, given, least, most) = match broken {
            Some((what, given, least, most)) => {
                (what, u64::from(given), u64::from(least), u64::from(most))
            }
            None if block.count() > u64::from(self.0.max_threads) => (
                "threads per block",
                block.count(),
                1,
                u64::from(self.0.max_threads),
            ),
            None => return None,
        };
        Some(self.out_of_range(what, given, least, most))
    }

    fn out_of_range(&self, what: &'static str, given: u64, least: u64, most: u64) -> Error {
        let kernel = self.name().to_owned();
        Error::LaunchConfig(Box::new(LaunchConfigError {
            kernel,
            what,
            given,
            least,
            most,
        }))
    }

    /// An error unless the device allows clusters of this shape and the grid is made of whole ones.
    pub(crate) fn check_cluster(&self, config: &LaunchConfig, cluster: Option<Dim3>) -> Result<()> {
        let Some(cluster) = cluster else {
            return Ok(());
        };
        let allowed =
            |attribute| Ok::<_, Error>(self.context().device().attribute(attribute)? != 0);
        let most = if !allowed(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)? {
            1
        } else {
            MOST_BLOCKS_PER_CLUSTER
        };
        if !(1..=most).contains(&cluster.count()) {
            return Err(self.out_of_range("blocks per cluster", cluster.count(), 1, most));
        }
        let LaunchConfig { grid, .. } = config;
        let dims = [
            ("blocks of grid.x beyond whole clusters", grid.x % cluster.x),
            ("blocks of grid.y beyond whole clusters", grid.y % cluster.y),
            ("blocks of grid.z beyond whole clusters", grid.z % cluster.z),
        ];
        match dims.into_iter().find(|(_, rest)| *rest != 0) {
            Some((what, rest)) => Err(self.out_of_range(what, rest.into(), 0, 0)),
            None => Ok(()),
        }
    }
}
