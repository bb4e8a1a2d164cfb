//! Images as bytes and back.

use cuda_sys::image::{Cubin, LtoIr, OptixIr, Ptx, Signature, TileIr};

/// An image that can be kept.
pub trait Stored: Sized {
    /// Its bytes.
    fn stored_bytes(&self) -> &[u8];

    /// The image of these bytes; `None` if there can be none.
    ///
    /// # Safety
    ///
    /// They are what [`stored_bytes`](Self::stored_bytes) gave for an image of this type.
    unsafe fn from_stored(bytes: Vec<u8>) -> Option<Self>;

    /// What it carries of its kernels beside its bytes.
    fn stored_signatures(&self) -> Option<&[Signature]> {
        None
    }

    /// The same, carrying it again.
    fn carrying(self, _signatures: Option<Vec<Signature>>) -> Self {
        self
    }
}

impl Stored for Ptx {
    fn stored_bytes(&self) -> &[u8] {
        self.as_c_str().to_bytes()
    }

    unsafe fn from_stored(bytes: Vec<u8>) -> Option<Self> {
        Self::new(bytes).ok()
    }
}

impl Stored for Cubin {
    fn stored_bytes(&self) -> &[u8] {
        self.as_bytes()
    }

    unsafe fn from_stored(bytes: Vec<u8>) -> Option<Self> {
        // SAFETY: they must be a cubin as the compiler made it ← the caller says that they were one's.
        Some(unsafe { Self::from_bytes(bytes) })
    }

    fn stored_signatures(&self) -> Option<&[Signature]> {
        self.signatures()
    }

    fn carrying(self, signatures: Option<Vec<Signature>>) -> Self {
        self.with_signatures(signatures)
    }
}

macro_rules! stored {
    ($($image:ty),*) => {
        $(impl Stored for $image {
            fn stored_bytes(&self) -> &[u8] {
                self.as_bytes()
            }

            unsafe fn from_stored(bytes: Vec<u8>) -> Option<Self> {
                // SAFETY: they must be an image as the compiler made it ← the caller says that they were one's.
                Some(unsafe { Self::from_bytes(bytes) })
            }
        })*
    };
}

stored!(LtoIr, OptixIr, TileIr);
