//! The shape and the parameters of a launch, and the job that a stream executes.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cuda_sys::{CUlaunchConfig, CUresult, LaunchUse};

use crate::driver::arg::{Arg, Out};
use crate::driver::handle::Table;
use crate::driver::objects::context::Context;
use crate::driver::objects::device::Device;
use crate::driver::objects::function::Function;
use crate::driver::objects::graph::attribute::Attributes;
use crate::driver::objects::graph::conditional::Conditionals;
use crate::driver::objects::heap::Heap;
use crate::driver::objects::occupancy;
use crate::driver::objects::stream::DeviceFault;
use crate::driver::objects::surface::SurfaceObject;
use crate::driver::objects::texture::TextureObject;
use crate::driver::status::{
    COOPERATIVE_LAUNCH_TOO_LARGE, INVALID_CLUSTER_SIZE, INVALID_VALUE, NOT_SUPPORTED, Status,
};
use crate::lock::read;
use crate::memory::MemoryMap;
use crate::report::Report;
use crate::vm;
use crate::vm::{Checks, LaunchParams, product};

/// The shape of a launch.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) struct Shape {
    pub(in crate::driver) grid: [u32; 3],
    pub(in crate::driver) block: [u32; 3],
    pub(in crate::driver) shared: u32,
    pub(in crate::driver) cooperative: bool,
    /// The size of a cluster in blocks, if the launch specifies it.
    pub(in crate::driver) cluster: Option<[u32; 3]>,
}

/// `CU_LAUNCH_PARAM_BUFFER_POINTER` and `CU_LAUNCH_PARAM_BUFFER_SIZE`, keys of the list `extra`.
const BUFFER_POINTER: usize = 1;
const BUFFER_SIZE: usize = 2;

/// Copies the parameters into one buffer with the layout that the kernel expects.
pub(in crate::driver) fn pack(
    function: &Function,
    params: Out<*mut c_void>,
    extra: Out<*mut c_void>,
) -> Status<Vec<u8>> {
    let kernel = function.kernel()?;
    let size = kernel.param_bytes as usize;
    if !extra.is_null() {
        // An empty list is allowed in addition to `params`.
        let is_empty = extra.get()?.is_null();
        if params.is_null() {
            return pack_buffer(size, extra);
        }
        if !is_empty {
            return Err(INVALID_VALUE);
        }
    }
    let mut buffer = vec![0; size];
    for (index, param) in kernel.params.iter().enumerate() {
        // SAFETY: the pointer must be valid for the size of the parameter ← the contract of
        // cuLaunchKernel.
        let value: Out<u8> = unsafe { Arg::wrap(params.get_at(index)?.cast::<u8>()) };
        let bytes = value.bytes(param.size as usize)?;
        buffer
            .get_mut(param.offset as usize..param.offset as usize + bytes.len())
            .ok_or(INVALID_VALUE)?
            .copy_from_slice(bytes);
    }
    Ok(buffer)
}

