//! Execution of a grid.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::address::{PARAM, Window};
use super::block::Turn;
use super::check::Findings;
use super::cluster::{Cluster, MAX_BLOCKS};
use super::fault::{Fault, FaultKind};
use super::helpers::{Helpers, Work, any_waiting};
use super::image::Image;
use super::lane_fault::LaneFault;
use super::launch_params::LaunchParams;
use super::program::product;
use super::space::{Env, RESERVED_SHARED_ALIGN, RESERVED_SHARED_BYTES};
use super::warp::{Fragment, Warp};
use crate::lock::{lock, wait};

/// The statistics of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchStats {
    /// Instructions, counted once per warp.
    pub warp_instructions: u64,
    /// Instructions, counted once per participating lane.
    pub lane_instructions: u64,
}

/// The number of instructions that a block of a cooperative launch runs before another one gets a
/// turn.
const COOPERATIVE_SLICE: u64 = 1 << 14;
/// The number of instructions that a block runs before another block gets a turn, in case it waits
/// for that block.
const BLOCK_SLICE: u64 = 1 << 24;
/// The largest number of threads in a block.
const MAX_THREADS: u64 = 1024;
/// The largest amount of shared memory of a block, in bytes.
const MAX_SHARED: i32 = 227 << 10;

static GRID_ID: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// Reusable clusters, left by earlier launches on this thread.
    static SPARE: RefCell<Vec<Cluster>> = const { RefCell::new(Vec::new()) };
}

fn spare_cluster() -> Cluster {
    SPARE
        .try_with(|spare| spare.borrow_mut().pop())
        .ok()
        .flatten()
        .unwrap_or_default()
}

fn keep_spare(cluster: Cluster) {
    // The thread-local storage is gone while the thread ends; in that case the cluster is dropped.
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < 4 {
            spare.push(cluster);
        }
    });
}

/// The state that the host threads working on a launch share.
struct Shared<'a> {
    env: &'a Env<'a>,
    image: &'a Image,
    clusters: u64,
    next: AtomicU64,
    /// Clusters that have started and wait for another turn.
    waiting: Mutex<VecDeque<(u64, Cluster)>>,
    /// Notified when a cluster is put back into `waiting`, and at the end of the launch.
    put_back: Condvar,
    unfinished: AtomicU64,
    stop: AtomicBool,
    fault: Mutex<Option<Fault>>,
    warp_instructions: AtomicU64,
    lane_instructions: AtomicU64,
}

