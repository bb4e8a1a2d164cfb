//! The memory of an imported tensor belongs to other code, and so does that of an exported view.

use std::ptr::NonNull;

use cuda_driver::dlpack::{Consumer, DLManagedTensor, DLManagedTensorVersioned, DlTensor};
use cuda_driver::prelude::*;

fn import(raw: NonNull<DLManagedTensorVersioned>, old: NonNull<DLManagedTensor>, stream: &Stream) {
    let _ = DlTensor::from_raw_unversioned(old);
    let tensor = DlTensor::from_raw(raw).unwrap();
    let _ = tensor.into_buffer::<f32>(stream);
}

fn export(view: &DeviceSlice<'_, f32>, consumer: &Consumer) {
    let _ = DlTensor::export(view, &[4], &[1], false, consumer, ());
}

fn main() {}
