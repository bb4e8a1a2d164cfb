//! Launch attributes: the `CUlaunchAttribute`s of `cuLaunchKernelEx`, with typed values.

use std::fmt;
use std::marker::PhantomData;
use std::ptr;

use cuda_sys::{
    CUaccessPolicyWindow, CUevent_record_flags, CUlaunchAttribute, CUlaunchAttributeID as Id,
    CUlaunchAttributeValue, CUlaunchAttributeValue_union__bindgen_ty_1 as Dimensions,
    CUlaunchAttributeValue_union__bindgen_ty_2 as ProgrammaticEvent,
    CUlaunchAttributeValue_union__bindgen_ty_3 as CompletionEvent, CUlaunchMemSyncDomainMap,
};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::memory::{DeviceRepr, DeviceSlice};
use crate::types::{
    AccessProperty, ClusterScheduling, Dim3, MemSyncDomain, PortableClusterMode, SharedMemoryMode,
};

/// The capacity: the number of attributes that CUDA 13.5 defines.
const MAX_ATTRIBUTES: usize = 17;

// The driver expects a union of 64 bytes, whichever CUDA header the bindings come from.
const _: () = assert!(size_of::<CUlaunchAttributeValue>() == 64);
const _: () = assert!(size_of::<CUlaunchAttribute>() == 72);

/// Attributes of a launch, for [`Stream::launch_with`](crate::Stream::launch_with).
///
/// Each method adds an attribute or replaces its value. No attribute is dropped silently: if the
/// device or the driver does not know an attribute, or does not allow a combination, the launch
/// fails.
///
/// ```
/// use cuda_driver::{DeviceBuffer, LaunchConfig, Module, Ptx};
/// use cuda_driver::launch::LaunchAttributes;
///
/// # let driver = cuda_driver::Driver::new(cuda_sim::Builder::new().build()?.library()?)?;
/// # let context = driver.device(0)?.primary_context()?;
/// # let stream = context.default_stream()?;
/// # let mix = Ptx::new(std::fs::read("tests/it/kernels/mix.ptx")?)?;
/// # let mix = Module::load(&context, &mix)?.function("mix")?;
/// let mut x = DeviceBuffer::filled(&stream, 100, 1_u32)?;
/// let y = DeviceBuffer::filled(&stream, 100, 5_u32)?;
/// let attributes = LaunchAttributes::new().cooperative().priority(-1);
/// let config = LaunchConfig::new(1, 128);
/// // SAFETY: the kernel computes `x[i] = 2 * x[i] + y[i]` for 100 words.
/// unsafe { stream.launch_with(&mix, config, &attributes, (&mut x, &y, 100_u32)) }?;
/// assert_eq!(x.to_vec()?, [7; 100]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LaunchAttributes<'a> {
    list: [CUlaunchAttribute; MAX_ATTRIBUTES],
    len: usize,
    /// The shape of a cluster, which the grid is checked against.
    cluster: Option<Dim3>,
    /// The address and the bytes of the window of an access policy.
    window: Option<(u64, u64)>,
    /// The context of the events and views, if there are any.
    context: Option<Context>,
    /// The error about an event or view whose context differs from that of an earlier one.
    mixed: Option<Box<Error>>,
    borrows: PhantomData<&'a ()>,
}

impl<'a> LaunchAttributes<'a> {
    /// Creates an empty list of attributes.
    #[must_use]
    pub fn new() -> Self {
        let none = CUlaunchAttribute {
            id: Id::CU_LAUNCH_ATTRIBUTE_IGNORE,
            pad: [0; 4],
            value: CUlaunchAttributeValue { pad: [0; 64] },
        };
        Self {
            list: [none; MAX_ATTRIBUTES],
            len: 0,
            cluster: None,
            window: None,
            context: None,
            mixed: None,
            borrows: PhantomData,
        }
    }

    /// Runs all blocks at the same time, so that they can wait for each other.
    #[must_use]
    pub fn cooperative(self) -> Self {
        self.with(Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1_i32)
    }

    /// Runs the blocks in clusters of this shape, whose blocks can access each other's shared
    /// memory (compute capability 9.0 and later). Each dimension of the grid has to be a multiple
    /// of the cluster's.
    #[must_use]
    pub fn cluster(mut self, blocks: impl Into<Dim3>) -> Self {
        let blocks = blocks.into();
        self.cluster = Some(blocks);
        self.with(
            Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            dimensions(blocks),
        )
    }

