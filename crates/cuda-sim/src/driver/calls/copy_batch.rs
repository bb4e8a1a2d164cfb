//! Copies in batches (`cuMemcpyBatchAsync`, `cuMemcpy3DBatchAsync`).
//!
//! A batch runs in the order of its stream, but its copies have no order among themselves. Every
//! schedule runs them in a random order.

use std::ffi::c_ulonglong;
use std::sync::Arc;

use cuda_sys::{
    CUDA_MEMCPY3D_BATCH_OP, CUdeviceptr, CUmemcpy3DOperand, CUmemcpy3DOperandType,
    CUmemcpyAttributes, CUmemcpySrcAccessOrder, CUresult, CUstream_st,
};

use crate::driver::arg::Out;
use crate::driver::export::{Call, exports};
use crate::driver::objects::space::Spaces;
use crate::driver::objects::stream::Stream;
use crate::driver::objects::transfer::{Extent, Side, Transfer, box_of, transfer};
use crate::driver::status::{INVALID_VALUE, Status};
use crate::engine::Schedule;
use crate::random::Random;

exports! {
    cuMemcpyBatchAsync | cuMemcpyBatchAsync_ptsz => memcpy_batch_async;
    cuMemcpyBatchAsync_v2 | cuMemcpyBatchAsync_v2_ptsz => memcpy_batch_async_v2;
    cuMemcpy3DBatchAsync | cuMemcpy3DBatchAsync_ptsz => memcpy_3d_batch_async;
    cuMemcpy3DBatchAsync_v2 | cuMemcpy3DBatchAsync_v2_ptsz => memcpy_3d_batch_async_v2;
}

type Order = CUmemcpySrcAccessOrder;

/// A copy of a batch, with the bytes of its source if they were read during the call.
struct Planned {
    transfer: Transfer,
    bytes: Option<Vec<u8>>,
}

/// The arguments of a batch of linear copies.
struct Linear {
    to: Out<CUdeviceptr>,
    from: Out<CUdeviceptr>,
    sizes: Out<usize>,
    count: usize,
    attributes: Out<CUmemcpyAttributes>,
    starts: Out<usize>,
    attribute_count: usize,
}

impl Linear {
    /// Returns the order of source accesses for each copy.
    fn orders(&self) -> Status<Vec<Order>> {
        if self.count == 0 || self.attribute_count == 0 || self.attribute_count > self.count {
            return Err(INVALID_VALUE);
        }
        let mut orders = Vec::with_capacity(self.count);
        for index in 0..self.attribute_count {
            let start = self.starts.get_at(index)?;
            let end = if index + 1 < self.attribute_count {
                self.starts.get_at(index + 1)?
            } else {
                self.count
            };
            // The runs start at the first copy, and none is empty.
            if start != orders.len() || end <= start || end > self.count {
                return Err(INVALID_VALUE);
            }
            let order = self.attributes.get_at(index)?.srcAccessOrder;
            orders.resize(end, known(order)?);
        }
        Ok(orders)
    }

    /// Returns the copy with this index.
    fn transfer(&self, index: usize) -> Status<Transfer> {
        let size = self.sizes.get_at(index)?;
        let extent = Extent {
            width: size as u64,
            height: 1,
            depth: 1,
        };
        Ok(Transfer {
            dst: Side::linear(self.to.get_at(index)?),
            src: Side::linear(self.from.get_at(index)?),
            extent,
        })
    }
}

/// Fails with `INVALID_VALUE` for an order that does not exist.
fn known(order: Order) -> Status<Order> {
    let orders = [
        Order::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
        Order::CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,
        Order::CU_MEMCPY_SRC_ACCESS_ORDER_ANY,
    ];
    orders
        .contains(&order)
        .then_some(order)
        .ok_or(INVALID_VALUE)
}

