//! Memory and semaphores of other APIs, such as Vulkan. Both are imported as file descriptors, or
//! as handles on Windows. They are files in memory here: see
//! [`external`](crate::driver::objects::external). A dma-buf is a descriptor of the file of a
//! device whose position is the start of the range.

use std::ffi::{c_uint, c_ulonglong, c_void};
use std::sync::Arc;

use cuda_sys::{
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC, CUDA_EXTERNAL_MEMORY_HANDLE_DESC,
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC, CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS,
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, CUdeviceptr, CUextMemory_st, CUextSemaphore_st,
    CUexternalMemory, CUexternalMemoryHandleType, CUexternalSemaphore,
    CUexternalSemaphoreHandleType, CUmemRangeHandleType, CUstream_st,
};

use crate::driver::arg::{In, Out};
use crate::driver::export::{Call, exports};
use crate::driver::handle::{fresh, pointer};
use crate::driver::objects::external::{ExternalMemory, ExternalSemaphore, Params, Semaphores};
use crate::driver::objects::graph::payload::Payload;
use crate::driver::objects::imported::Imported;
use crate::driver::objects::memory::Kind;
use crate::driver::objects::shared::descriptor::{self, Number};
use crate::driver::status::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, Status};
use crate::memory::shared_file;

exports! {
    cuImportExternalMemory => import_external_memory;
    cuExternalMemoryGetMappedBuffer => external_memory_get_mapped_buffer;
    cuDestroyExternalMemory => destroy_external_memory;
    cuImportExternalSemaphore => import_external_semaphore;
    cuSignalExternalSemaphoresAsync | cuSignalExternalSemaphoresAsync_ptsz => signal_semaphores;
    cuWaitExternalSemaphoresAsync | cuWaitExternalSemaphoresAsync_ptsz => wait_semaphores;
    cuDestroyExternalSemaphore => destroy_external_semaphore;
    cuMemGetHandleForAddressRange => mem_get_handle_for_address_range;
}

/// `CUDA_EXTERNAL_MEMORY_DEDICATED`
const DEDICATED: c_uint = 1;
/// `CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE`
const OVER_PCIE: c_ulonglong = 1;
/// Whether handles have the types of Linux.
const IS_LINUX: bool = cfg!(target_os = "linux");
/// Whether handles have the types of Windows.
const IS_WINDOWS: bool = cfg!(windows);
/// The host's pages, of which an exported range has a whole number.
const PAGE: u64 = 4096;

/// Returns a handle as a number. Fails with `NOT_SUPPORTED` for the null pointer: then the program
/// has passed a name.
#[cfg(windows)]
fn handle_of(handle: *mut c_void) -> Status<Number> {
    if handle.is_null() {
        return Err(NOT_SUPPORTED);
    }
    Ok(handle.expose_provenance())
}

impl Call {
    /// `cuImportExternalMemory()`—On success the driver owns a file descriptor; a handle of
    /// Windows still belongs to the program.
    fn import_external_memory(
        &self,
        memory: Out<CUexternalMemory>,
        desc: In<CUDA_EXTERNAL_MEMORY_HANDLE_DESC>,
    ) -> Status {
        type T = CUexternalMemoryHandleType;
        memory.required()?;
        let context = self.home()?;
        let desc = desc.get()?;
        let is_dma_buf = match desc.type_ {
            T::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD if IS_LINUX => false,
            T::CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD if IS_LINUX => true,
            T::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32 if IS_WINDOWS => false,
            CUexternalMemoryHandleType(1..=9) => return Err(NOT_SUPPORTED),
            _ => return Err(INVALID_VALUE),
        };
        if desc.flags & !DEDICATED != 0 || desc.size == 0 {
            return Err(INVALID_VALUE);
        }
        #[cfg(not(windows))]
        // SAFETY: the field of the union must be set ← the type says that it is.
        let number = unsafe { desc.handle.fd };
        #[cfg(windows)]
        // SAFETY: the field of the union must be set ← the type says that it is.
        let number = handle_of(unsafe { desc.handle.win32 }.handle)?;
        let (file, position) = descriptor::import(number)?;
        // The position of any other descriptor is that of its last use.
        let start = if is_dma_buf { position } else { 0 };
        let len = shared_file::len(&file).map_err(|_| INVALID_VALUE)?;
        if len.saturating_sub(start) < desc.size {
            return Err(INVALID_VALUE);
        }
        let imported = ExternalMemory {
            handle: fresh(),
            file,
            start,
            size: desc.size,
            is_dma_buf,
            context: context.handle,
        };
        let handle = imported.handle;
        self.external_memory.insert(handle, Arc::new(imported));
        descriptor::close(number);
        memory.set(pointer(handle))
    }

