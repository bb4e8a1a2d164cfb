//! Memory and events that two processes share. The second process runs an ignored test of this
//! binary; it inherits the exported pool as its standard input, and the handles are in its
//! environment.

#![cfg(any(target_os = "linux", windows))]

use std::env;
#[cfg(unix)]
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
#[cfg(windows)]
use std::os::windows::io::{AsHandle, AsRawHandle, FromRawHandle, OwnedHandle};
use std::process::{Child, Command, Stdio};
use std::ptr;

use cuda_sim::{Builder, CUresult as R};
use cuda_sys::{
    CUdeviceptr, CUevent, CUipcEventHandle, CUipcMemHandle, CUmemAllocationHandleType,
    CUmemAllocationType, CUmemLocationType, CUmemPoolProps, CUmemPoolPtrExportData, CUmemoryPool,
    CUpointer_attribute,
};

use crate::support::{TestDevice, late, ok, test_device};

const HANDLES: &str = "CUDA_SIM_TEST_HANDLES";
#[cfg(unix)]
type Descriptor = OwnedFd;
#[cfg(windows)]
type Descriptor = OwnedHandle;
/// The type of the handles of this operating system.
const DESCRIPTOR: CUmemAllocationHandleType = if cfg!(windows) {
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_WIN32
} else {
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
};
const BAD: R = R::CUDA_ERROR_INVALID_VALUE;
/// `CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS`
const SHARED: u32 = 6;
/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`
const LAZY: u32 = 1;
const N: usize = 1000;

fn pool(sim: &TestDevice, handles: CUmemAllocationHandleType) -> CUmemoryPool {
    let mut props: CUmemPoolProps = unsafe { std::mem::zeroed() };
    props.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    props.handleTypes = handles;
    let mut pool = ptr::null_mut();
    unsafe { ok(sim.cuMemPoolCreate(&raw mut pool, &props)) };
    pool
}

fn allocate(sim: &TestDevice, pool: CUmemoryPool, value: u32) -> CUdeviceptr {
    let mut addr = 0;
    unsafe {
        ok(sim.cuMemAllocFromPoolAsync(&raw mut addr, 4 * N, pool, ptr::null_mut()));
        ok(sim.cuMemsetD32Async(addr, value, N, ptr::null_mut()));
    }
    addr
}

fn pointer(sim: &TestDevice, addr: CUdeviceptr) -> CUmemPoolPtrExportData {
    let mut data = CUmemPoolPtrExportData { reserved: [0; 64] };
    unsafe { ok(sim.cuMemPoolExportPointer(&raw mut data, addr)) };
    data
}

fn export(sim: &TestDevice, pool: CUmemoryPool) -> Descriptor {
    #[cfg(unix)]
    let mut raw = -1_i32;
    #[cfg(windows)]
    let mut raw: *mut std::ffi::c_void = ptr::null_mut();
    let place = (&raw mut raw).cast();
    unsafe { ok(sim.cuMemPoolExportToShareableHandle(place, pool, DESCRIPTOR, 0)) };
    #[cfg(unix)]
    return unsafe { OwnedFd::from_raw_fd(raw) };
    #[cfg(windows)]
    return unsafe { OwnedHandle::from_raw_handle(raw) };
}

fn import(sim: &TestDevice, descriptor: &Descriptor) -> CUmemoryPool {
    let mut pool = ptr::null_mut();
    #[cfg(unix)]
    let handle = ptr::without_provenance_mut(descriptor.as_raw_fd() as usize);
    #[cfg(windows)]
    let handle = descriptor.as_raw_handle();
    let status =
        unsafe { sim.cuMemPoolImportFromShareableHandle(&raw mut pool, handle, DESCRIPTOR, 0) };
    ok(status);
    pool
}

/// Returns a copy of the standard input.
fn inherited() -> Descriptor {
    let stdin = std::io::stdin();
    #[cfg(unix)]
    return stdin.as_fd().try_clone_to_owned().unwrap();
    #[cfg(windows)]
    return stdin.as_handle().try_clone_to_owned().unwrap();
}

fn event(sim: &TestDevice) -> (CUevent, CUipcEventHandle) {
    let event = sim.event(SHARED);
    let mut handle = CUipcEventHandle { reserved: [0; 64] };
    unsafe { ok(sim.cuIpcGetEventHandle(&raw mut handle, event)) };
    (event, handle)
}

fn memory_handle(sim: &TestDevice, addr: CUdeviceptr) -> CUipcMemHandle {
    let mut handle = CUipcMemHandle { reserved: [0; 64] };
    unsafe { ok(sim.cuIpcGetMemHandle(&raw mut handle, addr)) };
    handle
}

fn hex(bytes: impl IntoIterator<Item = u8>) -> String {
    bytes
        .into_iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn start(place: &str, descriptor: Descriptor, handles: [String; 4]) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--test-threads=1", "ipc::child"])
        .env(HANDLES, format!("{place} {}", handles.join(" ")))
        .stdin(Stdio::from(descriptor))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The other process: it waits for an event, reads and overwrites both kinds of memory, and records
/// another event.
#[test]
#[ignore = "runs in a process that another test starts"]
fn child() {
    let Ok(text) = env::var(HANDLES) else {
        return;
    };
    let words: Vec<&str> = text.split(' ').collect();
    let sim = test_device(if words[0] == "late" {
        late(4)
    } else {
        Builder::new()
    });
    let handle = |index: usize| {
        let byte = |at: usize| u8::from_str_radix(&words[index][2 * at..][..2], 16).unwrap();
        std::array::from_fn::<u8, 64, _>(byte)
    };
    let [question, answer] = [3, 4].map(|index| {
        let reserved = handle(index).map(|byte| byte as _);
        let mut event = ptr::null_mut();
        let status =
            unsafe { sim.cuIpcOpenEventHandle(&raw mut event, CUipcEventHandle { reserved }) };
        ok(status);
        event
    });
    let stream = sim.stream(1);
    // The driver takes the number in the place of a pointer, so it refuses the standard input.
    let mut none = ptr::null_mut();
    // SAFETY: the place for the pool is a local variable, and the handle is refused.
    let refused = unsafe {
        sim.cuMemPoolImportFromShareableHandle(&raw mut none, ptr::null_mut(), DESCRIPTOR, 0)
    };
    assert_eq!(refused, R::CUDA_ERROR_INVALID_VALUE);
    let pool = import(&sim, &inherited());
    let mut data = CUmemPoolPtrExportData {
        reserved: handle(1),
    };
    let own = CUipcMemHandle {
        reserved: handle(2).map(|byte| byte as _),
    };
    let (mut pooled, mut plain, mut again) = (0, 0, 0);
    unsafe {
        ok(sim.cuStreamWaitEvent(stream, question, 0));
        ok(sim.cuMemPoolImportPointer(&raw mut pooled, pool, &raw mut data));
        ok(sim.cuIpcOpenMemHandle_v2(&raw mut plain, own, LAZY));
        ok(sim.cuIpcOpenMemHandle_v2(&raw mut again, own, LAZY));
    }
    assert_eq!(plain, again, "the second handle is of the same memory");
    for (addr, value) in [(pooled, 7), (plain, 8)] {
        let mut words = vec![0_u32; N];
        unsafe {
            let to = words.as_mut_ptr().cast();
            ok(sim.cuMemcpyDtoHAsync_v2(to, addr, 4 * N, stream));
            ok(sim.cuStreamSynchronize(stream));
            assert_eq!(words, [value; N]);
            ok(sim.cuMemsetD32Async(addr, value + 10, N, stream));
            // The memory ends where the allocation does.
            assert_eq!(sim.cuMemsetD32_v2(addr, 1, N + 1), BAD);
        }
    }
    unsafe {
        ok(sim.cuEventRecord(answer, stream));
        assert_eq!(sim.cuMemFree_v2(plain), BAD, "it is closed and not freed");
        ok(sim.cuIpcCloseMemHandle(plain));
        ok(sim.cuStreamSynchronize(stream));
        ok(sim.cuIpcCloseMemHandle(plain));
        assert_eq!(sim.cuIpcCloseMemHandle(plain), BAD);
        assert_eq!(sim.cuIpcCloseMemHandle(pooled), BAD);
        ok(sim.cuMemFreeAsync(pooled, stream));
        ok(sim.cuStreamSynchronize(stream));
        ok(sim.cuMemPoolDestroy(pool));
        // The creator has not destroyed the events.
        ok(sim.cuEventDestroy_v2(question));
        ok(sim.cuEventDestroy_v2(answer));
    }
    let live = sim.simulator.live();
    assert_eq!(
        (live.allocations, live.pools, live.events),
        (0, 0, 0),
        "{live}"
    );
}

#[test]
fn processes_share_memory_and_events() {
    for place in ["eager", "late"] {
        let sim = test_device(if place == "late" {
            late(6)
        } else {
            Builder::new()
        });
        let pool = pool(&sim, DESCRIPTOR);
        let descriptor = export(&sim, pool);
        let pooled = allocate(&sim, pool, 7);
        let plain = sim.upload(&[8_u32; N]);
        let (question, question_handle) = event(&sim);
        let (answer, answer_handle) = event(&sim);
        unsafe { ok(sim.cuEventRecord(question, ptr::null_mut())) };
        let handles = [
            hex(pointer(&sim, pooled).reserved),
            hex(memory_handle(&sim, plain).reserved.map(|byte| byte as u8)),
            hex(question_handle.reserved.map(|byte| byte as u8)),
            hex(answer_handle.reserved.map(|byte| byte as u8)),
        ];
        let mut child = start(place, descriptor, handles);
        assert!(child.wait().unwrap().success(), "{place}");
        let stream = sim.stream(1);
        unsafe {
            ok(sim.cuStreamWaitEvent(stream, answer, 0));
            ok(sim.cuStreamSynchronize(stream));
            ok(sim.cuEventSynchronize(answer));
        }
        assert_eq!(sim.download::<u32>(pooled, N), [17; N], "{place}");
        assert_eq!(sim.download::<u32>(plain, N), [18; N], "{place}");
    }
}

#[test]
fn imported_pool_has_only_opened_memory() {
    let sim = test_device(Builder::new());
    let pools = [DESCRIPTOR, DESCRIPTOR].map(|handles| pool(&sim, handles));
    let addr = allocate(&sim, pools[0], 3);
    let [one, two] = pools.map(|pool| {
        let descriptor = export(&sim, pool);
        import(&sim, &descriptor)
    });
    let mut data = pointer(&sim, addr);
    let mut opened = 0;
    unsafe {
        let status = sim.cuMemPoolImportPointer(&raw mut opened, two, &raw mut data);
        assert_eq!(status, BAD, "another pool");
        let status = sim.cuMemPoolImportPointer(&raw mut opened, pools[0], &raw mut data);
        assert_eq!(status, BAD, "not an imported pool");
        let mut none = 0;
        let status = sim.cuMemAllocFromPoolAsync(&raw mut none, 4, one, ptr::null_mut());
        assert_eq!(status, BAD);
        assert_eq!(sim.cuDeviceSetMemPool(0, one), BAD);
        ok(sim.cuMemPoolImportPointer(&raw mut opened, one, &raw mut data));
        assert_ne!(opened, addr);
        assert_eq!(sim.download::<u32>(opened, N), [3; N]);
        ok(sim.cuMemsetD32_v2(opened, 4, N));
        assert_eq!(sim.download::<u32>(addr, N), [4; N]);
        let status = sim.cuMemPoolExportPointer(&raw mut data, opened);
        assert_eq!(status, BAD, "imported memory is not exported again");
        ok(sim.cuMemFree_v2(opened));
        assert_eq!(sim.cuMemFree_v2(opened), BAD);
        assert_eq!(sim.cuMemsetD32_v2(opened, 4, N), BAD);
        ok(sim.cuMemPoolDestroy(one));
        ok(sim.cuMemPoolDestroy(two));
    }
}

/// NVIDIA's tests of cuda-core import memory before the process has a context.
#[test]
fn pool_memory_is_imported_without_a_context() {
    let sim = test_device(Builder::new());
    let pool = pool(&sim, DESCRIPTOR);
    let addr = allocate(&sim, pool, 3);
    unsafe { ok(sim.cuCtxSynchronize()) };
    let exported = export(&sim, pool);
    let mut data = pointer(&sim, addr);
    let other = test_device(Builder::new());
    let (mut context, mut opened) = (ptr::null_mut(), 0);
    unsafe {
        ok(other.cuCtxSetCurrent(ptr::null_mut()));
        ok(other.cuDevicePrimaryCtxRelease_v2(0));
        let imported = import(&other, &exported);
        ok(other.cuMemPoolImportPointer(&raw mut opened, imported, &raw mut data));
        let owner = CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT;
        let mut recorded = usize::MAX;
        ok(other.cuPointerGetAttribute((&raw mut recorded).cast(), owner, opened));
        assert_eq!(recorded, 0);
        // The memory belongs to no context: it outlives those that use it.
        for value in [3, 4] {
            ok(other.cuDevicePrimaryCtxRetain(&raw mut context, 0));
            ok(other.cuCtxSetCurrent(context));
            assert_eq!(other.download::<u32>(opened, N), [value; N]);
            ok(other.cuMemsetD32_v2(opened, value + 1, N));
            ok(other.cuCtxSynchronize());
            ok(other.cuDevicePrimaryCtxReset_v2(0));
        }
        assert_eq!(sim.download::<u32>(addr, N), [5; N]);
        ok(other.cuDevicePrimaryCtxRetain(&raw mut context, 0));
        ok(other.cuCtxSetCurrent(context));
        ok(other.cuMemFree_v2(opened));
        assert_eq!(other.cuMemFree_v2(opened), BAD);
        ok(other.cuMemPoolDestroy(imported));
    }
}

#[test]
fn only_objects_for_sharing_have_handles() {
    let sim = test_device(Builder::new());
    let private = pool(&sim, CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE);
    let addr = allocate(&sim, private, 1);
    let plain = sim.alloc(64);
    let mut data = CUmemPoolPtrExportData { reserved: [0; 64] };
    let mut handle = CUipcMemHandle { reserved: [0; 64] };
    let mut other = 0;
    let flag = |addr, attribute| {
        let mut value = 0_u64;
        unsafe { ok(sim.cuPointerGetAttribute((&raw mut value).cast(), attribute, addr)) };
        value
    };
    unsafe {
        assert_eq!(sim.cuMemPoolExportPointer(&raw mut data, addr), BAD);
        assert_eq!(sim.cuMemPoolExportPointer(&raw mut data, plain), BAD);
        assert_eq!(sim.cuIpcGetMemHandle(&raw mut handle, addr), BAD);
        assert_eq!(
            sim.cuIpcGetMemHandle(&raw mut handle, plain + 4),
            BAD,
            "inside"
        );
        ok(sim.cuIpcGetMemHandle(&raw mut handle, plain));
        assert_eq!(
            sim.cuIpcOpenMemHandle_v2(&raw mut other, handle, 0),
            BAD,
            "flags"
        );
        // A process cannot open its own handles.
        let status = sim.cuIpcOpenMemHandle_v2(&raw mut other, handle, LAZY);
        assert_eq!(status, R::CUDA_ERROR_INVALID_CONTEXT);
        let mut wrong = ptr::null_mut();
        let (_, own) = event(&sim);
        let status = sim.cuIpcOpenEventHandle(&raw mut wrong, own);
        assert_eq!(status, R::CUDA_ERROR_INVALID_CONTEXT);
        // Handles of other operating systems and for fabrics are refused.
        let mut descriptor = 0_usize;
        for kind in [3 - DESCRIPTOR.0, 4, 8] {
            let mut props: CUmemPoolProps = std::mem::zeroed();
            props.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
            props.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
            props.handleTypes = CUmemAllocationHandleType(kind);
            let mut pool = ptr::null_mut();
            let status = sim.cuMemPoolCreate(&raw mut pool, &props);
            assert_eq!(status, R::CUDA_ERROR_NOT_SUPPORTED);
            let place = (&raw mut descriptor).cast();
            let kind = CUmemAllocationHandleType(kind);
            let status = sim.cuMemPoolExportToShareableHandle(place, private, kind, 0);
            assert_eq!(status, BAD);
        }
    }
    type A = CUpointer_attribute;
    let ipc = A::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE;
    assert_eq!((flag(plain, ipc), flag(addr, ipc)), (1, 0));
    let exportable = allocate(&sim, pool(&sim, DESCRIPTOR), 1);
    let types = A::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES;
    let wanted = u64::from(DESCRIPTOR.0);
    assert_eq!((flag(exportable, types), flag(addr, types)), (wanted, 0));
}