/// Runs kernel number `kernel` of `image` to completion.
///
/// # Errors
///
/// The first [`Fault`] of any thread. Other blocks stop soon after it; their writes remain.
#[expect(
    clippy::result_large_err,
    reason = "a launch fails once, and its caller keeps the fault"
)]
pub fn launch(
    image: &Image,
    kernel: usize,
    params: &LaunchParams<'_>,
) -> Result<LaunchStats, Fault> {
    let program = image.program();
    let Some(info) = program.kernels().get(kernel) else {
        let message = format!("kernel number {kernel} does not exist");
        return Err(Fault::before_start(FaultKind::InvalidValue, "?", message));
    };
    let refuse = |kind, message| Err(Fault::before_start(kind, &info.name, message));
    let threads = product(params.block);
    let blocks = params
        .grid
        .iter()
        .try_fold(1u64, |all, &n| all.checked_mul(u64::from(n)));
    let Some(blocks) = blocks.filter(|&blocks| blocks > 0 && threads > 0) else {
        let message = format!(
            "the grid {:?} of blocks {:?} is empty or too large",
            params.grid, params.block
        );
        return refuse(FaultKind::InvalidValue, message);
    };
    if threads > MAX_THREADS || params.block[2] > 64 {
        let message = format!(
            "a block of {threads} threads is too large: the limits are {MAX_THREADS} in all and 64 \
             along z"
        );
        return refuse(FaultKind::InvalidValue, message);
    }
    if info.most_threads().is_some_and(|most| threads > most) {
        let message = format!("a block of {threads} threads exceeds the kernel's `.maxntid`");
        return refuse(FaultKind::InvalidValue, message);
    }
    if info
        .required_threads
        .is_some_and(|required| required != params.block)
    {
        let message = format!(
            "the block {:?} is not the one that the kernel's `.reqntid` requires",
            params.block
        );
        return refuse(FaultKind::InvalidValue, message);
    }
    let cluster = params.cluster.or(info.cluster).unwrap_or([1; 3]);
    let fits =
        [0, 1, 2].map(|axis| cluster[axis] > 0 && params.grid[axis].is_multiple_of(cluster[axis]));
    let many = product(cluster);
    if fits.contains(&false) || many > MAX_BLOCKS.into() || !info.takes_cluster(cluster) {
        let message = format!(
            "clusters of {cluster:?} blocks are too large, do not divide the grid {:?}, or contradict \
             the kernel's directives",
            params.grid
        );
        return refuse(FaultKind::InvalidValue, message);
    }
    let clusters = blocks / many;
    if params.params.len() < info.param_bytes as usize {
        let message = format!(
            "the launch has {} bytes of parameters, but the kernel needs {}",
            params.params.len(),
            info.param_bytes
        );
        return refuse(FaultKind::InvalidValue, message);
    }
    if i64::from(params.dynamic_shared) > info.dynamic_room(MAX_SHARED).into() {
        let message = format!(
            "{} bytes of static and {} bytes of dynamic shared memory exceed the limit of {MAX_SHARED}",
            info.static_shared, params.dynamic_shared
        );
        return refuse(FaultKind::InvalidValue, message);
    }
    let static_shared = info.dynamic_start();
    let shared_bytes = static_shared + params.dynamic_shared;
    let reserved_shared = shared_bytes.next_multiple_of(RESERVED_SHARED_ALIGN);
    let mut buffer = vec![0u128; params.params.len().div_ceil(16)];
    for (word, bytes) in buffer.iter_mut().zip(params.params.chunks(16)) {
        let mut whole = [0; 16];
        whole[..bytes.len()].copy_from_slice(bytes);
        *word = u128::from_le_bytes(whole);
    }
    // `[0]` counts the blocks that arrived at a grid barrier, `[1]` is its state.
    let mut workspace = [0u128; 4];
    let findings = Findings::new(params.checks);
    let env = Env {
        program,
        kernel,
        launch: params,
        params: Window {
            start: PARAM,
            len: params.params.len() as u64,
            host: buffer.as_mut_ptr().expose_provenance() as u64,
        },
        grid_id: GRID_ID.fetch_add(1, Ordering::Relaxed),
        workspace: if params.cooperative {
            workspace.as_mut_ptr().expose_provenance() as u64
        } else {
            0
        },
        workspace_bytes: size_of_val(&workspace) as u64,
        static_shared,
        shared_bytes,
        reserved_shared,
        shared_end: if info.reserved_shared {
            reserved_shared + RESERVED_SHARED_BYTES
        } else {
            shared_bytes
        },
        cluster,
        explicit_cluster: params.cluster.or(info.cluster).is_some(),
        findings: &findings,
        newer: Mutex::default(),
    };
    let shared = Shared {
        env: &env,
        image,
        clusters,
        next: AtomicU64::new(0),
        waiting: Mutex::new(VecDeque::new()),
        put_back: Condvar::new(),
        unfinished: AtomicU64::new(clusters),
        stop: AtomicBool::new(false),
        fault: Mutex::new(None),
        warp_instructions: AtomicU64::new(0),
        lane_instructions: AtomicU64::new(0),
    };
    let workers = match params.threads {
        0 if clusters > 1 => rayon::current_num_threads(),
        threads => threads,
    };
    let workers = workers.min(usize::try_from(clusters).unwrap_or(usize::MAX));
    if workers <= 1 {
        shared.work(|| false);
    } else {
        shared.work_with(workers - 1);
    }
    let fault = lock(&shared.fault).take();
    let stats = LaunchStats {
        warp_instructions: shared.warp_instructions.load(Ordering::Relaxed),
        lane_instructions: shared.lane_instructions.load(Ordering::Relaxed),
    };
    findings.into_reports().for_each(params.report);
    fault.map_or(Ok(stats), Err)
}

impl Work for Shared<'_> {
    fn help(&self) {
        self.work(any_waiting);
    }

    fn useful_helpers(&self) -> usize {
        // One thread for each cluster, and one of them is the thread of the launch.
        let clusters = self.unfinished.load(Ordering::Relaxed).saturating_sub(1);
        usize::try_from(clusters).unwrap_or(usize::MAX)
    }
}

