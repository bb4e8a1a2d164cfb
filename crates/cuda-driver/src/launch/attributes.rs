//! What a launch can ask for beyond its shape.

use std::fmt;
use std::marker::PhantomData;
use std::ptr;

use cuda_sys::{
    CUaccessPolicyWindow, CUaccessProperty, CUclusterSchedulingPolicy, CUevent_record_flags,
    CUlaunchAttribute, CUlaunchAttributeID as Id, CUlaunchAttributePortableClusterMode,
    CUlaunchAttributeValue, CUlaunchAttributeValue_union__bindgen_ty_1 as Dimensions,
    CUlaunchAttributeValue_union__bindgen_ty_2 as ProgrammaticEvent,
    CUlaunchAttributeValue_union__bindgen_ty_3 as CompletionEvent, CUlaunchMemSyncDomain,
    CUlaunchMemSyncDomainMap, CUsharedMemoryMode,
};

use super::Dim3;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::memory::{DeviceRepr, DeviceSlice};

/// What the L2 cache does with a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AccessProperty {
    /// As with any other.
    #[default]
    Normal,
    /// It is unlikely to be used again.
    Streaming,
    /// It is likely to be used again.
    Persisting,
}

/// How the clusters of a launch spread over the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClusterScheduling {
    /// As the driver likes.
    #[default]
    Default,
    /// Over as many multiprocessors as there are.
    Spread,
    /// Wherever there is room, as balanced as the hardware can.
    LoadBalancing,
}

/// Whether clusters may be of a size that not every device of a capability has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PortableClusterMode {
    /// As the function's attributes say.
    #[default]
    Default,
    /// They may not.
    RequirePortable,
    /// They may.
    AllowNonPortable,
}

/// How much shared memory a block may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SharedMemoryMode {
    /// As the function's attributes say.
    #[default]
    Default,
    /// As much as every device of the capability has.
    RequirePortable,
    /// As much as this device has.
    AllowNonPortable,
}

/// A domain in which the fences of a kernel count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemSyncDomain {
    /// That of most kernels.
    #[default]
    Default,
    /// That of kernels whose fences need not wait for the others.
    Remote,
}

/// As many as CUDA 13.5 knows.
const MOST: usize = 17;

// The union of the values is as long as the driver expects, whichever header the bindings are of.
const _: () = assert!(size_of::<CUlaunchAttributeValue>() == 64);
const _: () = assert!(size_of::<CUlaunchAttribute>() == 72);

/// Attributes of a launch, for [`Stream::launch_with`](crate::Stream::launch_with).
///
/// Each method adds one, or replaces it. Nothing is dropped silently: what the device or the driver
/// does not know, or does not allow together, is an error of the launch.
///
/// ```
/// use cuda_driver::LaunchAttributes;
///
/// let attributes = LaunchAttributes::new().cluster((2, 1, 1)).priority(-1);
/// ```
#[derive(Clone)]
pub struct LaunchAttributes<'a> {
    list: [CUlaunchAttribute; MOST],
    len: usize,
    /// The blocks of a cluster, to check the grid.
    cluster: Option<Dim3>,
    /// Whose the events and views are.
    context: Option<Context>,
    /// Something is of another context than something else.
    mixed: Option<&'static str>,
    borrows: PhantomData<&'a ()>,
}

impl<'a> LaunchAttributes<'a> {
    /// No attributes.
    #[must_use]
    pub fn new() -> Self {
        let none = CUlaunchAttribute {
            id: Id::CU_LAUNCH_ATTRIBUTE_IGNORE,
            pad: [0; 4],
            value: CUlaunchAttributeValue { pad: [0; 64] },
        };
        Self {
            list: [none; MOST],
            len: 0,
            cluster: None,
            context: None,
            mixed: None,
            borrows: PhantomData,
        }
    }

    /// All blocks run at the same time, so that they can wait for each other.
    #[must_use]
    pub fn cooperative(self) -> Self {
        self.with(Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1_i32)
    }