/// Copies the parameters of a launch that passes them as one buffer.
fn pack_buffer(size: usize, extra: Out<*mut c_void>) -> Status<Vec<u8>> {
    let (mut start, mut len) = (std::ptr::null_mut(), None);
    let mut index = 0;
    loop {
        match extra.get_at(index)?.addr() {
            0 => break,
            BUFFER_POINTER => start = extra.get_at(index + 1)?,
            BUFFER_SIZE => {
                let value = extra.get_at(index + 1)?;
                // SAFETY: it must point to a `size_t` ← the contract of
                // CU_LAUNCH_PARAM_BUFFER_SIZE.
                let value: Out<usize> = unsafe { Arg::wrap(value.cast()) };
                len = Some(value.get()?);
            }
            _ => return Err(INVALID_VALUE),
        }
        index += 2;
    }
    let len = len.ok_or(INVALID_VALUE)?;
    if len < size {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the buffer must be valid for the size that comes with it ← the contract of
    // CU_LAUNCH_PARAM_BUFFER_POINTER.
    let buffer: Out<u8> = unsafe { Arg::wrap(start.cast()) };
    Ok(buffer.bytes(size)?.to_vec())
}

impl Shape {
    /// Returns the shape of a launch that is not cooperative and specifies no cluster.
    pub(in crate::driver) fn new(grid: [u32; 3], block: [u32; 3], shared: u32) -> Self {
        Self {
            grid,
            block,
            shared,
            cooperative: false,
            cluster: None,
        }
    }

    /// Fails for launches that the driver rejects. The estimated register count does not reject a
    /// launch, because only an assembler knows how many registers a kernel needs.
    pub(in crate::driver) fn check(self, function: &Function, context: &Context) -> Status {
        let kernel = function.kernel()?;
        if let Some((line, message)) = &kernel.unsupported {
            let device = &function.module.context.device;
            device.report(Report::not_launched(&kernel.name, *line, message));
            return Err(NOT_SUPPORTED);
        }
        let [grid_x, grid_y, grid_z] = self.grid;
        let [block_x, block_y, block_z] = self.block;
        let dims = [grid_x, grid_y, grid_z, block_x, block_y, block_z];
        let threads = product(self.block);
        if dims.contains(&0)
            || grid_x > i32::MAX as u32
            || grid_y.max(grid_z) > 65535
            || block_x.max(block_y) > 1024
            || block_z > 64
            || threads > 1024
        {
            return Err(INVALID_VALUE);
        }
        if kernel
            .required_threads
            .is_some_and(|required| required != self.block)
        {
            return Err(INVALID_VALUE);
        }
        if kernel.most_threads().is_some_and(|most| threads > most) {
            return Err(INVALID_VALUE);
        }
        if i64::from(self.shared) > i64::from(function.on_device()?.dynamic_shared_limit()) {
            return Err(INVALID_VALUE);
        }
        self.check_cluster(function)?;
        if self.cooperative {
            let fit = occupancy::blocks_per_sm(function, threads as u32, self.shared as usize)?;
            let most = u64::from(fit.certain) * u64::from(context.sms().len());
            if product(self.grid) > most {
                return Err(COOPERATIVE_LAUNCH_TOO_LARGE);
            }
        }
        Ok(())
    }

    fn check_cluster(self, function: &Function) -> Status {
        let kernel = function.kernel()?;
        let cluster = self.cluster.or(kernel.cluster).unwrap_or([1; 3]);
        let size = product(cluster);
        if size == 1 && kernel.takes_cluster(cluster) {
            return Ok(());
        }
        if function.module.context.device.capability.0 < 9 {
            return Err(NOT_SUPPORTED);
        }
        let fills =
            |axis: usize| cluster[axis] > 0 && self.grid[axis].is_multiple_of(cluster[axis]);
        let most = function.on_device()?.max_cluster();
        if size > most || !kernel.takes_cluster(cluster) || !(0..3).all(fills) {
            return Err(INVALID_CLUSTER_SIZE);
        }
        Ok(())
    }
}

/// Parses the attributes of a launch as a driver of `version` does.
pub(in crate::driver) fn attributes_of(
    config: &CUlaunchConfig,
    version: u32,
) -> Status<Attributes> {
    let mut all = Attributes::default();
    // SAFETY: there must be `numAttrs` attributes ← the contract of cuLaunchKernelEx.
    let attributes = unsafe { config.attrs.wrap() };
    for index in 0..config.numAttrs as usize {
        let attribute = attributes.get_at(index)?;
        all.set(version, attribute.id, &attribute.value)?;
    }
    Ok(all)
}

/// A function that receives the output of a kernel.
type Print = Box<dyn Fn(&[u8]) + Send + Sync>;

/// The memory of other devices that the kernels of a context can access.
pub(in crate::driver) struct Reachable {
    /// The devices, each with whether the context has peer access to it.
    pub(in crate::driver) others: Vec<(Arc<Device>, bool)>,
}

impl Reachable {
    /// Returns a map of the memory that kernels on `own` can currently access.
    fn map(&self, own: &Device) -> Arc<MemoryMap> {
        if self.others.is_empty() {
            return own.map();
        }
        let others = self.others.iter().map(|(device, _)| device.map());
        let maps: Vec<Arc<MemoryMap>> = std::iter::once(own.map()).chain(others).collect();
        // Memory of a pool follows the access of the pool. Other memory, and variables of modules,
        // follow the peer access of the context.
        let is_shared = |index: usize, start: u64| {
            let (device, is_peer) = &self.others[index - 1];
            device
                .pool_of(start)
                .map_or(*is_peer, |pool| pool.is_accessible(own.ordinal))
        };
        Arc::new(MemoryMap::union(&maps, is_shared))
    }
}

/// A queued launch.
pub(in crate::driver) struct Job {
    pub(in crate::driver) image: Arc<std::sync::RwLock<vm::Image>>,
    pub(in crate::driver) kernel: usize,
    pub(in crate::driver) shape: Shape,
    pub(in crate::driver) params: Vec<u8>,
    pub(in crate::driver) stack: u32,
    pub(in crate::driver) reachable: Reachable,
    pub(in crate::driver) print: Print,
    pub(in crate::driver) limit: Option<u64>,
    pub(in crate::driver) host_threads: usize,
    pub(in crate::driver) device: Arc<Device>,
    /// The multiprocessors of the green context in which the kernel runs, with the number of
    /// clusters that fit on them at once; `None` in other contexts.
    pub(in crate::driver) partition: Option<(Vec<u32>, u64)>,
    /// The heap of the context, and the limit of its size in bytes.
    pub(in crate::driver) heap: (Arc<Heap>, u64),
    pub(in crate::driver) conditionals: Arc<Conditionals>,
    pub(in crate::driver) textures: Arc<Table<TextureObject>>,
    pub(in crate::driver) surfaces: Arc<Table<SurfaceObject>>,
    pub(in crate::driver) checks: Checks,
    /// The memory of the arguments, as the program states it.
    pub(in crate::driver) uses: Vec<LaunchUse>,
}

impl Job {
    /// Returns a map of the memory that the device can currently access.
    fn map(&self) -> Arc<MemoryMap> {
        self.reachable.map(&self.device)
    }

    pub(in crate::driver) fn run(&self) -> Result<(), DeviceFault> {
        let map = self.map();
        let image = read(&self.image);
        let set = |handle, value| self.conditionals.set(handle, value);
        let mut params = LaunchParams::new(self.shape.grid, self.shape.block, &self.params, &map);
        let newer = || Some(self.map());
        params.newer = &newer;
        params.dynamic_shared = self.shape.shared;
        params.cooperative = self.shape.cooperative;
        params.cluster = self.shape.cluster;
        params.output = &*self.print;
        params.stack_limit = self.stack.max(params.stack_limit);
        params.instruction_limit = self.limit;
        params.threads = self.host_threads;
        params.cancel = Some(&self.device.cancel);
        params.multiprocessors = self.device.limits.multiprocessors as u32;
        if let Some((sms, clusters)) = &self.partition {
            params.sms = sms;
            params.resident_clusters = Some(*clusters);
        }
        params.set_conditional = &set;
        let (heap, heap_limit) = &self.heap;
        let malloc = |size| heap.allocate(&self.device, size, *heap_limit);
        let free = |address| heap.free(address);
        (params.malloc, params.free) = (&malloc, &free);
        let texture = |handle| {
            let object = self.textures.get(handle)?;
            Some(Arc::clone(&object.texture))
        };
        let surface = |handle| {
            let object = self.surfaces.get(handle)?;
            Some(Arc::clone(&object.elements))
        };
        (params.textures, params.surfaces) = (&texture, &surface);
        let report = |report| self.device.report(report);
        params.checks = self.checks;
        params.uses = &self.uses;
        params.report = &report;
        match vm::launch(&image, self.kernel, &params) {
            Ok(_) => Ok(()),
            // The instance is being dropped, so the program can no longer get the error.
            Err(_) if self.device.cancel.load(Ordering::Relaxed) => Ok(()),
            Err(fault) => {
                if !fault.kind.before_start() {
                    self.device.report(fault.report());
                }
                Err((CUresult(fault.kind.code()), fault.to_string()))
            }
        }
    }
}
