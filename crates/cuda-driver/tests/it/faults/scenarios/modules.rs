//! Scenarios of modules, libraries, the linker and variables.

use cuda_driver::Library;
use cuda_driver::context::CacheConfig;
use cuda_driver::jit::{FunctionAttribute, Global, JitOptions, Linker};
use cuda_driver::prelude::*;

use super::{Fixture, Result, Scenario, copy, expect, filled, on, one};
use crate::support::COPY;

pub(super) const ALL: &[Scenario] = &[
    one("modules", modules),
    one("functions", functions),
    one("occupancy", occupancy),
    one("variables", variables),
    one("libraries", libraries),
    one("linker", linker),
    one("foreign cubin", foreign),
    on("foreign cubin on 13.0", |it| it.version(13000), foreign),
];

const VARIABLES: &str = include_str!("../../kernels/variables.ptx");
const CALLER: &str = include_str!("../../kernels/link_caller.ptx");
const CALLEE: &str = include_str!("../../kernels/link_callee.ptx");

fn ptx(text: &str) -> Ptx {
    Ptx::new(text).unwrap()
}

fn modules(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    fixture.driver.module_loading_mode()?;
    let options = JitOptions::new().max_registers(32);
    let module = Module::load_with(&fixture.context, &ptx(COPY), &options)?;
    let kernel = module.function("copy")?;
    drop(module);
    let (source, mut target) = (filled(&stream, 4)?, filled(&stream, 0)?);
    copy(&stream, &kernel, &source, &mut target)?;
    // The module is unloaded only after its running kernel has ended.
    drop((kernel, source));
    expect(&target, 4)
}

fn functions(fixture: &Fixture) -> Result<()> {
    let module = Module::load(&fixture.context, &ptx(VARIABLES))?;
    let functions = module.functions()?;
    assert_eq!(functions.len(), 2);
    let function = module.function("scale")?;
    function.load()?;
    assert!(function.is_loaded()?);
    function.set_cache_config(CacheConfig::SHARED)?;
    let most = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
    assert!(function.attribute(most)? > 0);
    function.set_shared_memory_carveout(Some(50))?;
    function.allow_non_portable_cluster_size(true)?;
    function.required_cluster()?;
    Ok(())
}

fn occupancy(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let kernel = fixture.kernel(COPY, "copy")?;
    assert!(kernel.max_active_blocks(128, 0)? > 0);
    assert!(kernel.max_potential_block_size(|_| 0, 0)?.block > 0);
    assert!(kernel.available_shared_bytes(1, 128)? > 0);
    let config = LaunchConfig::new(8, 128);
    let size = kernel.max_cluster_size(&stream, config)?;
    let attributes = LaunchAttributes::new().cluster(size.min(8));
    assert!(kernel.max_active_clusters(&stream, config, &attributes)? > 0);
    Ok(())
}

fn variables(fixture: &Fixture) -> Result<()> {
    let (stream, other) = (fixture.stream()?, fixture.stream()?);
    let module = Module::load(&fixture.context, &ptx(VARIABLES))?;
    let bump = module.function("bump")?;
    let mut counter: Global<u32> = module.global("counter", &stream)?;
    assert_eq!(counter.to_vec()?, [5]);
    counter.copy_from_host(&[7])?;
    // SAFETY: the kernel adds to the variable, whose owning stream is this one.
    unsafe { stream.launch(&bump, LaunchConfig::new(1, 1), (3_u32,)) }?;
    assert_eq!(counter.to_vec()?, [10]);
    drop(counter);
    let counter: Global<u32> = module.global("counter", &other)?;
    assert_eq!(counter.to_vec()?, [10]);
    Ok(())
}

fn libraries(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let device = fixture.context.device();
    let library = Library::load(&fixture.driver, &ptx(VARIABLES), &JitOptions::new())?;
    let kernels = library.kernels()?;
    assert_eq!(kernels.len(), 2);
    let kernel = library.kernel("bump")?;
    assert_eq!(kernel.parameters()?.map_or(0, |all| all.len()), 1);
    let most = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
    assert!(kernel.attribute(most, device)? > 0);
    let carveout = FunctionAttribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
    kernel.set_attribute(carveout, 50, device)?;
    kernel.set_cache_config(CacheConfig::L1, device)?;
    let function = kernel.function(&fixture.context)?;
    let counter: Global<u32> = library.global("counter", &stream)?;
    // SAFETY: the kernel adds to the variable, whose owning stream is this one.
    unsafe { stream.launch(&function, LaunchConfig::new(1, 1), (3_u32,)) }?;
    drop((library, kernels, kernel, function));
    assert_eq!(counter.to_vec()?, [8]);
    Ok(())
}

fn linker(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mut linker = Linker::new(&fixture.context, &JitOptions::new())?;
    linker
        .add(&ptx(CALLER), "caller")?
        .add(&ptx(CALLEE), "callee")?;
    let linked = linker.complete()?;
    let weigh_all = Module::load(&fixture.context, &linked.cubin)?.function("weigh_all")?;
    let mut x = DeviceBuffer::from_host(&stream, &[1_u32, 2, 3, 4])?;
    // SAFETY: the kernel touches 4 words.
    unsafe { stream.launch(&weigh_all, LaunchConfig::new(1, 32), (&mut x, 4_u32)) }?;
    assert_eq!(x.to_vec()?, [1014, 1017, 1020, 1023]);
    Ok(())
}

/// A cubin without metadata about its kernel parameters: the library queries the driver for them.
fn foreign(fixture: &Fixture) -> Result<()> {
    let stream = fixture.stream()?;
    let mut linker = Linker::new(&fixture.context, &JitOptions::new())?;
    linker.add(&ptx(COPY), "copy")?;
    let cubin = linker.complete()?.cubin;
    // SAFETY: this is the complete cubin that the linker produced.
    let cubin = unsafe { Cubin::from_bytes(cubin.as_bytes().to_vec()) };
    let kernel = Module::load(&fixture.context, &cubin)?.function("copy")?;
    assert_eq!(kernel.parameters().map(|all| all.len()), Some(3));
    let (source, mut target) = (filled(&stream, 4)?, filled(&stream, 0)?);
    copy(&stream, &kernel, &source, &mut target)?;
    expect(&target, 4)?;
    let library = Library::load(&fixture.driver, &cubin, &JitOptions::new())?;
    // Without a description in the image, the driver needs a current context.
    let _current = fixture.context.make_current()?;
    let parameters = library.kernel("copy")?.parameters()?;
    assert_eq!(parameters.map(|all| all.len()), Some(3));
    Ok(())
}