    /// Blocks run in clusters of this shape, which share their shared memory (compute capability
    /// 9.0 on). The grid is a multiple of it in each dimension.
    #[must_use]
    pub fn cluster(mut self, blocks: impl Into<Dim3>) -> Self {
        let blocks = blocks.into();
        self.cluster = Some(blocks);
        self.with(
            Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            dimensions(blocks),
        )
    }

    /// Clusters of this larger shape where they fit, of [`cluster`](Self::cluster) elsewhere (CUDA
    /// 12.8 on).
    #[must_use]
    pub fn preferred_cluster(self, blocks: impl Into<Dim3>) -> Self {
        let blocks = dimensions(blocks.into());
        self.with(Id::CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION, blocks)
    }

    /// How the clusters spread over the device.
    #[must_use]
    pub fn cluster_scheduling(self, policy: ClusterScheduling) -> Self {
        self.with(
            Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
            policy.raw(),
        )
    }

    /// Whether clusters may be of a size that not every device of this capability has (CUDA 13.2
    /// on).
    #[must_use]
    pub fn portable_cluster_mode(self, mode: PortableClusterMode) -> Self {
        self.with(
            Id::CU_LAUNCH_ATTRIBUTE_PORTABLE_CLUSTER_SIZE_MODE,
            mode.raw(),
        )
    }

    /// The kernel may start before the one that is queued before it has ended: programmatic
    /// dependent launch. It sees that kernel's writes only after `griddepcontrol.wait`
    /// (`cudaGridDependencySynchronize`), for which the caller of the launch answers.
    #[must_use]
    pub fn programmatic_serialization(self) -> Self {
        self.with(
            Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            1_i32,
        )
    }

    /// Records `event` when every block has called `griddepcontrol.launch_dependents` or has ended,
    /// or, `at_block_start`, has begun. The event keeps no time.
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

    /// Records `event` when every block has begun, nominally (CUDA 12.3 on). The event keeps no
    /// time.
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

    /// Another priority than its stream's: lower is more urgent.
    #[must_use]
    pub fn priority(self, priority: i32) -> Self {
        self.with(Id::CU_LAUNCH_ATTRIBUTE_PRIORITY, priority)
    }

    /// In which domain the kernel's fences count.
    #[must_use]
    pub fn mem_sync_domain(self, domain: MemSyncDomain) -> Self {
        self.with(Id::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, domain.raw())
    }

    /// Which hardware domains stand for the default and the remote domain.
    #[must_use]
    pub fn mem_sync_domain_map(self, default: u8, remote: u8) -> Self {
        let map = CUlaunchMemSyncDomainMap {
            default_: default,
            remote,
        };
        self.with(Id::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, map)
    }

    /// What the L2 cache does with accesses to `window`: of `hit_ratio` of them `hit`, of the rest
    /// `miss`.
    #[must_use]
    pub fn access_policy_window<T: DeviceRepr>(
        mut self,
        window: DeviceSlice<'a, T>,
        hit_ratio: f32,
        hit: AccessProperty,
        miss: AccessProperty,
    ) -> Self {
        self.of_context(
            window.memory.home().context(),
            "the window of an access policy",
        );
        let value = CUaccessPolicyWindow {
            base_ptr: ptr::with_exposed_provenance_mut(window.as_raw() as usize),
            num_bytes: window.len() * size_of::<T>(),
            hitRatio: hit_ratio,
            hitProp: hit.raw(),
            missProp: miss.raw(),
        };
        self.with(Id::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, value)
    }

    /// The share of the first-level cache that is shared memory, in percent; the driver may take
    /// more. CUDA 12.5 on.
    #[must_use]
    pub fn shared_memory_carveout(self, percent: u32) -> Self {
        self.with(
            Id::CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
            percent,
        )
    }

    /// How much shared memory a block may have beyond what every device has (CUDA 13.2 on).
    #[must_use]
    pub fn shared_memory_mode(self, mode: SharedMemoryMode) -> Self {
        self.with(Id::CU_LAUNCH_ATTRIBUTE_SHARED_MEMORY_MODE, mode.raw())
    }

