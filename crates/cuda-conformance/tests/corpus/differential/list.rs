//! The kernels: the inputs and outputs of each, and the tolerance of its results.

use crate::differential::reference as host;

/// The kind of inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Values {
    /// Any words; smaller ones are more frequent.
    Words,
    /// Floats between two limits.
    Floats(f32, f32),
    /// Floats of all kinds.
    AnyFloats,
    /// Doubles between two limits.
    Doubles(f64, f64),
}

/// The condition under which two results are equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Tolerance {
    /// All bits are equal.
    Same,
    /// All bits are equal, or both are a NaN.
    SameOrNan,
    /// The difference is at most this fraction of the larger number, or of one.
    Near(f64),
}

impl Tolerance {
    /// Whether two results, numbers of one word or two, are equal by this tolerance.
    pub(super) fn accepts(self, found: &[u32], expected: &[u32]) -> bool {
        if found == expected {
            return true;
        }
        let value = |words: &[u32]| match words {
            [low, high] => f64::from_bits(u64::from(*high) << 32 | u64::from(*low)),
            words => f32::from_bits(words[0]).into(),
        };
        let (a, b): (f64, f64) = (value(found), value(expected));
        match self {
            Self::Same => false,
            Self::SameOrNan => a.is_nan() && b.is_nan(),
            Self::Near(part) => {
                let scale = a.abs().max(b.abs()).max(1.0);
                a.is_nan() && b.is_nan() || (a - b).abs() <= part * scale && scale.is_finite()
            }
        }
    }
}

/// Computes on the host the output words of a thread from its input words.
pub(super) type Reference = fn(&[u32]) -> Vec<u32>;

pub(super) struct Kernel {
    pub(super) name: &'static str,
    pub(super) values: Values,
    /// The number of inputs of a thread.
    pub(super) takes: usize,
    pub(super) gives: usize,
    pub(super) tolerance: Tolerance,
    pub(super) reference: Option<Reference>,
}

const fn words(name: &'static str, takes: usize, gives: usize) -> Kernel {
    Kernel {
        name,
        values: Values::Words,
        takes,
        gives,
        tolerance: Tolerance::Same,
        reference: None,
    }
}

const fn exact(name: &'static str, takes: usize, gives: usize) -> Kernel {
    Kernel {
        values: Values::AnyFloats,
        tolerance: Tolerance::SameOrNan,
        ..words(name, takes, gives)
    }
}

/// A kernel of functions that are built on approximations: 4 units in the last place.
const fn near(name: &'static str, takes: usize, gives: usize, least: f32, greatest: f32) -> Kernel {
    Kernel {
        values: Values::Floats(least, greatest),
        tolerance: Tolerance::Near(4.8e-7),
        ..words(name, takes, gives)
    }
}

const fn double(name: &'static str, takes: usize, gives: usize, tolerance: Tolerance) -> Kernel {
    Kernel {
        values: Values::Doubles(-30.0, 30.0),
        tolerance,
        ..words(name, takes, gives)
    }
}

/// The tolerance of doubles: 4 units in the last place.
const NEAR: Tolerance = Tolerance::Near(8.9e-16);

impl Kernel {
    const fn host(self, reference: Reference) -> Self {
        Self {
            reference: Some(reference),
            ..self
        }
    }
}

pub(super) const KERNELS: &[Kernel] = &[
    words("common_divisor", 2, 1).host(host::common_divisor),
    words("murmur", 2, 1).host(host::murmur),
    words("xorshift", 2, 2).host(host::xorshift),
    words("checksum", 1, 1).host(host::checksum),
    words("power_modulo", 3, 1).host(host::power_modulo),
    words("collatz", 1, 1).host(host::collatz),
    words("square_root", 2, 1).host(host::square_root),
    words("signed_division", 4, 4).host(host::signed_division),
    words("morton", 2, 2).host(host::morton),
    words("sorted", 8, 8).host(host::sorted),
    words("stream_cipher", 2, 1),
    words("edit_distance", 4, 1).host(host::edit_distance),
    words("bits_of_all_kinds", 2, 8),
    words("bytes_at_once", 3, 8),
    words("wide_products", 4, 4).host(host::wide_products),
    words("stack_machine", 2, 1).host(host::stack_machine),
    words("recursive_tree", 1, 1).host(host::recursive_tree),
    words("steps_by_pointer", 2, 1).host(host::steps_by_pointer),
    words("decimal_digits", 1, 3).host(host::decimal_digits),
    words("weighted_nibbles", 1, 1).host(host::weighted_nibbles),
    words("narrow_types", 2, 4),
    words("block_sums", 1, 1),
    words("block_histogram", 1, 1),
    words("block_sort", 1, 1),
    words("block_life", 1, 1),
    words("warp_scan", 1, 1),
    words("warp_compact", 1, 1),
    words("warp_votes", 1, 1),
    words("divergent_warps", 1, 1),
    exact("saxpy", 3, 1).host(host::saxpy),
    exact("polynomial", 2, 1).host(host::polynomial),
    exact("fused", 3, 1).host(host::fused),
    exact("compensated_sum", 8, 2).host(host::compensated_sum),
    exact("divided", 2, 4),
    exact("directed", 2, 6),
    exact("rounded", 1, 6),
    exact("extremes", 2, 4),
    exact("parts", 2, 4),
    exact("remainders", 2, 2),
    exact("body", 6, 3),
    exact("mandelbrot", 2, 1).host(host::mandelbrot),
    exact("rotated", 7, 3),
    exact("solved", 12, 3),
    exact("converted", 1, 6),
    near("sine", 1, 1, -100.0, 100.0),
    near("cosine", 1, 1, -100.0, 100.0),
    // The function is steep where it is large.
    Kernel {
        tolerance: Tolerance::Near(2e-6),
        ..near("tangent", 1, 1, -1.5, 1.5)
    },
    near("exponential", 1, 1, -80.0, 80.0),
    near("power_of_two", 1, 1, -120.0, 120.0),
    near("exponential_less_one", 1, 1, -5.0, 5.0),
    near("logarithm", 1, 1, 1e-3, 1e6),
    near("binary_logarithm", 1, 1, 1e-3, 1e6),
    near("logarithm_of_more", 1, 1, -0.9, 100.0),
    near("power", 2, 1, 0.1, 6.0),
    near("arc_tangent", 2, 1, -10.0, 10.0),
    near("arc_sine", 1, 1, -1.0, 1.0),
    near("hyperbolic", 1, 2, -5.0, 5.0),
    near("error_function", 1, 2, -4.0, 4.0),
    near("gamma", 1, 1, -20.0, 20.0),
    near("cube_root", 1, 1, -1e4, 1e4),
    near("reverse_root", 1, 1, 0.1, 1e4),
    near("hypotenuse", 2, 1, -1e3, 1e3),
    near("logistic", 1, 1, -20.0, 20.0),
    double("double_polynomial", 2, 1, Tolerance::SameOrNan),
    double("double_fused", 3, 2, Tolerance::SameOrNan),
    double("double_divided", 2, 2, Tolerance::SameOrNan),
    double("double_rounded", 1, 4, Tolerance::SameOrNan),
    double("double_exponential", 1, 1, NEAR),
    double("double_logarithm", 1, 1, NEAR),
    double("double_sine", 1, 2, NEAR),
    double("double_power", 2, 1, NEAR),
    double("double_arc_tangent", 2, 1, NEAR),
    near("block_softmax", 1, 1, -5.0, 5.0),
    exact("block_product", 1, 1),
    exact("warp_mean", 1, 1),
];
