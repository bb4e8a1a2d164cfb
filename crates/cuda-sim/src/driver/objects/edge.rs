//! The data of an edge of a graph, which an event of a capture also records.

use cuda_sys::CUgraphEdgeData;

use crate::driver::arg::In;
use crate::driver::status::{INVALID_VALUE, Status};

/// The data of an edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::driver) struct Edge {
    from_port: u8,
    to_port: u8,
    kind: u8,
}

impl Edge {
    /// Reads element `index` of an array that may be null; a null array has default elements.
    pub(in crate::driver) fn read(data: In<CUgraphEdgeData>, index: usize) -> Status<Self> {
        if data.raw().is_null() {
            return Ok(Self::default());
        }
        let data = data.get_at(index)?;
        if data.reserved != [0; 5] || data.from_port > 2 || data.to_port != 0 || data.type_ > 1 {
            return Err(INVALID_VALUE);
        }
        Ok(Self {
            from_port: data.from_port,
            to_port: data.to_port,
            kind: data.type_,
        })
    }

    pub(in crate::driver) fn raw(self) -> CUgraphEdgeData {
        CUgraphEdgeData {
            from_port: self.from_port,
            to_port: self.to_port,
            type_: self.kind,
            reserved: [0; 5],
        }
    }

    pub(in crate::driver) fn is_default(self) -> bool {
        self == Self::default()
    }
}
