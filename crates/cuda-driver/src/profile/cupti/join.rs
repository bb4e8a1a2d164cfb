//! The records of CUPTI as parts of a profile: the times of the calls that were observed, the nodes
//! of graphs, and the work of other code.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::result::{Operation, Origin, Profile};
use super::records::{Activity, Records};
use super::session::Session;
use crate::context::Context;
use crate::error::Result;
use crate::stream::Stream;
use crate::stream_state::{LEGACY, PER_THREAD};
use crate::types::WorkKind;

/// The records that belong to a profiler.
pub(in super::super) struct Scope {
    /// The id of the context.
    context: u32,
    /// The id of the stream, if only one is observed.
    stream: Option<u32>,
    /// The time of CUPTI's clock at the start of the profiler.
    zero: u64,
}

impl Scope {
    /// Returns the records of `context`, or those of `stream` only. `now` is the time since the
    /// start of the profiler in nanoseconds.
    pub(in super::super) fn new(
        session: &Session,
        context: &Context,
        stream: Option<&Stream>,
        now: impl Fn() -> u64,
    ) -> Result<Self> {
        let zero = session.now()?.saturating_sub(now());
        let raw = context.as_raw();
        // SAFETY: the context must be alive ← it is borrowed.
        let id = unsafe { session.context_id(raw) }?;
        let stream = match stream {
            None => None,
            Some(stream) => {
                let handle = stream.as_raw();
                let per_thread = handle.addr() == PER_THREAD;
                let handle = match handle.addr() {
                    LEGACY | PER_THREAD => std::ptr::null_mut(),
                    _ => handle,
                };
                // SAFETY: context and stream must be alive ← both are borrowed.
                Some(unsafe { session.stream_id(raw, handle, per_thread) }?)
            }
        };
        Ok(Self {
            context: id,
            stream,
            zero,
        })
    }

    /// Returns the time since the start of the profiler.
    fn time(&self, time: u64) -> i64 {
        time.cast_signed() - self.zero.cast_signed()
    }

    /// Returns the start and the duration of the work of one call.
    fn run(&self, parts: &[Activity]) -> Option<(i64, u64)> {
        let start = parts.iter().map(|it| it.start).min()?;
        let end = parts.iter().map(|it| it.end).max()?;
        Some((self.time(start), end - start))
    }

    /// Adds the records to a profile.
    pub(in super::super) fn add_to(&self, profile: &mut Profile, session: &Session) {
        let Records {
            activities,
            kernels,
            ..
        } = session.records();
        for (name, kernel) in kernels {
            profile.kernels.entry(name).or_insert(kernel);
        }
        let mut by_call: HashMap<u32, Vec<Activity>> = HashMap::new();
        let own = activities
            .into_iter()
            .filter(|it| it.context == self.context && it.start >= self.zero);
        for activity in own {
            by_call
                .entry(activity.correlation)
                .or_default()
                .push(activity);
        }
        // The index of the row of each stream.
        let mut rows: HashMap<u32, u32> = HashMap::new();
        let mut nodes = Nodes::default();
        for index in 0..profile.operations.len() {
            let Some(operation) = profile.operations.get_mut(index) else {
                break;
            };
            // No record has the id 0.
            let Some(parts) = by_call.remove(&operation.correlation) else {
                continue;
            };
            operation.run = self.run(&parts);
            if operation.kind == WorkKind::Graph {
                let launch = operation.clone();
                nodes.add(profile, self, &launch, parts);
            } else if let Some(part) = parts.first() {
                rows.insert(part.stream, operation.stream);
            }
        }
        let mut others: Vec<_> = by_call.into_values().flatten().collect();
        others.retain(|it| self.stream.is_none_or(|stream| it.stream == stream));
        others.sort_by_key(|it| it.start);
        if !others.is_empty() {
            self.add_others(profile, &mut rows, others);
        }
    }

    /// Adds the work of other code.
    fn add_others(
        &self,
        profile: &mut Profile,
        rows: &mut HashMap<u32, u32>,
        others: Vec<Activity>,
    ) {
        let thread = profile.threads.len() as u32;
        profile.threads.push("other code".to_owned());
        for activity in others {
            let row = *rows.entry(activity.stream).or_insert_with(|| {
                let name = format!("stream of other code, id {}", activity.stream);
                profile.streams.push(name);
                profile.streams.len() as u32 - 1
            });
            let run = self.run(std::slice::from_ref(&activity));
            profile.operations.push(Operation {
                kind: activity.kind,
                origin: Origin::OtherCode,
                correlation: activity.correlation,
                name: activity.name,
                stream: row,
                thread,
                range: None,
                bytes: activity.bytes,
                queued: run.map_or(0, |(start, _)| start.max(0).unsigned_abs()),
                call: 0,
                run,
            });
        }
    }
}

/// The rows of the nodes of graphs. Nodes that overlap are in different rows.
#[derive(Default)]
struct Nodes {
    /// For each stream, the rows and the end of the last node in each.
    rows: HashMap<u32, Vec<(u32, u64)>>,
}

impl Nodes {
    /// Adds the nodes of a launch.
    fn add(
        &mut self,
        profile: &mut Profile,
        scope: &Scope,
        launch: &Operation,
        mut parts: Vec<Activity>,
    ) {
        parts.sort_by_key(|it| (it.start, it.end));
        let rows = self.rows.entry(launch.stream).or_default();
        for part in parts {
            let free = rows.iter_mut().find(|(_, end)| *end <= part.start);
            let row = match free {
                Some((row, end)) => {
                    *end = part.end;
                    *row
                }
                None => {
                    let stream = profile.streams.get(launch.stream as usize);
                    let stream = stream.map_or("a stream", String::as_str);
                    let name = match rows.len() {
                        0 => format!("graph nodes of {stream}"),
                        count => format!("graph nodes of {stream} ({})", count + 1),
                    };
                    let row = profile.streams.len() as u32;
                    profile.streams.push(name);
                    rows.push((row, part.end));
                    row
                }
            };
            let run = scope.run(std::slice::from_ref(&part));
            profile.operations.push(Operation {
                kind: part.kind,
                origin: Origin::GraphNode,
                name: Arc::clone(&part.name),
                stream: row,
                bytes: part.bytes,
                call: 0,
                run,
                ..launch.clone()
            });
        }
    }
}
