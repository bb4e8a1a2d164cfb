//! The driver calls of a batch of copies.

use cuda_sys::{
    CUDA_MEMCPY3D_BATCH_OP, CUextent3D, CUmemLocationType, CUmemcpy3DOperand,
    CUmemcpy3DOperand_st__bindgen_ty_1, CUmemcpy3DOperand_st__bindgen_ty_1__bindgen_ty_1,
    CUmemcpy3DOperand_st__bindgen_ty_1__bindgen_ty_2, CUmemcpy3DOperandType, CUmemcpyAttributes,
    CUmemcpySrcAccessOrder, CUoffset3D, calls,
};

use super::batch::{BoxOp, CopyBatch, Kinds};
use crate::driver::call;
use crate::error::DriverError;
use crate::memory::location;
use crate::memory::pitched::{Side, queue};
use crate::observer::Work;
use crate::stream::Stream;
use crate::types::WorkKind;

impl BoxOp {
    /// Returns whether a batch can contain the copy. If one side is an array, the batch call takes
    /// the distance between the rows of the other side in elements.
    fn is_for_batches(&self) -> bool {
        [self.to, self.from].into_iter().all(|side| match side {
            Side::Device(rows) => rows.pitch.is_multiple_of(self.element),
            Side::Host(_) | Side::Array(_) => true,
        })
    }
}

impl CopyBatch<'_> {
    /// Queues all copies of the batch.
    ///
    /// # Safety
    ///
    /// All sides hold their bytes until the copies have run. No conflicting use of the memory runs
    /// meanwhile.
    pub(super) unsafe fn queue_all(&mut self, stream: &Stream) -> Result<(), DriverError> {
        if !self.to.is_empty() {
            // SAFETY: the sides must hold their bytes, without conflicting uses ← the caller
            // guarantees it.
            unsafe { queue_linear(self, stream) }?;
        }
        if !self.boxes.is_empty() {
            // SAFETY: the sides must hold their bytes, without conflicting uses ← the caller
            // guarantees it.
            unsafe { queue_boxes(self, stream) }?;
        }
        Ok(())
    }
}

/// `cuMemcpyBatchAsync()`—Queues the linear copies of the batch.
///
/// # Safety
///
/// The requirements of [`CopyBatch::queue_all`] apply.
unsafe fn queue_linear(batch: &mut CopyBatch<'_>, stream: &Stream) -> Result<(), DriverError> {
    type Order = CUmemcpySrcAccessOrder;
    let (driver, count) = (stream.driver(), batch.to.len());
    let version = driver.version();
    if version < calls::cuMemcpyBatchAsync.since() {
        // SAFETY: the sides must hold their bytes, without conflicting uses ← the caller guarantees
        // it.
        return unsafe { queue_one_by_one(batch, stream) };
    }
    let nowhere = location(CUmemLocationType::CU_MEM_LOCATION_TYPE_NONE, 0);
    let mut attributes = CUmemcpyAttributes {
        srcAccessOrder: Order::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
        srcLocHint: nowhere,
        dstLocHint: nowhere,
        flags: 0,
    };
    let mut first = 0_usize;
    let bytes = batch.sizes.iter().sum();
    let (to, from) = (batch.to.as_mut_ptr(), batch.from.as_mut_ptr());
    let sizes = batch.sizes.as_mut_ptr();
    let (attributes, first) = (&raw mut attributes, &raw mut first);
    let kind = batch
        .kinds
        .first()
        .map_or(WorkKind::CopyOnDevice, |it| it.0);
    // Driver 580 refuses a batch while no context is current.
    let _current = stream.context().enter()?;
    stream.observed(Work::of_kind(kind, bytes), || {
        if version < calls::cuMemcpyBatchAsync_v2.since() {
            let mut failed = usize::MAX;
            // SAFETY: the arrays must have `count` elements, or one for the attributes, and the
            // sides must hold their bytes ← the vectors have the same length, and the caller
            // guarantees the rest.
            unsafe {
                call!(
                    driver,
                    cuMemcpyBatchAsync(
                        to,
                        from,
                        sizes,
                        count,
                        attributes,
                        first,
                        1,
                        &raw mut failed,
                        stream.as_raw()
                    )
                )
            }
        } else {
            // SAFETY: as above.
            unsafe {
                call!(
                    driver,
                    cuMemcpyBatchAsync_v2(
                        to,
                        from,
                        sizes,
                        count,
                        attributes,
                        first,
                        1,
                        stream.as_raw()
                    )
                )
            }
        }
    })
}

