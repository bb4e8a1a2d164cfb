//! `close` of modules, libraries and memory pools: it returns errors that a drop would swallow.

use cuda_driver::Library;
use cuda_driver::error::{Error, Status};
use cuda_driver::jit::JitOptions;
use cuda_driver::memory::MemoryPool;
use cuda_driver::prelude::*;
use cuda_sim::{Builder, Rule};

use crate::support::{Fixture, MIX, late, software};

const FAILURE: Status = Status::CUDA_ERROR_UNKNOWN;

/// Makes the next call of `function` fail.
fn fail(fixture: &Fixture, function: &'static str) {
    let rule = Rule::new(FAILURE).function(function);
    fixture.simulator.as_ref().unwrap().add_rule(rule);
}

fn count(fixture: &Fixture, function: &str) -> u64 {
    let calls = fixture.simulator.as_ref().unwrap().calls();
    calls.get(function).copied().unwrap_or(0)
}

fn status(result: cuda_driver::Result<()>) -> Option<Status> {
    result.err().and_then(|error: Error| error.status())
}

#[test]
fn the_last_handle_of_a_module_unloads_it() {
    let fixture = software(late(1));
    let load = || Module::load(&fixture.context, &Ptx::new(MIX).unwrap()).unwrap();
    let module = load();
    let function = module.function("mix").unwrap();
    // The function is another user.
    module.clone().close().unwrap();
    module.close().unwrap();
    assert_eq!(count(&fixture, "cuModuleUnload"), 0);
    drop(function);
    assert_eq!(count(&fixture, "cuModuleUnload"), 1);
    load().close().unwrap();
    assert_eq!(count(&fixture, "cuModuleUnload"), 2);

    fail(&fixture, "cuModuleUnload");
    assert_eq!(status(load().close()), Some(FAILURE));
}

#[test]
fn close_of_a_module_returns_the_fault_of_its_kernel() {
    let fixture = software(late(1));
    let module = Module::load(&fixture.context, &Ptx::new(MIX).unwrap()).unwrap();
    fixture
        .simulator
        .as_ref()
        .unwrap()
        .lose_device(0, Status::CUDA_ERROR_LAUNCH_FAILED);
    let closed = status(module.close());
    assert_eq!(closed, Some(Status::CUDA_ERROR_LAUNCH_FAILED));
    assert_eq!(count(&fixture, "cuModuleUnload"), 0);
}

#[test]
fn the_last_handle_of_a_library_unloads_it() {
    let fixture = software(Builder::new());
    let driver = fixture.context.driver();
    let load = || Library::load(driver, &Ptx::new(MIX).unwrap(), &JitOptions::new()).unwrap();
    let library = load();
    let kernel = library.kernel("mix").unwrap();
    let function = kernel.function(&fixture.context).unwrap();
    library.close().unwrap();
    assert_eq!(count(&fixture, "cuLibraryUnload"), 0);
    drop((kernel, function));
    assert_eq!(count(&fixture, "cuLibraryUnload"), 1);
    load().close().unwrap();
    assert_eq!(count(&fixture, "cuLibraryUnload"), 2);

    fail(&fixture, "cuLibraryUnload");
    assert_eq!(status(load().close()), Some(FAILURE));
}

#[test]
fn the_last_handle_of_a_pool_destroys_it() {
    let fixture = software(Builder::new());
    let device = fixture.context.device();
    let pool = MemoryPool::new(device).unwrap();
    let other = pool.clone();
    pool.close().unwrap();
    assert_eq!(count(&fixture, "cuMemPoolDestroy"), 0);
    other.close().unwrap();
    assert_eq!(count(&fixture, "cuMemPoolDestroy"), 1);
    // The default pool of a device is never destroyed.
    device.default_memory_pool().unwrap().close().unwrap();
    assert_eq!(count(&fixture, "cuMemPoolDestroy"), 1);

    fail(&fixture, "cuMemPoolDestroy");
    let closed = MemoryPool::new(device).unwrap().close();
    assert_eq!(status(closed), Some(FAILURE));
}
