//! The objects of Vulkan that the frames use.
//!
//! A frame has two submissions to the queue. The first one writes the shared buffer with the shader
//! and signals a binary semaphore. The second one waits for a value of a timeline semaphore, which
//! CUDA signals, and copies the buffer to memory of the host.

use std::os::fd::{FromRawFd, OwnedFd};
use std::slice;

use ash::vk;
use examples::Result;

use crate::device::Vulkan;
use crate::shader::{WORKGROUP, spir_v};

/// The limit of waits for the device, in nanoseconds.
const LIMIT: u64 = 20_000_000_000;
const OPAQUE: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD;

/// A buffer and its memory.
struct Buffer {
    raw: vk::Buffer,
    memory: vk::DeviceMemory,
    /// The size of the memory.
    bytes: u64,
}

/// The pipeline of the shader, and what it needs.
struct Pipeline {
    raw: vk::Pipeline,
    layout: vk::PipelineLayout,
    set: vk::DescriptorSet,
    set_layout: vk::DescriptorSetLayout,
    pool: vk::DescriptorPool,
}

/// The objects that the frames use. A value that is not complete, because a call failed, leaks.
pub(crate) struct Frames<'a> {
    vulkan: &'a Vulkan,
    n: u32,
    shared: Buffer,
    host: Buffer,
    /// The memory of `host` in this process.
    mapped: *const u32,
    written: vk::Semaphore,
    taken: vk::Semaphore,
    pipeline: Pipeline,
    commands: vk::CommandPool,
    write: vk::CommandBuffer,
    read: vk::CommandBuffer,
    fence: vk::Fence,
}

impl<'a> Frames<'a> {
    /// Creates the objects for buffers of `n` words.
    pub(crate) fn new(vulkan: &'a Vulkan, n: u32) -> Result<Self> {
        let device = &vulkan.device;
        let shared = Buffer::new(vulkan, n, true)?;
        let host = Buffer::new(vulkan, n, false)?;
        let (all, flags) = (vk::WHOLE_SIZE, vk::MemoryMapFlags::empty());
        // SAFETY: the memory must be visible to the host, and not mapped ← it was created so.
        let mapped = unsafe { device.map_memory(host.memory, 0, all, flags) }?;
        let pipeline = Pipeline::new(vulkan, &shared)?;
        let info = vk::CommandPoolCreateInfo::default()
            .queue_family_index(vulkan.family)
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        // SAFETY: the device must be alive, and the struct valid ← both are borrowed.
        let commands = unsafe { device.create_command_pool(&info, None) }?;
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(commands)
            .command_buffer_count(2);
        // SAFETY: the pool must be of the device ← it was created just now.
        let buffers = unsafe { device.allocate_command_buffers(&info) }?;
        // SAFETY: the device must be alive, and the struct valid ← both are borrowed.
        let fence = unsafe { device.create_fence(&vk::FenceCreateInfo::default(), None) }?;
        let this = Self {
            vulkan,
            n,
            shared,
            host,
            mapped: mapped.cast_const().cast(),
            written: semaphore(vulkan, vk::SemaphoreType::BINARY)?,
            taken: semaphore(vulkan, vk::SemaphoreType::TIMELINE)?,
            pipeline,
            commands,
            write: buffers[0],
            read: buffers[1],
            fence,
        };
        this.record_read()?;
        Ok(this)
    }

    /// Returns a descriptor of the memory of the shared buffer, and the size of the memory.
    pub(crate) fn export_memory(&self) -> Result<(OwnedFd, usize)> {
        let info = vk::MemoryGetFdInfoKHR::default()
            .memory(self.shared.memory)
            .handle_type(OPAQUE);
        // SAFETY: the memory must be exportable ← it was allocated so.
        let raw = unsafe { self.vulkan.memory_fd.get_memory_fd(&info) }?;
        // SAFETY: the descriptor must be open, and have no other owner ← Vulkan has created it.
        let handle = unsafe { OwnedFd::from_raw_fd(raw) };
        Ok((handle, usize::try_from(self.shared.bytes)?))
    }

    /// Returns a descriptor of the binary semaphore that Vulkan signals.
    pub(crate) fn export_written(&self) -> Result<OwnedFd> {
        self.export(self.written)
    }

    /// Returns a descriptor of the timeline semaphore that CUDA signals.
    pub(crate) fn export_taken(&self) -> Result<OwnedFd> {
        self.export(self.taken)
    }