/// Queues the linear copies with a call for each.
///
/// # Safety
///
/// The requirements of [`CopyBatch::queue_all`] apply.
unsafe fn queue_one_by_one(batch: &CopyBatch<'_>, stream: &Stream) -> Result<(), DriverError> {
    let _current = stream.bind_for_copy()?;
    let (driver, raw) = (stream.driver(), stream.as_raw());
    let copies = batch.to.iter().zip(&batch.from).zip(&batch.sizes);
    for (((&to, &from), &bytes), kinds) in copies.zip(&batch.kinds) {
        stream.observed(Work::of_kind(kinds.0, bytes), || match *kinds {
            Kinds::TO_HOST => {
                let to = std::ptr::with_exposed_provenance_mut(to as usize);
                // SAFETY: both sides must hold the bytes, without conflicting uses ← the caller
                // guarantees it.
                unsafe { call!(driver, cuMemcpyDtoHAsync_v2(to, from, bytes, raw)) }
            }
            Kinds::FROM_HOST => {
                let from = std::ptr::with_exposed_provenance(from as usize);
                // SAFETY: as above.
                unsafe { call!(driver, cuMemcpyHtoDAsync_v2(to, from, bytes, raw)) }
            }
            // SAFETY: as above.
            _ => unsafe { call!(driver, cuMemcpyDtoDAsync_v2(to, from, bytes, raw)) },
        })?;
    }
    Ok(())
}

/// `cuMemcpy3DBatchAsync()`—Queues the copies of boxes.
///
/// # Safety
///
/// The requirements of [`CopyBatch::queue_all`] apply.
unsafe fn queue_boxes(batch: &CopyBatch<'_>, stream: &Stream) -> Result<(), DriverError> {
    let driver = stream.driver();
    let version = driver.version();
    let has_batches = version >= calls::cuMemcpy3DBatchAsync.since();
    let is_single = |op: &&BoxOp| !has_batches || !op.is_for_batches();
    for op in batch.boxes.iter().filter(is_single) {
        // SAFETY: both sides must hold the rows, without conflicting uses ← the caller guarantees
        // it.
        unsafe { queue(stream, op.to, op.from, &op.extent) }?;
    }
    let copies = batch.boxes.iter().filter(|op| !is_single(op));
    let bytes = copies.clone().map(|op| op.extent.bytes()).sum();
    let copies = copies.map(|op| CUDA_MEMCPY3D_BATCH_OP {
        src: operand(op.from, op),
        dst: operand(op.to, op),
        extent: CUextent3D {
            width: op.extent.width / op.element,
            height: op.extent.height,
            depth: op.extent.depth,
        },
        srcAccessOrder: CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
        flags: 0,
    });
    let mut copies: Vec<_> = copies.collect();
    let (count, list) = (copies.len(), copies.as_mut_ptr());
    if copies.is_empty() {
        return Ok(());
    }
    // Driver 580 refuses a batch while no context is current.
    let _current = stream.context().enter()?;
    stream.observed(Work::of_kind(WorkKind::CopyOnDevice, bytes), || {
        if version < calls::cuMemcpy3DBatchAsync_v2.since() {
            let mut failed = usize::MAX;
            // SAFETY: the list must have `count` elements, whose sides hold their rows ← it is the
            // vector, and the caller guarantees the rest.
            unsafe {
                call!(
                    driver,
                    cuMemcpy3DBatchAsync(count, list, &raw mut failed, 0, stream.as_raw())
                )
            }
        } else {
            // SAFETY: as above.
            unsafe {
                call!(
                    driver,
                    cuMemcpy3DBatchAsync_v2(count, list, 0, stream.as_raw())
                )
            }
        }
    })
}

/// Returns one side of a copy. C counts in elements if either side is an array, and otherwise in
/// bytes.
fn operand(side: Side, op: &BoxOp) -> CUmemcpy3DOperand {
    let (extent, element) = (&op.extent, op.element);
    let (address, row, plane) = match side {
        Side::Device(rows) => (rows.address, rows.pitch, rows.plane),
        Side::Host(start) => (
            start.expose_provenance() as u64,
            extent.width,
            extent.height,
        ),
        Side::Array(place) => {
            let array = CUmemcpy3DOperand_st__bindgen_ty_1__bindgen_ty_2 {
                array: place.array.0,
                offset: CUoffset3D {
                    x: place.x / element,
                    y: place.y,
                    z: place.z,
                },
            };
            return CUmemcpy3DOperand {
                type_: CUmemcpy3DOperandType::CU_MEMCPY_OPERAND_TYPE_ARRAY,
                op: CUmemcpy3DOperand_st__bindgen_ty_1 { array },
            };
        }
    };
    CUmemcpy3DOperand {
        type_: CUmemcpy3DOperandType::CU_MEMCPY_OPERAND_TYPE_POINTER,
        op: CUmemcpy3DOperand_st__bindgen_ty_1 {
            ptr: CUmemcpy3DOperand_st__bindgen_ty_1__bindgen_ty_1 {
                ptr: address,
                rowLength: row / element,
                layerHeight: plane,
                locHint: location(CUmemLocationType::CU_MEM_LOCATION_TYPE_NONE, 0),
            },
        },
    }
}