impl Shared<'_> {
    /// Runs clusters until none is left, with the help of up to `most` threads of the pool.
    fn work_with(&self, most: usize) {
        /// The interval after which a launch asks again for helpers that have left.
        const AGAIN: Duration = Duration::from_millis(10);
        Helpers::run(self, most, |helpers| {
            helpers.request(self.useful_helpers());
            let asked = Cell::new(Instant::now());
            let is_enough = || {
                if asked.get().elapsed() > AGAIN && !any_waiting() {
                    asked.set(Instant::now());
                    helpers.request(self.useful_helpers());
                }
                false
            };
            loop {
                self.work(is_enough);
                // Helpers run all remaining clusters, and may put some of them back.
                let mut waiting = self.waiting();
                while waiting.is_empty() && !self.is_over() {
                    waiting = wait(&self.put_back, waiting);
                }
                if self.is_over() {
                    return;
                }
            }
        });
    }

    /// Whether no cluster is left to run.
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.unfinished.load(Ordering::Acquire) == 0
    }

    /// Wakes the thread that waits for the end of the launch.
    fn wake(&self) {
        // The thread checks `is_over` under this lock before it sleeps, so it misses no wake-up.
        drop(self.waiting());
        self.put_back.notify_all();
    }

    /// Runs clusters until all that are left run on other threads, or until `is_enough` returns
    /// true between two turns. Any number of threads may call this concurrently.
    fn work(&self, is_enough: impl Fn() -> bool) {
        let params = self.env.launch;
        let slice = if params.cooperative {
            COOPERATIVE_SLICE
        } else {
            BLOCK_SLICE
        };
        // A turn must not run far beyond the instruction limit.
        let limit = params.instruction_limit.unwrap_or(u64::MAX);
        let slice = slice.min(limit.saturating_add(1));
        let mut spare = Some(spare_cluster());
        while !self.is_over() {
            let Some((index, mut cluster)) = self.take(&mut spare) else {
                break;
            };
            let mut budget = slice;
            let turn = cluster.turn(self.env, &mut budget);
            let (warp_instructions, lane_instructions) = cluster.take_counts();
            self.warp_instructions
                .fetch_add(warp_instructions, Ordering::Relaxed);
            self.lane_instructions
                .fetch_add(lane_instructions, Ordering::Relaxed);
            match turn {
                Ok(Turn::Done) => {
                    cluster.finish(self.env);
                    if self.unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
                        self.wake();
                    }
                    spare = Some(cluster);
                    continue;
                }
                Ok(Turn::More | Turn::Stuck) => {}
                Err(stopped) => {
                    let (block, warp, lane_fault) = *stopped;
                    self.fail(self.fault_at(cluster.warp(block, warp), &lane_fault));
                    return;
                }
            }
            let cancelled = params
                .cancel
                .is_some_and(|cancel| cancel.load(Ordering::Relaxed));
            if cancelled || cluster.executed() > limit {
                let message = if cancelled {
                    "the launch was cancelled".to_owned()
                } else {
                    format!(
                        "a block has executed {limit} instructions, the instruction limit of the \
                         software device; raise it with `Builder::instruction_limit` or \
                         `CUDA_SIM=limit=…`, or switch it off for kernels that run indefinitely, with \
                         `Builder::without_instruction_limit` or `CUDA_SIM=limit=off`"
                    )
                };
                let lane_fault = LaneFault::new(FaultKind::Timeout, 1, message);
                self.fail(self.fault_at(cluster.warp(0, 0), &lane_fault));
                return;
            }
            self.waiting().push_back((index, cluster));
            self.put_back.notify_all();
            if is_enough() {
                break;
            }
        }
        if let Some(cluster) = spare {
            keep_spare(cluster);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<(u64, Cluster)>> {
        lock(&self.waiting)
    }

    /// Returns the number of the next cluster that has not started, unless as many clusters as may
    /// be resident have started and not ended.
    fn start_next(&self) -> Option<u64> {
        if self.next.load(Ordering::Relaxed) >= self.clusters {
            return None;
        }
        let Some(most) = self.env.launch.resident_clusters else {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            return (index < self.clusters).then_some(index);
        };
        self.next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                let ended = self.clusters - self.unfinished.load(Ordering::Relaxed);
                let is_room = next.saturating_sub(ended) < most;
                (next < self.clusters && is_room).then_some(next + 1)
            })
            .ok()
    }

    /// The next cluster to run: a new one or, if there is none, the one that has waited longest.
    fn take(&self, spare: &mut Option<Cluster>) -> Option<(u64, Cluster)> {
        if let Some(index) = self.start_next() {
            let mut cluster = spare.take().unwrap_or_default();
            cluster.reset(self.env, self.image, index);
            return Some((index, cluster));
        }
        self.waiting().pop_front()
    }

    fn fail(&self, fault: Fault) {
        let mut first = lock(&self.fault);
        first.get_or_insert(fault);
        self.stop.store(true, Ordering::Relaxed);
        self.wake();
    }

    fn fault_at(&self, warp: &Warp, lane_fault: &LaneFault) -> Fault {
        let program = self.env.program;
        let lane = lane_fault.lane as usize;
        let at = warp
            .fragments
            .iter()
            .find(|part| part.mask >> lane & 1 != 0);
        let pc = at.map_or(0, Fragment::standing);
        let thread = [0, 1, 2].map(|axis| warp.tid[axis][lane]);
        Fault {
            kind: lane_fault.kind,
            kernel: program.kernels[self.env.kernel].name.clone(),
            at: program.place(self.env.kernel, pc, warp.ctaid, thread),
            access: lane_fault.more.access,
            detail: lane_fault.more.detail.clone(),
            message: lane_fault.message.clone(),
        }
    }
}
