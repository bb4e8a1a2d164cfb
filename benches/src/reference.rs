//! Computations in C, with which the bench `compared_with_c` compares kernels.

mod c {
    pub(super) type VectorAdd = unsafe extern "C" fn(*const f32, *const f32, *mut f32, usize);
    pub(super) type Matmul = unsafe extern "C" fn(*const f32, *const f32, *mut f32, usize);
    pub(super) type NBody = unsafe extern "C" fn(*const f32, *mut f32, usize);

    unsafe extern "C" {
        pub(super) fn vector_add_plain(a: *const f32, b: *const f32, c: *mut f32, n: usize);
        pub(super) fn vector_add_fast(a: *const f32, b: *const f32, c: *mut f32, n: usize);
        pub(super) fn matmul_plain(a: *const f32, b: *const f32, c: *mut f32, n: usize);
        pub(super) fn matmul_fast(a: *const f32, b: *const f32, c: *mut f32, n: usize);
        pub(super) fn n_body_plain(bodies: *const f32, forces: *mut f32, n: usize);
        pub(super) fn n_body_fast(bodies: *const f32, forces: *mut f32, n: usize);
    }
}

/// The computations, compiled in one way.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    vector_add: c::VectorAdd,
    matmul: c::Matmul,
    n_body: c::NBody,
}

impl Reference {
    /// Compiled with `-O3`.
    pub fn plain() -> Self {
        Self {
            vector_add: c::vector_add_plain,
            matmul: c::matmul_plain,
            n_body: c::n_body_plain,
        }
    }

    /// Compiled with `-O3 -ffast-math`, on x86-64 also with `-mavx2 -mfma`. Returns `None` if this
    /// CPU lacks these instructions.
    pub fn fast() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if !is_x86_feature_detected!("avx2") || !is_x86_feature_detected!("fma") {
            return None;
        }
        Some(Self {
            vector_add: c::vector_add_fast,
            matmul: c::matmul_fast,
            n_body: c::n_body_fast,
        })
    }

    /// Sets `c` to `a + b`.
    ///
    /// # Panics
    ///
    /// The slices have different lengths.
    pub fn vector_add(&self, a: &[f32], b: &[f32], c: &mut [f32]) {
        let lengths = [a.len(), b.len()];
        assert_eq!(lengths, [c.len(); 2], "the slices must have one length");
        // SAFETY: each must have `c.len()` elements ← checked above. This CPU must have the
        // instructions ← `fast` checked it.
        unsafe { (self.vector_add)(a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), c.len()) };
    }

    /// Sets the matrix `c` to the product of `a` and `b`, all of `n` rows and columns.
    ///
    /// # Panics
    ///
    /// `n` is not a multiple of 16, or the length of a slice is not `n * n`.
    pub fn matmul(&self, a: &[f32], b: &[f32], c: &mut [f32], n: usize) {
        assert!(n.is_multiple_of(16), "{n} is not a multiple of 16");
        let lengths = [a.len(), b.len(), c.len()];
        assert_eq!(lengths, [n * n; 3], "each matrix must have n * n elements");
        // SAFETY: each must have n · n elements, in whole tiles ← checked above. This CPU must have
        // the instructions ← `fast` checked it.
        unsafe { (self.matmul)(a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), n) };
    }

    /// Computes the force on each body. A body is (x, y, z, mass), and a force is (x, y, z, mass).
    ///
    /// # Panics
    ///
    /// The slices have different lengths, or a length that is not a multiple of 4.
    pub fn n_body(&self, bodies: &[f32], forces: &mut [f32]) {
        assert_eq!(bodies.len(), forces.len(), "the lengths differ");
        assert!(bodies.len().is_multiple_of(4), "a body has 4 numbers");
        // SAFETY: both must have 4 · n elements ← checked above. This CPU must have the
        // instructions ← `fast` checked it.
        unsafe { (self.n_body)(bodies.as_ptr(), forces.as_mut_ptr(), bodies.len() / 4) };
    }
}
