//! Conversions between images and stored bytes.

use cuda_sys::image::{Cubin, LtoIr, OptixIr, Ptx, Signature, TileIr};

use crate::token::Token;

/// An image that the cache can store. Its functions take a [`Token`], like those of all sealed
/// traits.
pub trait Stored: Sized {
    /// Returns the bytes of the image.
    fn stored_bytes(&self, token: Token) -> &[u8];

    /// Returns the signatures of the kernels, if the image has them in addition to its bytes.
    fn stored_signatures(&self, _token: Token) -> Option<&[Signature]> {
        None
    }

    /// Recreates the image. Returns `None` if the bytes are not an image.
    ///
    /// # Safety
    ///
    /// The arguments are what [`stored_bytes`](Self::stored_bytes) and
    /// [`stored_signatures`](Self::stored_signatures) returned for one image of this type.
    unsafe fn from_stored(
        bytes: Vec<u8>,
        signatures: Option<Vec<Signature>>,
        token: Token,
    ) -> Option<Self>;
}

impl Stored for Ptx {
    fn stored_bytes(&self, _: Token) -> &[u8] {
        self.as_c_str().to_bytes()
    }

    unsafe fn from_stored(bytes: Vec<u8>, _: Option<Vec<Signature>>, _: Token) -> Option<Self> {
        Self::new(bytes).ok()
    }
}

impl Stored for Cubin {
    fn stored_bytes(&self, _: Token) -> &[u8] {
        self.as_bytes()
    }

    fn stored_signatures(&self, _: Token) -> Option<&[Signature]> {
        self.signatures()
    }

    unsafe fn from_stored(
        bytes: Vec<u8>,
        signatures: Option<Vec<Signature>>,
        _: Token,
    ) -> Option<Self> {
        // SAFETY: `bytes` must be a cubin as the compiler generated it ← the caller guarantees that
        // they are the stored bytes of a cubin.
        let cubin = unsafe { Self::from_bytes(bytes) };
        // SAFETY: the signatures must be those of this cubin ← the caller guarantees it.
        Some(unsafe { cubin.with_signatures(signatures) })
    }
}

macro_rules! stored {
    ($($image:ty),*) => {
        $(impl Stored for $image {
            fn stored_bytes(&self, _: Token) -> &[u8] {
                self.as_bytes()
            }

            unsafe fn from_stored(bytes: Vec<u8>, _: Option<Vec<Signature>>, _: Token) -> Option<Self> {
                // SAFETY: `bytes` must be an image as the compiler made it ← the caller guarantees
                // it.
                Some(unsafe { Self::from_bytes(bytes) })
            }
        })*
    };
}

stored!(LtoIr, OptixIr, TileIr);
