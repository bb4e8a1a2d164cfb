//! The checks of a launch before the driver is called: arguments, configuration and cluster shape.

use std::sync::atomic::{AtomicU64, Ordering};

use cuda_sys::CUdevice_attribute;
use cuda_sys::image::{Parameter, ParameterKind};

use super::Function;
use crate::error::{ArgumentError, Error, LaunchConfigError, Result};
use crate::types::{ArgType, Dim3, LaunchConfig};

/// The maximum over all devices. If the limit is lower, or more than 8 are not allowed, the driver
/// reports it.
const MOST_BLOCKS_PER_CLUSTER: u64 = 16;

/// The name of the quantity in errors.
const SHARED: &str = "dynamic shared memory in bytes";

/// The layout of a kernel's parameters, as far as the driver or the image describes it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Layout<'a> {
    /// The padding before each parameter, packed by [`pack_gaps`].
    pub(crate) gaps: u128,
    /// The offset of each parameter in bytes.
    pub(crate) offsets: &'a [usize],
}

/// The result of [`pack`] for arguments that do not fit in one word.
pub(crate) const UNPACKED: u128 = u128::MAX;

/// Packs the sizes of arguments, and whether they are integers or floats, into one word, so that
/// they can be compared at once. Up to 16 arguments fit, each of 1 to 250 bytes.
pub(crate) const fn pack(sizes: &[usize], types: &[ArgType]) -> u128 {
    let (mut packed, mut at) = (0, 0);
    while at < sizes.len() && at < types.len() {
        packed = pack_next(packed, at, sizes[at], types[at]);
        at += 1;
    }
    if sizes.len() == types.len() {
        packed
    } else {
        UNPACKED
    }
}

/// Adds the argument with the index `at` to the result of [`pack`] for those before it.
pub(crate) const fn pack_next(packed: u128, at: usize, size: usize, ty: ArgType) -> u128 {
    if packed == UNPACKED || at >= 16 || size == 0 || size > 250 {
        return UNPACKED;
    }
    // The code is the size, except for the types that may contradict the kind of a parameter. No
    // code is 255, so no result is `UNPACKED`.
    let code = match size {
        4 if ty.is_integer() => 251,
        4 if ty.is_float() => 252,
        8 if ty.is_integer() => 253,
        8 if ty.is_float() => 254,
        _ => size as u128,
    };
    packed | (code << (8 * at))
}

/// A list of arguments that was compared with the parameters of the kernel and matches them, in the
/// form of [`pack`].
///
/// The halves may be of two different lists, because they are stored one after the other. The
/// combination then matches too: each argument is compared on its own, and all lists that match
/// have the same number of arguments. If the parameters are not known, every list matches.
#[derive(Debug)]
pub(super) struct Matching([AtomicU64; 2]);

impl Matching {
    pub(super) fn none() -> Self {
        Self([AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)])
    }

    #[inline]
    fn is(&self, packed: u128) -> bool {
        let [low, high] = halves(packed);
        self.0[0].load(Ordering::Relaxed) == low && self.0[1].load(Ordering::Relaxed) == high
    }

    fn set(&self, packed: u128) {
        for (half, value) in self.0.iter().zip(halves(packed)) {
            half.store(value, Ordering::Relaxed);
        }
    }
}

#[inline]
const fn halves(packed: u128) -> [u64; 2] {
    [packed as u64, (packed >> 64) as u64]
}

/// Packs the padding before each parameter, in the form of [`pack`]. If both the sizes and the gaps
/// of two lists are equal, their layouts are equal.
pub(crate) const fn pack_gaps(offsets: &[usize], sizes: &[usize]) -> u128 {
    let (mut packed, mut at, mut end) = (0, 0, 0);
    if offsets.len() != sizes.len() || sizes.is_empty() || sizes.len() > 16 {
        return UNPACKED;
    }
    while at < offsets.len() {
        if sizes[at] == 0 || sizes[at] > 254 || offsets[at] < end || offsets[at] - end > 254 {
            return UNPACKED;
        }
        packed |= ((offsets[at] - end) as u128) << (8 * at);
        end = offsets[at] + sizes[at];
        at += 1;
    }
    packed
}

/// Computes the C (`repr(C)`) layout of fields of these sizes and alignments. Returns the packed
/// gaps and the end of the last field.
pub(crate) const fn c_layout<const N: usize>(fields: &[(usize, usize); N]) -> (u128, usize) {
    let (mut sizes, mut offsets) = ([0; N], [0; N]);
    let (mut at, mut end) = (0, 0_usize);
    while at < N {
        let (size, align) = fields[at];
        offsets[at] = end.next_multiple_of(align);
        sizes[at] = size;
        end = offsets[at] + size;
        at += 1;
    }
    (pack_gaps(&offsets, &sizes), end)
}

/// Returns the kind of a parameter with which the type of an argument is compared. Only types of 4
/// or 8 bytes are compared: C++ programs use 16-bit integers to store halves.
pub(super) fn checked_kind(parameter: &Parameter) -> ParameterKind {
    match parameter.size {
        4 | 8 => parameter.kind,
        _ => ParameterKind::Unknown,
    }
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
    /// `packed` is the result of [`pack`] for them.
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
            return Ok(());
        }
        Err(self.argument_error(parameters, sizes, types))
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

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::{UNPACKED, c_layout, pack_gaps};

    #[test]
    fn fields_are_where_c_has_them() {
        #[repr(C)]
        struct Fields {
            a: u8,
            b: u64,
            c: f32,
            d: [u16; 3],
            e: u128,
            f: u8,
            g: u16,
            h: u8,
            i: u32,
        }
        let fields = [
            (1, 1),
            (8, 8),
            (4, 4),
            (6, 2),
            (16, align_of::<u128>()),
            (1, 1),
            (2, 2),
            (1, 1),
            (4, 4),
        ];
        let offsets = [
            offset_of!(Fields, a),
            offset_of!(Fields, b),
            offset_of!(Fields, c),
            offset_of!(Fields, d),
            offset_of!(Fields, e),
            offset_of!(Fields, f),
            offset_of!(Fields, g),
            offset_of!(Fields, h),
            offset_of!(Fields, i),
        ];
        let sizes = fields.map(|(size, _)| size);
        let (gaps, end) = c_layout(&fields);
        assert_eq!(gaps, pack_gaps(&offsets, &sizes));
        assert_ne!(gaps, UNPACKED);
        assert_eq!(end, offset_of!(Fields, i) + 4);
        // A field with another alignment changes the layout.
        let mut moved = fields;
        moved[3].1 = 8;
        assert_ne!(c_layout(&moved).0, gaps);
    }

    #[test]
    fn sizes_that_do_not_fit_in_a_word_are_unpacked() {
        assert_eq!(pack_gaps(&[], &[]), UNPACKED);
        assert_eq!(pack_gaps(&[0, 256], &[1, 1]), UNPACKED);
        assert_eq!(pack_gaps(&[0], &[300]), UNPACKED);
        assert_eq!(pack_gaps(&[8, 0], &[8, 8]), UNPACKED);
        assert_eq!(pack_gaps(&[0, 255], &[1, 1]), 254 << 8);
    }
}