    /// Spreads the blocks so that NVLink is used evenly (CUDA 13.0 on).
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
        // Never full: there is a method for each of fewer ids than there are places.
        let Some(place) = self.list.get_mut(index) else {
            return self;
        };
        place.id = id;
        place.value.pad = [0; 64];
        // Every value lies at the start of the union; which fields have names depends on the
        // header. SAFETY: there must be room for it, aligned ← asserted above.
        unsafe { ptr::from_mut(&mut place.value).cast::<V>().write(value) };
        self.len = self.len.max(index + 1);
        self
    }

    fn of_context(&mut self, context: &Context, what: &'static str) {
        match &self.context {
            Some(known) if known != context => self.mixed = Some(what),
            _ => self.context = Some(context.clone()),
        }
    }

    /// The attributes for a launch in `context`.
    pub(crate) fn for_launch(&self, context: &Context) -> Result<&[CUlaunchAttribute]> {
        if let Some(what) = self.mixed {
            return Err(Error::OtherContext { what });
        }
        if self.context.as_ref().is_some_and(|known| known != context) {
            let what = "an event or a view of the launch attributes";
            return Err(Error::OtherContext { what });
        }
        Ok(&self.list[..self.len])
    }

    /// The same for a launch that is captured.
    pub(crate) fn for_capture(&self, context: &Context) -> Result<&[CUlaunchAttribute]> {
        let is_event = self.has(Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
            || self.has(Id::CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT);
        if is_event {
            // It would stand for an edge of this capture, and be recorded by no launch of the
            // graph.
            return Err(Error::Unsupported {
                what: "an event in the attributes of a launch in a graph, where `programmatic_edge` and `launch_order_edge` of its node are its forms,",
            });
        }
        self.for_launch(context)
    }

    /// The same for a node that is added to a graph.
    pub(crate) fn for_node(&self, context: &Context) -> Result<&[CUlaunchAttribute]> {
        if self.has(Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
            return Err(Error::Unsupported {
                what: "programmatic serialization of a node, where `programmatic_edge` is its form,",
            });
        }
        self.for_capture(context)
    }

    fn has(&self, id: Id) -> bool {
        self.list[..self.len].iter().any(|it| it.id == id)
    }

    /// The blocks of a cluster, if that was set.
    pub(crate) fn cluster_blocks(&self) -> Option<Dim3> {
        self.cluster
    }
}

/// The value of `cuda.h` that each variant of an enum stands for.
macro_rules! raw {
    ($name:ident is $raw:ident: $($variant:ident = $constant:ident),*) => {
        impl $name {
            pub(crate) const fn raw(self) -> $raw {
                match self {
                    $(Self::$variant => $raw::$constant),*
                }
            }
        }
    };
}

pub(crate) use raw;

raw!(AccessProperty is CUaccessProperty:
    Normal = CU_ACCESS_PROPERTY_NORMAL,
    Streaming = CU_ACCESS_PROPERTY_STREAMING,
    Persisting = CU_ACCESS_PROPERTY_PERSISTING);
raw!(ClusterScheduling is CUclusterSchedulingPolicy:
    Default = CU_CLUSTER_SCHEDULING_POLICY_DEFAULT,
    Spread = CU_CLUSTER_SCHEDULING_POLICY_SPREAD,
    LoadBalancing = CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING);
raw!(PortableClusterMode is CUlaunchAttributePortableClusterMode:
    Default = CU_LAUNCH_PORTABLE_CLUSTER_MODE_DEFAULT,
    RequirePortable = CU_LAUNCH_PORTABLE_CLUSTER_MODE_REQUIRE_PORTABLE,
    AllowNonPortable = CU_LAUNCH_PORTABLE_CLUSTER_MODE_ALLOW_NON_PORTABLE);
raw!(SharedMemoryMode is CUsharedMemoryMode:
    Default = CU_SHARED_MEMORY_MODE_DEFAULT,
    RequirePortable = CU_SHARED_MEMORY_MODE_REQUIRE_PORTABLE,
    AllowNonPortable = CU_SHARED_MEMORY_MODE_ALLOW_NON_PORTABLE);
raw!(MemSyncDomain is CUlaunchMemSyncDomain:
    Default = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT,
    Remote = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);

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
        let ids = self.list[..self.len].iter().map(|attribute| attribute.id);
        f.debug_list().entries(ids).finish()
    }
}