    /// `cuExternalMemoryGetMappedBuffer()`—The buffer is freed with `cuMemFree`.
    fn external_memory_get_mapped_buffer(
        &self,
        ptr: Out<CUdeviceptr>,
        memory: Out<CUextMemory_st>,
        desc: In<CUDA_EXTERNAL_MEMORY_BUFFER_DESC>,
    ) -> Status {
        ptr.required()?;
        let context = self.home()?;
        let memory = self.external_memory.get(memory.handle());
        let memory = memory.ok_or(INVALID_HANDLE)?;
        let desc = desc.get()?;
        let end = desc.offset.checked_add(desc.size).ok_or(INVALID_VALUE)?;
        if desc.flags != 0 || desc.size == 0 || end > memory.size {
            return Err(INVALID_VALUE);
        }
        let part = self.map_part(&memory.file, memory.start + desc.offset, desc.size)?;
        let devices = vec![Arc::clone(&context.device)];
        let imported = Imported::new(part, desc.size, devices, None);
        ptr.set(self.note_imported(imported, desc.size, Kind::Device, context.owner()))
    }

    fn destroy_external_memory(&self, memory: Out<CUextMemory_st>) -> Status {
        let removed = self.external_memory.remove(memory.handle());
        removed.map(drop).ok_or(INVALID_HANDLE)
    }

    /// `cuMemGetHandleForAddressRange()`—The range is in one allocation of `cuMemAlloc`, or in one
    /// mapping of physical memory of a device.
    fn mem_get_handle_for_address_range(
        &self,
        handle: Out<c_void>,
        dptr: CUdeviceptr,
        size: usize,
        sort: CUmemRangeHandleType,
        flags: c_ulonglong,
    ) -> Status {
        handle.required()?;
        self.current()?;
        let size = size as u64;
        let is_dma_buf = sort == CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
        let end = dptr.checked_add(size).ok_or(INVALID_VALUE)?;
        let is_whole = dptr.is_multiple_of(PAGE) && size.is_multiple_of(PAGE) && size > 0;
        if !is_dma_buf || !is_whole || flags & !OVER_PCIE != 0 {
            return Err(INVALID_VALUE);
        }
        if flags != 0 || IS_WINDOWS {
            return Err(NOT_SUPPORTED);
        }
        let found = self.find_allocation(dptr, |start, allocation| {
            let is_own = allocation.imported.is_none() && matches!(allocation.kind, Kind::Device);
            let is_inside = end - start <= allocation.size;
            (is_own && is_inside).then(|| Arc::clone(&allocation.device))
        });
        let exported = match found {
            Some(device) => {
                let device = device.ok_or(INVALID_VALUE)?;
                let (file, offset) = device.arena.shared(dptr).ok_or(NOT_SUPPORTED)?;
                descriptor::export(file, offset)?
            }
            None => {
                let state = self.virtual_memory.state();
                let (start, mapping) = state.mapping(dptr).ok_or(INVALID_VALUE)?;
                if end - start > mapping.size || mapping.memory.device.is_none() {
                    return Err(INVALID_VALUE);
                }
                descriptor::export(mapping.memory.backing.file(), dptr - start)?
            }
        };
        handle.typed::<Number>().set(exported)
    }

