//! The limits of a device for arrays.

use std::ops::RangeInclusive;

use cuda_sys::{CUdevice_attribute as Attribute, CUresult};

use super::shape::{ArrayFlags, ArrayShape, ShapeKind};
use crate::device::Device;
use crate::error::{ArrayError, DriverError, Error, Result};

/// The next step if a size exceeds a limit of the device.
const DIVIDE: &str = "divide the elements among several arrays";

/// The attributes that limit the width, the height, and the depth or the layers.
type Limits = [Option<Attribute>; 3];

/// Fails if the device cannot create an array of this shape.
pub(super) fn check(device: &Device, shape: &ArrayShape, flags: ArrayFlags) -> Result<()> {
    let is_gathered = flags.contains(ArrayFlags::GATHER);
    if is_gathered && shape.kind != ShapeKind::TwoD {
        return Err(contradiction(
            "ArrayFlags::GATHER needs an array with two dimensions and no layers",
            "use ArrayShape::two_d, or leave out the flag",
        ));
    }
    let (name, textures, surfaces) = attributes(shape.kind);
    let mut all = vec![textures];
    if flags.contains(ArrayFlags::SURFACE) {
        all.push(surfaces);
    }
    if is_gathered {
        all.push([
            Some(Attribute::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH),
            Some(Attribute::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT),
            None,
        ]);
    }
    let last = match shape.kind {
        ShapeKind::ThreeD => "depth",
        ShapeKind::Cube | ShapeKind::CubeLayered => "number of faces",
        _ => "number of layers",
    };
    let sizes = [
        ("width", shape.width),
        ("height", shape.height),
        (last, shape.depth),
    ];
    for limits in all {
        for ((what, given), limit) in sizes.into_iter().zip(limits) {
            let Some(limit) = limit else { continue };
            let most = u64::try_from(device.attribute(limit)?).unwrap_or(0);
            within(what, name, given as u64, 1..=most, DIVIDE)?;
        }
    }
    Ok(())
}

/// Fails unless `given` is in the range `allowed`. `next` says what to do if it is too large.
pub(super) fn within(
    what: &'static str,
    of: &'static str,
    given: u64,
    allowed: RangeInclusive<u64>,
    next: &'static str,
) -> Result<()> {
    if allowed.contains(&given) {
        return Ok(());
    }
    let (least, most) = allowed.into_inner();
    Err(ArrayError::Size {
        what,
        of,
        given,
        least,
        most,
        next,
    }
    .into())
}

/// Returns the error of two settings that contradict each other.
pub(super) fn contradiction(rule: &'static str, next: &'static str) -> Error {
    ArrayError::Contradiction { rule, next }.into()
}

/// Returns the error of a call that the driver does not support, if the request needs a feature
/// that not every device has. `feature` is that feature, and what to do without it.
pub(super) fn not_supported_error(
    error: DriverError,
    feature: Option<(&'static str, &'static str)>,
) -> Option<Error> {
    let (what, next) = feature?;
    if error.status() != CUresult::CUDA_ERROR_NOT_SUPPORTED {
        return None;
    }
    let source = error;
    Some(ArrayError::NotSupported { what, next, source }.into())
}

/// Returns the name of the kind, and its limits for textures and for surfaces.
fn attributes(kind: ShapeKind) -> (&'static str, Limits, Limits) {
    type A = Attribute;
    match kind {
        ShapeKind::OneD => (
            "a one-dimensional array",
            [
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH),
                None,
                None,
            ],
            [
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH),
                None,
                None,
            ],
        ),
        ShapeKind::TwoD => (
            "a two-dimensional array",
            [
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH),
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT),
                None,
            ],
            [
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH),
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT),
                None,
            ],
        ),
        ShapeKind::ThreeD => (
            "a three-dimensional array",
            [
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH),
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT),
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH),
            ],
            [
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH),
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT),
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH),
            ],
        ),
        ShapeKind::OneDLayered => (
            "an array of one-dimensional layers",
            [
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH),
                None,
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS),
            ],
            [
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH),
                None,
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS),
            ],
        ),
        ShapeKind::TwoDLayered => (
            "an array of two-dimensional layers",
            [
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH),
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT),
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS),
            ],
            [
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH),
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT),
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS),
            ],
        ),
        ShapeKind::Cube => (
            "a cube array",
            [
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH),
                None,
                None,
            ],
            [
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH),
                None,
                None,
            ],
        ),
        ShapeKind::CubeLayered => (
            "an array of cubes",
            [
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH),
                None,
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS),
            ],
            [
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH),
                None,
                Some(A::CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS),
            ],
        ),
    }
}
