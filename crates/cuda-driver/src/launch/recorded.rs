//! Launches that an eager capture captures instead of queueing them: see
//! [`EagerCapture`](crate::graph::EagerCapture).

use super::conflict::expect_no_array_conflict;
use super::tracked::Keep;
use super::{KernelArgs, LaunchAttributes, LaunchConfig, Values};
use crate::error::Result;
use crate::function::Function;
use crate::memory::{RecordedMemory, RecordedUse, Recorder};
use crate::stream::Stream;

impl Stream {
    /// Captures a launch.
    ///
    /// # Safety
    ///
    /// The requirements of [`queue`](Self::queue) apply to each launch of the graph.
    pub(super) unsafe fn record<A: KernelArgs>(
        &self,
        recorder: &dyn Recorder,
        function: &Function,
        config: &LaunchConfig,
        attributes: Option<&LaunchAttributes<'_>>,
        args: &A,
    ) -> Result<()> {
        let cluster = attributes.and_then(LaunchAttributes::cluster_blocks);
        let attributes = match attributes {
            Some(attributes) => {
                function.check_cluster(config, attributes.cluster_blocks())?;
                Some(attributes.for_capture(self.context())?)
            }
            None => None,
        };
        let recorded = recorder.call(recorded_uses(args)?, Some(function), &mut |on| {
            args.with_pointers(|pointers| {
                let values = Values::pointers(pointers);
                match attributes {
                    // SAFETY: there must be a pointer to a value of each parameter's size, and the
                    // kernel must use only its memory ← the caller guarantees both.
                    None => unsafe { on.call_launch(function, config, values) },
                    // SAFETY: as above.
                    Some(attributes) => unsafe {
                        on.call_launch_ex(function, config, attributes, values)
                    },
                }
            })
        });
        recorded.map_err(|error| function.node_error(error, config, cluster))
    }
}

/// Returns the uses of memory for a recorder.
pub(super) fn recorded_uses<A: KernelArgs>(args: &A) -> Result<Vec<RecordedUse>> {
    expect_no_array_conflict(args)?;
    let mut uses = Vec::new();
    args.each_tracked(&mut |tracked| {
        uses.push(RecordedUse {
            memory: match tracked.memory {
                Some(memory) => RecordedMemory::of(memory),
                None => RecordedMemory::OfGraph(tracked.graph),
            },
            access: tracked.access,
            address: tracked.address,
            bytes: tracked.bytes,
            kept: tracked.kept.map(Keep::keep),
        });
        Ok(())
    })?;
    Ok(uses)
}
