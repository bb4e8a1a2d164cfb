//! Exchange of tensors with other libraries, without copies: DLPack and the CUDA array interface.
//!
//! In C a tensor is a struct with a function that releases it, and the order of the work on its
//! memory is a convention. Here a [`DlTensor`] calls that function once, an export orders the
//! consumer's stream behind all uses, and an import is a buffer whose uses are ordered and whose
//! owner is released after them.
//!
//! The order of the work between producer and consumer follows the Python array API: the consumer
//! names a stream ([`Consumer`]), and the producer makes that stream wait.

mod import;

mod array_interface;
mod element;
mod export;
mod layout;
mod raw;

pub use array_interface::ArrayInterface;
pub use element::Element;
pub use export::{Consumer, RawTensor};
pub use import::{DlTensor, Imported};
pub use raw::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor,
};