/// Returns one side of a three-dimensional copy with `extent`.
fn side(
    spaces: &Spaces,
    operand: &CUmemcpy3DOperand,
    extent: [usize; 3],
) -> Status<(Side, Option<usize>)> {
    type T = CUmemcpy3DOperandType;
    match operand.type_ {
        T::CU_MEMCPY_OPERAND_TYPE_POINTER => {
            // SAFETY: the field must be initialized ← the type says that the operand is a pointer.
            let pointer = unsafe { operand.op.ptr };
            let strides = [pointer.rowLength, pointer.layerHeight];
            Ok((box_of(pointer.ptr, extent, strides)?, None))
        }
        T::CU_MEMCPY_OPERAND_TYPE_ARRAY => {
            // SAFETY: the field must be initialized ← the type says that the operand is an array.
            let operand = unsafe { operand.op.array };
            let handle = operand.array.addr() as u64;
            let array = spaces.array(handle).ok_or(INVALID_VALUE)?;
            let element = array.element_bytes();
            let at = [
                operand.offset.x.checked_mul(element).ok_or(INVALID_VALUE)?,
                operand.offset.y,
                operand.offset.z,
            ];
            let width = extent[0].checked_mul(element).ok_or(INVALID_VALUE)?;
            let side = Side::in_array(spaces, handle, at, [width, extent[1], extent[2]])?;
            Ok((side, Some(element)))
        }
        _ => Err(INVALID_VALUE),
    }
}

impl Call {
    /// Returns the stream of a batch. Driver 580 refuses a batch without a current context with
    /// this status.
    fn batch_stream(&self, stream: Out<CUstream_st>) -> Status<Arc<Stream>> {
        self.current().map_err(|_| INVALID_VALUE)?;
        let stream = self.stream(stream.handle())?;
        if stream.is_legacy() {
            return Err(INVALID_VALUE);
        }
        self.no_capture_on(&stream)?;
        Ok(stream)
    }

    /// Checks a copy, and reads its source if `order` says so.
    fn plan(&self, spaces: &Spaces, mut transfer: Transfer, order: Order) -> Status<Planned> {
        if transfer.is_empty() {
            return Err(INVALID_VALUE);
        }
        transfer.check(spaces)?;
        let range = |side: Side| Ok((side.addr, side.span(transfer.extent)?));
        self.current_reaches([range(transfer.dst)?, range(transfer.src)?])?;
        let now = order == Order::CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
        let mut bytes = None;
        if now {
            let Transfer { src, extent, .. } = transfer;
            let all: &mut Vec<u8> = bytes.insert(Vec::new());
            for (y, z) in extent.rows() {
                let row = spaces.read((src.row(y, z), src.is_known), extent.width);
                all.extend(row.map_err(|_| INVALID_VALUE)?);
            }
        }
        Ok(Planned { transfer, bytes })
    }

    /// Queues a batch of `count` copies. Writes the index of a copy that fails to `fail_index`, or
    /// the largest number if the failure concerns no single copy.
    fn batch(
        &self,
        stream: Out<CUstream_st>,
        count: usize,
        fail_index: Out<usize>,
        plan: impl Fn(usize, &Spaces) -> Status<Planned>,
    ) -> Status {
        fail_index.set_if(usize::MAX);
        let stream = self.batch_stream(stream)?;
        let spaces = self.spaces();
        let mut planned = Vec::with_capacity(count.min(1 << 20));
        for index in 0..count {
            let one = plan(index, &spaces).inspect_err(|_| fail_index.set_if(index))?;
            planned.push(one);
        }
        let seed = match self.config.schedule {
            Schedule::Eager => 0,
            Schedule::Late { seed } => seed,
        };
        let mut random = Random::new(seed ^ count as u64);
        for index in (1..planned.len()).rev() {
            planned.swap(index, random.below(index + 1));
        }
        self.enqueue(&stream, &[], move || {
            planned.iter().try_for_each(|one| match &one.bytes {
                None => one.transfer.run(&spaces),
                Some(bytes) => {
                    let Transfer { dst, extent, .. } = one.transfer;
                    transfer(&spaces, dst, Side::staged(bytes, extent), extent)
                }
            })
        });
        Ok(())
    }

    fn linear_batch(
        &self,
        copies: &Linear,
        fail_index: Out<usize>,
        stream: Out<CUstream_st>,
    ) -> Status {
        fail_index.set_if(usize::MAX);
        let orders = copies.orders()?;
        self.batch(stream, copies.count, fail_index, |index, spaces| {
            let order = orders.get(index).copied().ok_or(INVALID_VALUE)?;
            self.plan(spaces, copies.transfer(index)?, order)
        })
    }

