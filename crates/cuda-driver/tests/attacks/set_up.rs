//! Steps with which many programs start: kernels, and objects that are created without options.

use cuda_driver::graph::{Graph, GraphExec};
use cuda_driver::memory::PinnedCachingPool;
use cuda_driver::prelude::*;

use crate::support::{Case, Side};

/// `x[i] = 2 * x[i] + y[i]`
pub(crate) const MIX: &str = include_str!("../it/kernels/mix.ptx");
/// `out[i] = in[i]`
pub(crate) const COPY: &str = include_str!("../it/kernels/copy.ptx");
/// Kernels with variables in global and constant memory.
pub(crate) const VARIABLES: &str = include_str!("../it/kernels/variables.ptx");

/// A stream that is not ordered with the legacy stream.
pub(crate) fn stream(context: &Context) -> Stream {
    Stream::new(context, StreamFlags::NON_BLOCKING, 0).unwrap()
}

pub(crate) fn load(context: &Context, ptx: &str) -> Module {
    Module::load(context, &Ptx::new(ptx).unwrap()).unwrap()
}

impl Side {
    pub(crate) fn stream(&self) -> Stream {
        stream(&self.context)
    }

    pub(crate) fn event(&self) -> Event {
        Event::new(&self.context, EventFlags::DISABLE_TIMING).unwrap()
    }

    pub(crate) fn graph(&self) -> Graph {
        Graph::new(&self.context).unwrap()
    }

    pub(crate) fn pinned_pool(&self) -> PinnedCachingPool {
        PinnedCachingPool::new(&self.context, PinnedFlags::default())
    }
}

impl Case {
    /// Launches `exec` after a [delay](Case::hold_up).
    pub(crate) fn launch_late(&self, exec: &GraphExec, stream: &Stream) {
        self.hold_up(stream);
        exec.launch(stream).unwrap();
    }
}
