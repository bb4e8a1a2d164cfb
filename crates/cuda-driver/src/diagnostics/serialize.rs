//! Snapshots for machines, with serde.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::snapshot::{ModuleSnapshot, Snapshot, StreamSnapshot};
use crate::device::DeviceProperties;
use crate::error::{ErrorCount, ErrorHistory, RecordedError};
use crate::memory_ledger::{MemoryOrigin, MemoryReport, MemorySite};

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("Snapshot", 12)?;
        map.serialize_field("ordinal", &self.ordinal)?;
        map.serialize_field("device", &Device(&self.device))?;
        map.serialize_field("driver", &self.driver)?;
        map.serialize_field("memory", &self.memory)?;
        map.serialize_field("pool", &self.pool)?;
        map.serialize_field("contexts", &self.contexts)?;
        map.serialize_field("streams", &self.streams)?;
        map.serialize_field("modules", &self.modules)?;
        map.serialize_field("kernels", &self.kernels)?;
        map.serialize_field("held", &self.held.as_ref().map(Held))?;
        map.serialize_field("errors", &Errors(&self.errors))?;
        map.serialize_field("last_errors", &LastErrors(&self.errors))?;
        map.end()
    }
}

impl Serialize for ModuleSnapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("ModuleSnapshot", 2)?;
        map.serialize_field("handle", &self.handle)?;
        map.serialize_field("kernels", &self.kernels)?;
        map.end()
    }
}

impl Serialize for StreamSnapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let launches: Vec<&str> = self.launches.kernels().collect();
        let mut map = serializer.serialize_struct("StreamSnapshot", 4)?;
        map.serialize_field("handle", &self.handle)?;
        map.serialize_field("is_done", &self.is_done)?;
        map.serialize_field("launches", &launches)?;
        map.serialize_field("recent", &self.recent)?;
        map.end()
    }
}

struct Device<'a>(&'a DeviceProperties);

impl Serialize for Device<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let properties = self.0;
        let capability = properties.compute_capability;
        let mut map = serializer.serialize_struct("DeviceProperties", 6)?;
        map.serialize_field("name", &properties.name)?;
        map.serialize_field("uuid", &properties.uuid)?;
        map.serialize_field("pci_bus_id", &properties.pci_bus_id)?;
        map.serialize_field("compute_capability", &(capability.major, capability.minor))?;
        map.serialize_field("total_memory", &properties.total_memory)?;
        map.serialize_field("multiprocessor_count", &properties.multiprocessor_count)?;
        map.end()
    }
}

struct Held<'a>(&'a MemoryReport);

impl Serialize for Held<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sites: Vec<Site<'_>> = self.0.sites().iter().map(Site).collect();
        let pools: Vec<Origin<'_>> = self.0.pools().iter().map(Origin).collect();
        let mut map = serializer.serialize_struct("MemoryReport", 5)?;
        map.serialize_field("live", &self.0.live())?;
        map.serialize_field("peak", &self.0.peak())?;
        map.serialize_field("streams", self.0.streams())?;
        map.serialize_field("pools", &pools)?;
        map.serialize_field("sites", &sites)?;
        map.end()
    }
}

struct Origin<'a>(&'a MemoryOrigin);

impl Serialize for Origin<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("MemoryOrigin", 4)?;
        map.serialize_field("kind", &self.0.kind().to_string())?;
        map.serialize_field("pool", &self.0.pool())?;
        map.serialize_field("count", &self.0.count())?;
        map.serialize_field("bytes", &self.0.bytes())?;
        map.end()
    }
}

struct Site<'a>(&'a MemorySite);

impl Serialize for Site<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("MemorySite", 4)?;
        map.serialize_field("location", &self.0.location().to_string())?;
        map.serialize_field("kind", &self.0.kind().to_string())?;
        map.serialize_field("count", &self.0.count())?;
        map.serialize_field("bytes", &self.0.bytes())?;
        map.end()
    }
}

struct Errors<'a>(&'a ErrorHistory);

impl Serialize for Errors<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.counts().iter().map(Count))
    }
}

struct Count<'a>(&'a ErrorCount);

impl Serialize for Count<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("ErrorCount", 6)?;
        map.serialize_field("status", &self.0.status().0)?;
        map.serialize_field("name", &self.0.status().name())?;
        map.serialize_field("call", self.0.call().name)?;
        map.serialize_field("count", &self.0.count())?;
        map.serialize_field("first", &seconds(self.0.first()))?;
        map.serialize_field("last", &seconds(self.0.last()))?;
        map.end()
    }
}

struct LastErrors<'a>(&'a ErrorHistory);

impl Serialize for LastErrors<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.errors().iter().map(LastError))
    }
}

struct LastError<'a>(&'a RecordedError);

impl Serialize for LastError<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let error = self.0.error();
        let mut map = serializer.serialize_struct("RecordedError", 7)?;
        map.serialize_field("status", &error.status().0)?;
        map.serialize_field("name", &error.status().name())?;
        map.serialize_field("call", error.call().name)?;
        map.serialize_field("device", &error.device())?;
        map.serialize_field("time", &seconds(self.0.time()))?;
        map.serialize_field("thread", &format!("{:?}", self.0.thread()))?;
        map.serialize_field("backtrace", &self.0.backtrace().map(ToString::to_string))?;
        map.end()
    }
}

/// Returns the seconds since 1970.
fn seconds(time: SystemTime) -> f64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}