    #[allow(clippy::too_many_arguments, reason = "as many as C's")]
    fn memcpy_batch_async(
        &self,
        to: Out<CUdeviceptr>,
        from: Out<CUdeviceptr>,
        sizes: Out<usize>,
        count: usize,
        attributes: Out<CUmemcpyAttributes>,
        starts: Out<usize>,
        attribute_count: usize,
        fail_index: Out<usize>,
        stream: Out<CUstream_st>,
    ) -> Status {
        let copies = Linear {
            to,
            from,
            sizes,
            count,
            attributes,
            starts,
            attribute_count,
        };
        self.linear_batch(&copies, fail_index, stream)
    }

    #[allow(clippy::too_many_arguments, reason = "as many as C's")]
    fn memcpy_batch_async_v2(
        &self,
        to: Out<CUdeviceptr>,
        from: Out<CUdeviceptr>,
        sizes: Out<usize>,
        count: usize,
        attributes: Out<CUmemcpyAttributes>,
        starts: Out<usize>,
        attribute_count: usize,
        stream: Out<CUstream_st>,
    ) -> Status {
        let copies = Linear {
            to,
            from,
            sizes,
            count,
            attributes,
            starts,
            attribute_count,
        };
        self.linear_batch(&copies, Out::none(), stream)
    }

    fn plan_3d(&self, spaces: &Spaces, copy: &CUDA_MEMCPY3D_BATCH_OP) -> Status<Planned> {
        let extent = [copy.extent.width, copy.extent.height, copy.extent.depth];
        let (src, src_element) = side(spaces, &copy.src, extent)?;
        let (dst, dst_element) = side(spaces, &copy.dst, extent)?;
        // The width is in elements if one side is an array, and the other side has such elements.
        let element = src_element.or(dst_element).unwrap_or(1);
        let (src, dst) = match (src_element, dst_element) {
            (Some(a), Some(b)) if a != b => return Err(INVALID_VALUE),
            (None, Some(_)) => (self.scaled(&copy.src, extent, element)?, dst),
            (Some(_), None) => (src, self.scaled(&copy.dst, extent, element)?),
            _ => (src, dst),
        };
        let extent = Extent {
            width: extent[0].checked_mul(element).ok_or(INVALID_VALUE)? as u64,
            height: extent[1] as u64,
            depth: extent[2] as u64,
        };
        self.plan(
            spaces,
            Transfer { dst, src, extent },
            known(copy.srcAccessOrder)?,
        )
    }

    /// Returns the side of a pointer whose elements have `element` bytes.
    fn scaled(
        &self,
        operand: &CUmemcpy3DOperand,
        [width, height, depth]: [usize; 3],
        element: usize,
    ) -> Status<Side> {
        // SAFETY: the field must be initialized ← the callers have seen that the operand is a
        // pointer.
        let pointer = unsafe { operand.op.ptr };
        let bytes = |elements: usize| elements.checked_mul(element).ok_or(INVALID_VALUE);
        let strides = [bytes(pointer.rowLength)?, pointer.layerHeight];
        box_of(pointer.ptr, [bytes(width)?, height, depth], strides)
    }

    fn memcpy_3d_batch_async(
        &self,
        count: usize,
        copies: Out<CUDA_MEMCPY3D_BATCH_OP>,
        fail_index: Out<usize>,
        flags: c_ulonglong,
        stream: Out<CUstream_st>,
    ) -> Result<(), CUresult> {
        fail_index.set_if(usize::MAX);
        if count == 0 || flags != 0 {
            return Err(INVALID_VALUE);
        }
        self.batch(stream, count, fail_index, |index, spaces| {
            self.plan_3d(spaces, &copies.get_at(index)?)
        })
    }

    fn memcpy_3d_batch_async_v2(
        &self,
        count: usize,
        copies: Out<CUDA_MEMCPY3D_BATCH_OP>,
        flags: c_ulonglong,
        stream: Out<CUstream_st>,
    ) -> Status {
        self.memcpy_3d_batch_async(count, copies, Out::none(), flags, stream)
    }
}