    /// Uses clusters of this larger shape where they fit, and of the shape of
    /// [`cluster`](Self::cluster) elsewhere (CUDA 12.8 and later).
    #[must_use]
    pub fn preferred_cluster(self, blocks: impl Into<Dim3>) -> Self {
        let blocks = dimensions(blocks.into());
        self.with(Id::CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION, blocks)
    }

    /// Chooses how the clusters are spread over the device.
    #[must_use]
    pub fn cluster_scheduling(self, policy: ClusterScheduling) -> Self {
        self.with(
            Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
            policy.raw(),
        )
    }

    /// Chooses whether clusters may have a size that not every device of this compute capability
    /// supports (CUDA 13.2 and later).
    #[must_use]
    pub fn portable_cluster_mode(self, mode: PortableClusterMode) -> Self {
        self.with(
            Id::CU_LAUNCH_ATTRIBUTE_PORTABLE_CLUSTER_SIZE_MODE,
            mode.raw(),
        )
    }

    /// Programmatic dependent launch: lets the kernel start before the previous kernel of the
    /// stream has ended. The kernel sees the writes of that kernel only after `griddepcontrol.wait`
    /// (`cudaGridDependencySynchronize`); the caller of the launch has to guarantee that it waits.
    #[must_use]
    pub fn programmatic_serialization(self) -> Self {
        self.with(
            Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            1_i32,
        )
    }

    /// Records `event` once every block has called `griddepcontrol.launch_dependents` or has ended.
    /// If `at_block_start` is true, records it once every block has started. The event must not
    /// record timing ([`EventFlags::DISABLE_TIMING`](crate::event::EventFlags::DISABLE_TIMING)).
    #[must_use]
    pub fn programmatic_event(mut self, event: &'a Event, at_block_start: bool) -> Self {
        self.of_context(event.context(), "the event of a programmatic launch");
        let value = ProgrammaticEvent {
            event: event.as_raw(),
            flags: CUevent_record_flags::CU_EVENT_RECORD_DEFAULT
                .0
                .cast_signed(),
            triggerAtBlockStart: at_block_start.into(),
        };
        self.with(Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, value)
    }

    /// Records `event` when, nominally, every block has started (CUDA 12.3 and later). The event
    /// must not record timing
    /// ([`EventFlags::DISABLE_TIMING`](crate::event::EventFlags::DISABLE_TIMING)).
    #[must_use]
    pub fn completion_event(mut self, event: &'a Event) -> Self {
        self.of_context(event.context(), "the completion event");
        let value = CompletionEvent {
            event: event.as_raw(),
            flags: CUevent_record_flags::CU_EVENT_RECORD_DEFAULT
                .0
                .cast_signed(),
        };
        self.with(Id::CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT, value)
    }

    /// Overrides the priority of the stream for this launch. A lower number is more urgent.
    #[must_use]
    pub fn priority(self, priority: i32) -> Self {
        self.with(Id::CU_LAUNCH_ATTRIBUTE_PRIORITY, priority)
    }

    /// Chooses the memory synchronization domain of the kernel.
    #[must_use]
    pub fn mem_sync_domain(self, domain: MemSyncDomain) -> Self {
        self.with(Id::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, domain.raw())
    }

    /// Maps the default and the remote domain to domains of the hardware.
    #[must_use]
    pub fn mem_sync_domain_map(self, default: u8, remote: u8) -> Self {
        let map = CUlaunchMemSyncDomainMap {
            default_: default,
            remote,
        };
        self.with(Id::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, map)
    }

    /// Sets how the L2 cache treats accesses to `window`: a share of `hit_ratio` of them as `hit`,
    /// the rest as `miss`.
    #[must_use]
    pub fn access_policy_window<T: DeviceRepr>(
        mut self,
        window: DeviceSlice<'a, T>,
        hit_ratio: f32,
        hit: AccessProperty,
        miss: AccessProperty,
    ) -> Self {
        self.of_context(
            window.memory.owning_stream().context(),
            "the window of an access policy",
        );
        let bytes = window.len() * size_of::<T>();
        self.window = Some((window.as_raw(), bytes as u64));
        let value = CUaccessPolicyWindow {
            base_ptr: ptr::with_exposed_provenance_mut(window.as_raw() as usize),
            num_bytes: bytes,
            hitRatio: hit_ratio,
            hitProp: hit.raw(),
            missProp: miss.raw(),
        };
        self.with(Id::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, value)
    }

