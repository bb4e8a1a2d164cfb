//! Images as bytes and back.

use cuda_sys::image::{Cubin, LtoIr, OptixIr, Ptx, Signature, TileIr};

/// An image that can be kept.
pub trait Stored: Sized {
    /// Its bytes.
    fn stored_bytes(&self) -> &[u8];

    /// What it carries of its kernels beside its bytes.
    fn stored_signatures(&self) -> Option<&[Signature]> {
        None
    }

    /// The image again; `None` if there can be none.
    ///
    /// # Safety
    ///
    /// They are what [`stored_bytes`](Self::stored_bytes) and [`stored_signatures`](Self::stored_signatures) gave for one image of
    /// this type.
    unsafe fn from_stored(bytes: Vec<u8>, signatures: Option<Vec<Signature>>) -> Option<Self>;
}

impl Stored for Ptx {
    fn stored_bytes(&self) -> &[u8] {
        self.as_c_str().to_bytes()
    }

    unsafe fn from_stored(bytes: Vec<u8>, _: Option<Vec<Signature>>) -> Option<Self> {
        Self::new(bytes).ok()
    }
}

impl Stored for Cubin {
    fn stored_bytes(&self) -> &[u8] {
        self.as_bytes()
    }

    fn stored_signatures(&self) -> Option<&[Signature]> {
        self.signatures()
    }

    unsafe fn from_stored(bytes: Vec<u8>, signatures: Option<Vec<Signature>>) -> Option<Self> {
        // SAFETY: they must be a cubin as the compiler made it ← the caller says that they were one's.
        let cubin = unsafe { Self::from_bytes(bytes) };
        // SAFETY: they must be the compiler's, of this cubin ← the caller says that they were.
        Some(unsafe { cubin.with_signatures(signatures) })
    }
}

macro_rules! stored {
    ($($image:ty),*) => {
        $(impl Stored for $image {
            fn stored_bytes(&self) -> &[u8] {
                self.as_bytes()
            }

            unsafe fn from_stored(bytes: Vec<u8>, _: Option<Vec<Signature>>) -> Option<Self> {
                // SAFETY: they must be an image as the compiler made it ← the caller says that they were one's.
                Some(unsafe { Self::from_bytes(bytes) })
            }
        })*
    };
}

stored!(LtoIr, OptixIr, TileIr);