    fn export(&self, semaphore: vk::Semaphore) -> Result<OwnedFd> {
        let info = vk::SemaphoreGetFdInfoKHR::default()
            .semaphore(semaphore)
            .handle_type(vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_FD);
        // SAFETY: the semaphore must be exportable ← it was created so.
        let raw = unsafe { self.vulkan.semaphore_fd.get_semaphore_fd(&info) }?;
        // SAFETY: the descriptor must be open, and have no other owner ← Vulkan has created it.
        Ok(unsafe { OwnedFd::from_raw_fd(raw) })
    }

    /// Submits the shader, and a signal of the binary semaphore.
    pub(crate) fn write(&self, frame: u32) -> Result<()> {
        let (device, commands) = (&self.vulkan.device, self.write);
        self.begin(commands)?;
        let stage = vk::PipelineBindPoint::COMPUTE;
        // SAFETY: commands are recorded into a buffer that has begun, with objects of its device,
        // which `self` owns. This applies to all commands below.
        unsafe { device.cmd_bind_pipeline(commands, stage, self.pipeline.raw) };
        let (layout, sets) = (self.pipeline.layout, [self.pipeline.set]);
        // SAFETY: as above.
        unsafe { device.cmd_bind_descriptor_sets(commands, stage, layout, 0, &sets, &[]) };
        let (stages, bytes) = (vk::ShaderStageFlags::COMPUTE, frame.to_ne_bytes());
        // SAFETY: as above. The layout has a constant of 4 bytes.
        unsafe { device.cmd_push_constants(commands, layout, stages, 0, &bytes) };
        // SAFETY: as above. The shader writes one word per invocation, and there are `n` words.
        unsafe { device.cmd_dispatch(commands, self.n / WORKGROUP, 1, 1) };
        // The queue gives the buffer to CUDA.
        let barrier = self.barrier(self.vulkan.family, vk::QUEUE_FAMILY_EXTERNAL);
        self.pass(
            commands,
            (
                vk::PipelineStageFlags::COMPUTE_SHADER,
                vk::PipelineStageFlags::BOTTOM_OF_PIPE,
            ),
            barrier.src_access_mask(vk::AccessFlags::SHADER_WRITE),
        );
        // SAFETY: as above.
        unsafe { device.end_command_buffer(commands) }?;
        let (commands, signals) = ([commands], [self.written]);
        let submit = vk::SubmitInfo::default()
            .command_buffers(&commands)
            .signal_semaphores(&signals);
        // SAFETY: the commands must be complete before they are recorded again, and the semaphore
        // not be signalled ← `read` waits for the frame, in which CUDA has waited for the
        // semaphore.
        Ok(unsafe { device.queue_submit(self.vulkan.queue, &[submit], vk::Fence::null()) }?)
    }

    /// Waits until CUDA has signalled `value`, and returns the words of the shared buffer.
    pub(crate) fn read(&self, value: u64) -> Result<Vec<u32>> {
        let device = &self.vulkan.device;
        let values = [value];
        let mut timeline =
            vk::TimelineSemaphoreSubmitInfo::default().wait_semaphore_values(&values);
        let (commands, waits, stages) = (
            [self.read],
            [self.taken],
            [vk::PipelineStageFlags::ALL_COMMANDS],
        );
        let submit = vk::SubmitInfo::default()
            .command_buffers(&commands)
            .wait_semaphores(&waits)
            .wait_dst_stage_mask(&stages)
            .push_next(&mut timeline);
        // SAFETY: the commands must not be pending, and the fence not be signalled ← the last frame
        // has waited for both, and has reset the fence.
        unsafe { device.queue_submit(self.vulkan.queue, &[submit], self.fence) }?;
        // SAFETY: the fence must be of the device ← `self` owns both.
        unsafe { device.wait_for_fences(&[self.fence], true, LIMIT) }?;
        // SAFETY: the fence must not be in use ← it was waited for.
        unsafe { device.reset_fences(&[self.fence]) }?;
        // SAFETY: `n` words must be mapped, and not written meanwhile ← the buffer has as many, the
        // memory is coherent, and its only writer is complete.
        Ok(unsafe { slice::from_raw_parts(self.mapped, self.n as usize) }.to_vec())
    }