    /// Sets the preferred share of the L1 cache that is used as shared memory, in percent (CUDA
    /// 12.5 and later). The driver may use more.
    #[must_use]
    pub fn shared_memory_carveout(self, percent: u32) -> Self {
        self.with(
            Id::CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
            percent,
        )
    }

    /// Chooses whether a block may use more shared memory than every device of this compute
    /// capability has (CUDA 13.2 and later).
    #[must_use]
    pub fn shared_memory_mode(self, mode: SharedMemoryMode) -> Self {
        self.with(Id::CU_LAUNCH_ATTRIBUTE_SHARED_MEMORY_MODE, mode.raw())
    }

    /// Spreads the blocks so that NVLink is used evenly (CUDA 13.0 and later).
    #[must_use]
    pub fn nvlink_util_centric_scheduling(self) -> Self {
        self.with(
            Id::CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING,
            1_u32,
        )
    }

    fn with<V: Copy>(mut self, id: Id, value: V) -> Self {
        const { assert!(size_of::<V>() <= size_of::<CUlaunchAttributeValue>()) };
        const { assert!(align_of::<V>() <= align_of::<CUlaunchAttributeValue>()) };
        let known = self.list[..self.len]
            .iter()
            .position(|known| known.id == id);
        let index = known.unwrap_or(self.len);
        // The list is never full: it has more places than there are methods that add a different
        // id.
        let Some(place) = self.list.get_mut(index) else {
            return self;
        };
        place.id = id;
        place.value.pad = [0; 64];
        // Every value lies at the start of the union; the names of its fields depend on the CUDA
        // header. SAFETY: there must be aligned room for `value` ← asserted at the start of this
        // function.
        unsafe { ptr::from_mut(&mut place.value).cast::<V>().write(value) };
        self.len = self.len.max(index + 1);
        self
    }

    fn of_context(&mut self, context: &Context, what: &'static str) {
        match &self.context {
            Some(known) if known != context => {
                self.mixed = Some(Box::new(Error::other_context(what, context, known)));
            }
            _ => self.context = Some(context.clone()),
        }
    }

    /// Returns the attributes for a launch in `context`.
    pub(crate) fn for_launch(&self, context: &Context) -> Result<&[CUlaunchAttribute]> {
        if let Some(error) = &self.mixed {
            return Err(Error::clone(error));
        }
        if let Some(known) = self.context.as_ref().filter(|known| *known != context) {
            let what = "an event or a view of the launch attributes";
            return Err(Error::other_context(what, known, context));
        }
        Ok(&self.list[..self.len])
    }

    /// Returns the attributes for a launch that is captured.
    pub(crate) fn for_capture(&self, context: &Context) -> Result<&[CUlaunchAttribute]> {
        let is_event = self.has(Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
            || self.has(Id::CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT);
        if is_event {
            // In a capture the event would define an edge of the graph, and no launch of the graph
            // would record it.
            return Err(Error::Unsupported {
                what: "an event attribute in a graph; use `programmatic_edge` or `launch_order_edge` \
                       of the node instead",
            });
        }
        self.for_launch(context)
    }

    /// Returns the attributes for a kernel node that is added to a graph.
    pub(crate) fn for_node(&self, context: &Context) -> Result<&[CUlaunchAttribute]> {
        if self.has(Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
            return Err(Error::Unsupported {
                what: "the attribute for programmatic serialization in a graph; use `programmatic_edge` \
                       of the node instead",
            });
        }
        self.for_capture(context)
    }

    fn has(&self, id: Id) -> bool {
        self.list[..self.len].iter().any(|it| it.id == id)
    }

    /// Returns the kinds of the attributes.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Id> {
        self.list[..self.len].iter().map(|attribute| attribute.id)
    }

    /// The address and the bytes of the window of an access policy, if one was set.
    pub(crate) fn window(&self) -> Option<(u64, u64)> {
        self.window
    }

    /// The shape of a cluster, if one was set.
    pub(crate) fn cluster_blocks(&self) -> Option<Dim3> {
        self.cluster
    }
}

fn dimensions(Dim3 { x, y, z }: Dim3) -> Dimensions {
    Dimensions { x, y, z }
}

impl Default for LaunchAttributes<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LaunchAttributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}