    /// `cuImportExternalSemaphore()`—On success the driver owns a file descriptor; a handle of
    /// Windows still belongs to the program.
    fn import_external_semaphore(
        &self,
        semaphore: Out<CUexternalSemaphore>,
        desc: In<CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC>,
    ) -> Status {
        type T = CUexternalSemaphoreHandleType;
        semaphore.required()?;
        let context = self.home()?;
        let desc = desc.get()?;
        let is_timeline = match desc.type_ {
            T::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD if IS_LINUX => false,
            T::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD if IS_LINUX => true,
            T::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32 if IS_WINDOWS => false,
            T::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32 if IS_WINDOWS => true,
            CUexternalSemaphoreHandleType(1..=10) => return Err(NOT_SUPPORTED),
            _ => return Err(INVALID_VALUE),
        };
        if desc.flags != 0 {
            return Err(INVALID_VALUE);
        }
        #[cfg(not(windows))]
        // SAFETY: the field of the union must be set ← the type says that it is.
        let number = unsafe { desc.handle.fd };
        #[cfg(windows)]
        // SAFETY: the field of the union must be set ← the type says that it is.
        let number = handle_of(unsafe { desc.handle.win32 }.handle)?;
        let (file, _) = descriptor::import(number)?;
        let imported = ExternalSemaphore::new(&file, is_timeline, context.handle)?;
        let handle = imported.handle;
        self.external_semaphores.insert(handle, Arc::new(imported));
        descriptor::close(number);
        semaphore.set(pointer(handle))
    }

    fn destroy_external_semaphore(&self, semaphore: Out<CUextSemaphore_st>) -> Status {
        let removed = self.external_semaphores.remove(semaphore.handle());
        removed.map(drop).ok_or(INVALID_HANDLE)
    }

    /// Returns the operations of arrays of `count` semaphores and parameters.
    pub(in crate::driver) fn semaphores<P: Params>(
        &self,
        handles: In<CUexternalSemaphore>,
        params: In<P>,
        count: c_uint,
    ) -> Status<Semaphores<P>> {
        let one = |index| {
            let handle = handles.get_at(index)?.addr() as u64;
            let semaphore = self.external_semaphores.get(handle);
            Ok((semaphore.ok_or(INVALID_HANDLE)?, params.get_at(index)?))
        };
        let all: Status<Vec<_>> = (0..count as usize).map(one).collect();
        Semaphores::new(&all?)
    }

    fn queue_semaphores<P: Params>(
        &self,
        stream: Out<CUstream_st>,
        semaphores: Semaphores<P>,
        payload: impl FnOnce(Semaphores<P>) -> Payload,
    ) -> Status {
        let stream = self.stream(stream.handle())?;
        let ops = Arc::clone(&semaphores.ops);
        if self.captured(&stream, || Ok(payload(semaphores)))? {
            return Ok(());
        }
        for op in &*ops {
            let work = op.work(&stream.context.device);
            let op = self.engine.submit(stream.queue, &[], work);
            if P::IS_SIGNAL {
                // Another API may wait for it, which this engine does not see.
                self.engine.urge(&[op]);
            }
        }
        Ok(())
    }

    fn signal_semaphores(
        &self,
        handles: In<CUexternalSemaphore>,
        params: In<CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS>,
        count: c_uint,
        stream: Out<CUstream_st>,
    ) -> Status {
        let semaphores = self.semaphores(handles, params, count)?;
        self.queue_semaphores(stream, semaphores, Payload::Signal)
    }

    fn wait_semaphores(
        &self,
        handles: In<CUexternalSemaphore>,
        params: In<CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS>,
        count: c_uint,
        stream: Out<CUstream_st>,
    ) -> Status {
        let semaphores = self.semaphores(handles, params, count)?;
        self.queue_semaphores(stream, semaphores, Payload::Await)
    }
}
