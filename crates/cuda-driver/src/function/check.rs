//! The checks of a launch before the driver is called: arguments, configuration and cluster shape.

use std::sync::atomic::Ordering;

use cuda_sys::CUdevice_attribute;
use cuda_sys::image::Parameter;

use super::Function;
use super::packing::{UNPACKED, checked_kind};
use crate::error::{ArgumentError, Error, LaunchConfigError, Result, list_of};
use crate::types::{ArgType, Dim3, LaunchConfig, Number};

/// The maximum over all devices. If the limit is lower, or more than 8 are not allowed, the driver
/// reports it.
const MOST_BLOCKS_PER_CLUSTER: u64 = 16;

/// The name of the quantity in errors.
const SHARED: &str = "dynamic shared memory in bytes";

/// The layout of a kernel's parameters, as far as the driver or the image describes it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Layout<'a> {
    /// The padding before each parameter, packed by [`pack_gaps`](super::packing::pack_gaps).
    pub(crate) gaps: u128,
    /// The offset of each parameter in bytes.
    pub(crate) offsets: &'a [usize],
}

impl Function {
    /// The layout of the kernel's parameters.
    #[inline]
    pub(crate) fn layout(&self) -> Layout<'_> {
        Layout {
            gaps: self.0.gaps,
            offsets: &self.0.offsets,
        }
    }

    /// Fails if arguments of these sizes and types do not match the parameters of the kernel.
    /// `packed` is the result of [`pack`](super::packing::pack) for them.
    #[inline]
    pub(crate) fn check_packed(
        &self,
        packed: u128,
        sizes: &[usize],
        types: &[ArgType],
    ) -> Result<()> {
        if packed != UNPACKED && self.0.matching.is(packed) {
            return Ok(());
        }
        self.check_arguments(sizes, types)?;
        if packed != UNPACKED {
            self.0.matching.set(packed);
        }
        Ok(())
    }

    /// Fails if arguments of these sizes and types do not match the parameters of the kernel.
    #[cold]
    pub(crate) fn check_arguments(&self, sizes: &[usize], types: &[ArgType]) -> Result<()> {
        let Some(parameters) = &self.0.parameters else {
            return Ok(());
        };
        let same_sizes = self.0.sizes == sizes;
        let kinds = self.0.kinds.iter().zip(types);
        if same_sizes && !kinds.fold(false, |wrong, (kind, ty)| wrong | ty.contradicts(*kind)) {
            return self.check_pointees(types);
        }
        Err(self.argument_error(parameters, sizes, types))
    }

    /// Fails if the elements of a buffer are certainly not what the kernel's pointer points to.
    fn check_pointees(&self, types: &[ArgType]) -> Result<()> {
        let both = self.0.pointees.iter().zip(types).enumerate();
        let mut wrong = both.filter_map(|(index, (pointee, ty))| {
            let pointee = (*pointee)?;
            ty.contradicts_pointee(pointee)
                .then_some((index, pointee, *ty))
        });
        let Some((index, pointee, ty)) = wrong.next() else {
            return Ok(());
        };
        let parameters = self.0.parameters.as_deref().unwrap_or_default();
        let name = parameters.get(index).and_then(|it| it.name.clone());
        Err(Error::Argument(Box::new(ArgumentError::Elements {
            kernel: self.name().to_owned(),
            index,
            name,
            expected: pointee.name(),
            given: ty.name().unwrap_or("a buffer"),
        })))
    }

    /// Fails if the kernel does not have `given` parameters, as far as they are known.
    pub(crate) fn expect_parameters(&self, given: usize) -> Result<()> {
        match &self.0.parameters {
            Some(parameters) if parameters.len() != given => {
                let (kernel, expected) = (self.name().to_owned(), parameters.len());
                Err(Error::Argument(Box::new(ArgumentError::Count {
                    kernel,
                    expected,
                    parameters: self.parameter_list(parameters),
                    given,
                })))
            }
            _ => Ok(()),
        }
    }

    fn parameter_list(&self, parameters: &[Parameter]) -> String {
        let pointees = self.0.pointees.iter();
        list_of(parameters, pointees.map(|it| it.map(Number::name)))
    }

    #[cold]
    fn argument_error(
        &self,
        parameters: &[Parameter],
        sizes: &[usize],
        types: &[ArgType],
    ) -> Error {
        let kernel = self.name().to_owned();
        let (expected, given) = (parameters.len(), sizes.len());
        let differs = (0..expected.min(given)).find(|&index| {
            let (parameter, size) = (&parameters[index], sizes[index]);
            parameter.size != size || types[index].contradicts(checked_kind(parameter))
        });
        Error::Argument(Box::new(match differs {
            Some(index) if expected == given => ArgumentError::Mismatch {
                kernel,
                index,
                parameter: parameters[index].clone(),
                given: sizes[index],
                given_type: types[index].name(),
            },
            _ => ArgumentError::Count {
                kernel,
                expected,
                parameters: self.parameter_list(parameters),
                given,
            },
        }))
    }

    /// Fails if the device or the kernel does not allow this configuration.
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

    /// Raises the kernel's limit of dynamic shared memory to the value of `config`, if nothing else
    /// is wrong with `config`.
    #[cold]
    fn allow(&self, config: &LaunchConfig) -> Result<()> {
        match self.config_error(config, self.max_shared()?) {
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
            (SHARED, shared_bytes, 0, most_shared),
        ];
        let broken = facts
            .into_iter()
            .find(|(_, given, least, most)| given < least || given > most);
        let (what, given, least, most) = match broken {
            Some((what, given, least, most)) => {
                (what, u64::from(given), u64::from(least), u64::from(most))
            }
            None if block.count() > u64::from(self.0.max_threads) => (
                "the number of threads per block",
                block.count(),
                1,
                u64::from(self.0.max_threads),
            ),
            None => return None,
        };
        Some(self.out_of_range(what, given, least, most))
    }

    #[cold]
    pub(super) fn shared_out_of_range(&self, bytes: u32, most: u32) -> Error {
        self.out_of_range(SHARED, u64::from(bytes), 0, u64::from(most))
    }

    fn out_of_range(&self, what: &'static str, given: u64, least: u64, most: u64) -> Error {
        let kernel = self.name().to_owned();
        Error::LaunchConfig(Box::new(LaunchConfigError::OutOfRange {
            kernel,
            what,
            given,
            least,
            most,
        }))
    }

    /// Fails if the device does not allow clusters of this shape, or if the grid is not a multiple
    /// of it.
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
            return Err(self.out_of_range(
                "the number of blocks per cluster",
                cluster.count(),
                1,
                most,
            ));
        }
        let LaunchConfig { grid, .. } = config;
        let dims = [
            ("grid.x", grid.x, cluster.x),
            ("grid.y", grid.y, cluster.y),
            ("grid.z", grid.z, cluster.z),
        ];
        let partial = dims
            .into_iter()
            .find(|(_, given, size)| !given.is_multiple_of(*size));
        let Some((what, given, cluster)) = partial else {
            return Ok(());
        };
        Err(Error::LaunchConfig(Box::new(
            LaunchConfigError::PartialCluster {
                kernel: self.name().to_owned(),
                what,
                given,
                cluster,
            },
        )))
    }
}