    /// Records the copy to the memory of the host.
    fn record_read(&self) -> Result<()> {
        let (device, commands) = (&self.vulkan.device, self.read);
        self.begin(commands)?;
        // The queue takes the buffer from CUDA.
        let barrier = self.barrier(vk::QUEUE_FAMILY_EXTERNAL, self.vulkan.family);
        self.pass(
            commands,
            (
                vk::PipelineStageFlags::ALL_COMMANDS,
                vk::PipelineStageFlags::TRANSFER,
            ),
            barrier.dst_access_mask(vk::AccessFlags::TRANSFER_READ),
        );
        let copy = vk::BufferCopy::default().size(u64::from(self.n) * 4);
        // SAFETY: the command buffer must have begun, and both buffers have `n` words ← see `new`.
        unsafe { device.cmd_copy_buffer(commands, self.shared.raw, self.host.raw, &[copy]) };
        let barrier = vk::BufferMemoryBarrier::default()
            .buffer(self.host.raw)
            .size(vk::WHOLE_SIZE)
            .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
            .dst_access_mask(vk::AccessFlags::HOST_READ);
        let stages = (
            vk::PipelineStageFlags::TRANSFER,
            vk::PipelineStageFlags::HOST,
        );
        self.pass(commands, stages, barrier);
        // SAFETY: the command buffer must have begun ← it has.
        Ok(unsafe { device.end_command_buffer(commands) }?)
    }

    /// A barrier that passes the shared buffer from one family of queues to another.
    fn barrier(&self, from: u32, to: u32) -> vk::BufferMemoryBarrier<'static> {
        vk::BufferMemoryBarrier::default()
            .buffer(self.shared.raw)
            .size(vk::WHOLE_SIZE)
            .src_queue_family_index(from)
            .dst_queue_family_index(to)
    }

    fn pass(
        &self,
        commands: vk::CommandBuffer,
        (before, after): (vk::PipelineStageFlags, vk::PipelineStageFlags),
        barrier: vk::BufferMemoryBarrier<'_>,
    ) {
        let flags = vk::DependencyFlags::empty();
        let (device, barriers) = (&self.vulkan.device, [barrier]);
        // SAFETY: the command buffer must have begun, and the buffer be of the device ← the callers
        // pass such ones.
        unsafe {
            device.cmd_pipeline_barrier(commands, before, after, flags, &[], &barriers, &[]);
        }
    }

    fn begin(&self, commands: vk::CommandBuffer) -> Result<()> {
        let info = vk::CommandBufferBeginInfo::default();
        // SAFETY: the command buffer must not be pending ← `read` has waited for the last frame.
        Ok(unsafe { self.vulkan.device.begin_command_buffer(commands, &info) }?)
    }
}

impl Drop for Frames<'_> {
    fn drop(&mut self) {
        let device = &self.vulkan.device;
        // SAFETY: the device must be alive ← it is borrowed. No other thread uses it.
        let _ = unsafe { device.device_wait_idle() };
        // SAFETY: objects must not be in use, and be destroyed once ← the device is idle, and
        // `self` owns them. This applies to all calls below.
        unsafe { device.destroy_fence(self.fence, None) };
        // SAFETY: as above.
        unsafe { device.destroy_command_pool(self.commands, None) };
        // SAFETY: as above.
        unsafe { device.destroy_pipeline(self.pipeline.raw, None) };
        // SAFETY: as above.
        unsafe { device.destroy_pipeline_layout(self.pipeline.layout, None) };
        // SAFETY: as above. The pool frees its set.
        unsafe { device.destroy_descriptor_pool(self.pipeline.pool, None) };
        // SAFETY: as above.
        unsafe { device.destroy_descriptor_set_layout(self.pipeline.set_layout, None) };
        for semaphore in [self.written, self.taken] {
            // SAFETY: as above.
            unsafe { device.destroy_semaphore(semaphore, None) };
        }
        for buffer in [&self.shared, &self.host] {
            // SAFETY: as above.
            unsafe { device.destroy_buffer(buffer.raw, None) };
            // SAFETY: as above. CUDA has given up its import.
            unsafe { device.free_memory(buffer.memory, None) };
        }
    }
}

