//! The number of live objects.

use std::fmt;

/// The number of live objects of each kind: see [`Simulator::live`](crate::Simulator::live).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Live {
    /// Contexts, including primary ones.
    pub contexts: usize,
    /// Streams.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// Imported memory of other APIs.
    pub external_memory: usize,
    /// Imported semaphores of other APIs.
    pub external_semaphores: usize,
    /// Modules, without those that belong to libraries.
    pub modules: usize,
    /// Libraries.
    pub libraries: usize,
    /// Graphs that the program owns: created, cloned or captured.
    pub graphs: usize,
    /// Executable graphs.
    pub graph_execs: usize,
    /// User objects whose destructor has not run.
    pub user_objects: usize,
    /// Links in progress.
    pub links: usize,
    /// Memory pools that the program created.
    pub pools: usize,
    /// Arrays, without the levels of mipmapped arrays.
    pub arrays: usize,
    /// Mipmapped arrays.
    pub mipmapped_arrays: usize,
    /// Texture objects.
    pub textures: usize,
    /// Surface objects.
    pub surfaces: usize,
    /// Device and managed allocations.
    pub allocations: usize,
    /// The total requested size of these allocations in bytes.
    pub bytes: u64,
    /// Physical allocations whose handles are held (`cuMemCreate`).
    pub physical: usize,
    /// The total size of these physical allocations in bytes.
    pub physical_bytes: u64,
    /// Reserved address ranges (`cuMemAddressReserve`).
    pub address_ranges: usize,
    /// Pinned and registered ranges of host memory.
    pub host_allocations: usize,
    /// The total requested size of these ranges in bytes.
    pub host_bytes: u64,
}

impl Live {
    /// Returns whether no object is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing is live");
        }
        let counts = [
            (self.contexts, "contexts"),
            (self.streams, "streams"),
            (self.events, "events"),
            (self.external_memory, "external memory objects"),
            (self.external_semaphores, "external semaphores"),
            (self.modules, "modules"),
            (self.libraries, "libraries"),
            (self.graphs, "graphs"),
            (self.graph_execs, "executable graphs"),
            (self.user_objects, "user objects"),
            (self.links, "links"),
            (self.pools, "pools"),
            (self.arrays, "arrays"),
            (self.mipmapped_arrays, "mipmapped arrays"),
            (self.textures, "textures"),
            (self.surfaces, "surfaces"),
            (self.address_ranges, "address ranges"),
        ];
        f.write_str("live:")?;
        for (count, name) in counts.iter().filter(|(count, _)| *count > 0) {
            write!(f, " {count} {name}")?;
        }
        for (count, bytes, name) in [
            (self.allocations, self.bytes, "allocations"),
            (self.physical, self.physical_bytes, "physical allocations"),
            (self.host_allocations, self.host_bytes, "host allocations"),
        ] {
            if count > 0 {
                write!(f, " {count} {name} of {bytes} bytes")?;
            }
        }
        Ok(())
    }
}