impl Buffer {
    /// Creates a buffer of `n` words: of the device, and exportable, or of the host.
    fn new(vulkan: &Vulkan, n: u32, is_shared: bool) -> Result<Self> {
        let device = &vulkan.device;
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(OPAQUE);
        let (usage, wanted) = if is_shared {
            let usage = vk::BufferUsageFlags::STORAGE_BUFFER | vk::BufferUsageFlags::TRANSFER_SRC;
            (usage, vk::MemoryPropertyFlags::DEVICE_LOCAL)
        } else {
            let wanted =
                vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
            (vk::BufferUsageFlags::TRANSFER_DST, wanted)
        };
        let mut info = vk::BufferCreateInfo::default()
            .size(u64::from(n) * 4)
            .usage(usage);
        if is_shared {
            info = info.push_next(&mut external);
        }
        // SAFETY: the device must be alive, and the structs valid ← they are borrowed and local.
        let raw = unsafe { device.create_buffer(&info, None) }?;
        // SAFETY: the buffer must be of the device ← it was created just now.
        let needs = unsafe { device.get_buffer_memory_requirements(raw) };
        let mut dedicated = vk::MemoryDedicatedAllocateInfo::default().buffer(raw);
        let mut export = vk::ExportMemoryAllocateInfo::default().handle_types(OPAQUE);
        let mut info = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(vulkan.memory_type(needs.memory_type_bits, wanted)?);
        if is_shared {
            info = info.push_next(&mut dedicated).push_next(&mut export);
        }
        // SAFETY: as for the buffer.
        let memory = unsafe { device.allocate_memory(&info, None) }?;
        // SAFETY: both must be of the device, and the memory large enough ← they were created so.
        unsafe { device.bind_buffer_memory(raw, memory, 0) }?;
        Ok(Self {
            raw,
            memory,
            bytes: needs.size,
        })
    }
}

impl Pipeline {
    /// Creates the pipeline of the shader, which writes `buffer`.
    fn new(vulkan: &Vulkan, buffer: &Buffer) -> Result<Self> {
        let device = &vulkan.device;
        let kind = vk::DescriptorType::STORAGE_BUFFER;
        let bindings = [vk::DescriptorSetLayoutBinding::default()
            .descriptor_type(kind)
            .descriptor_count(1)
            .stage_flags(vk::ShaderStageFlags::COMPUTE)];
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: the device must be alive, and the structs valid ← they are borrowed and local.
        // This applies to all calls below, and their handles were created in this function.
        let set_layout = unsafe { device.create_descriptor_set_layout(&info, None) }?;
        let sizes = [vk::DescriptorPoolSize::default()
            .ty(kind)
            .descriptor_count(1)];
        let info = vk::DescriptorPoolCreateInfo::default()
            .max_sets(1)
            .pool_sizes(&sizes);
        // SAFETY: as above.
        let pool = unsafe { device.create_descriptor_pool(&info, None) }?;
        let layouts = [set_layout];
        let info = vk::DescriptorSetAllocateInfo::default()
            .descriptor_pool(pool)
            .set_layouts(&layouts);
        // SAFETY: as above.
        let set = unsafe { device.allocate_descriptor_sets(&info) }?[0];
        let buffers = [vk::DescriptorBufferInfo::default()
            .buffer(buffer.raw)
            .range(vk::WHOLE_SIZE)];
        let write = vk::WriteDescriptorSet::default()
            .dst_set(set)
            .descriptor_type(kind)
            .buffer_info(&buffers);
        // SAFETY: as above.
        unsafe { device.update_descriptor_sets(&[write], &[]) };
        let constants = [vk::PushConstantRange::default()
            .stage_flags(vk::ShaderStageFlags::COMPUTE)
            .size(4)];
        let info = vk::PipelineLayoutCreateInfo::default()
            .set_layouts(&layouts)
            .push_constant_ranges(&constants);
        // SAFETY: as above.
        let layout = unsafe { device.create_pipeline_layout(&info, None) }?;
        let code = spir_v();
        let info = vk::ShaderModuleCreateInfo::default().code(&code);
        // SAFETY: as above. The code is valid SPIR-V.
        let module = unsafe { device.create_shader_module(&info, None) }?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let infos = [vk::ComputePipelineCreateInfo::default()
            .stage(stage)
            .layout(layout)];
        let cache = vk::PipelineCache::null();
        // SAFETY: as above.
        let pipelines = unsafe { device.create_compute_pipelines(cache, &infos, None) };
        // SAFETY: as above. The pipeline does not need the module any more.
        unsafe { device.destroy_shader_module(module, None) };
        Ok(Self {
            raw: pipelines.map_err(|(_, error)| error)?[0],
            layout,
            set,
            set_layout,
            pool,
        })
    }
}

/// Creates a semaphore that can be exported.
fn semaphore(vulkan: &Vulkan, kind: vk::SemaphoreType) -> Result<vk::Semaphore> {
    let mut kinds = vk::SemaphoreTypeCreateInfo::default().semaphore_type(kind);
    let mut export = vk::ExportSemaphoreCreateInfo::default()
        .handle_types(vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_FD);
    let info = vk::SemaphoreCreateInfo::default()
        .push_next(&mut kinds)
        .push_next(&mut export);
    // SAFETY: the device must be alive, and the structs valid ← they are borrowed and local.
    Ok(unsafe { vulkan.device.create_semaphore(&info, None) }?)
}
