//! Random graphs, explicit and captured, compared with a sequential model.

use cuda_sys::{CUdeviceptr, CUfunction, CUgraph, CUgraphNode, CUstream};

use crate::graph_support::{WORDS, bytes, words};
use crate::support::{TestDevice, late, ok, test_device};

const WORDS_IN_ALL: usize = 6;

/// An operation on words.
#[derive(Clone, Copy, Debug)]
enum Op {
    Fill(usize, u32),
    Copy(usize, usize),
    Affine(usize, u32, u32),
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

impl Op {
    fn random(dice: &mut Dice) -> Self {
        let (one, two) = (dice.below(WORDS_IN_ALL), dice.below(WORDS_IN_ALL));
        match dice.below(3) {
            0 => Self::Fill(one, dice.below(100) as u32),
            1 => Self::Copy(one, two),
            _ => Self::Affine(one, dice.below(9) as u32, dice.below(9) as u32),
        }
    }

    fn touches(self) -> [usize; 2] {
        match self {
            Self::Fill(one, _) | Self::Affine(one, ..) => [one, one],
            Self::Copy(one, two) => [one, two],
        }
    }

    fn model(self, words: &mut [u32]) {
        match self {
            Self::Fill(at, value) => words[at] = value,
            Self::Copy(to, from) => words[to] = words[from],
            Self::Affine(at, factor, term) => {
                words[at] = words[at].wrapping_mul(factor).wrapping_add(term);
            }
        }
    }

    fn add(
        self,
        sim: &TestDevice,
        place: (CUgraph, &[CUgraphNode]),
        data: CUdeviceptr,
        affine: CUfunction,
    ) -> CUgraphNode {
        let (graph, after) = place;
        let addr = |word: usize| data + 4 * word as u64;
        match self {
            Self::Fill(at, value) => sim.fill(graph, after, words(addr(at), value, 1)),
            Self::Copy(to, from) => sim.copy(graph, after, bytes(addr(to), addr(from), 4)),
            Self::Affine(at, factor, term) => {
                let mut params = [addr(at), u64::from(factor), u64::from(term)];
                sim.kernel(graph, after, affine, &mut params)
            }
        }
    }

    fn queue(self, sim: &TestDevice, stream: CUstream, data: CUdeviceptr, affine: CUfunction) {
        let addr = |word: usize| data + 4 * word as u64;
        unsafe {
            match self {
                Self::Fill(at, value) => ok(sim.cuMemsetD32Async(addr(at), value, 1, stream)),
                Self::Copy(to, from) => {
                    ok(sim.cuMemcpyDtoDAsync_v2(addr(to), addr(from), 4, stream));
                }
                Self::Affine(at, factor, term) => {
                    let mut params = [addr(at), u64::from(factor), u64::from(term)];
                    ok(sim.launch(affine, [1, 1], stream, &mut params));
                }
            }
        }
    }
}

#[test]
fn random_graphs_run_in_the_order_of_their_edges() {
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let sim = test_device(late(seed));
        let affine = sim.function(sim.load(WORDS), "affine");
        let data = sim.upload(&[1_u32; WORDS_IN_ALL]);
        let graph = sim.graph();
        let mut model = [1_u32; WORDS_IN_ALL];
        let mut nodes: Vec<(CUgraphNode, Op)> = Vec::new();
        for _ in 0..20 {
            let op = Op::random(&mut dice);
            let conflicts = |other: &Op| {
                op.touches()
                    .iter()
                    .any(|word| other.touches().contains(word))
            };
            let after: Vec<CUgraphNode> = nodes
                .iter()
                .filter(|(_, other)| conflicts(other) || dice.below(8) == 0)
                .map(|&(node, _)| node)
                .collect();
            nodes.push((op.add(&sim, (graph, &after), data, affine), op));
        }
        let exec = sim.instantiate(graph);
        let streams = [sim.stream(1), sim.stream(0)];
        for round in 0..3 {
            unsafe { ok(sim.cuGraphLaunch(exec, streams[round % 2])) };
            nodes.iter().for_each(|(_, op)| op.model(&mut model));
        }
        ok(sim.sync());
        assert_eq!(
            sim.download::<u32>(data, WORDS_IN_ALL),
            model,
            "seed {seed}"
        );
    }
}

#[test]
fn a_capture_is_the_same_as_the_graph_built() {
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let sim = test_device(late(seed));
        let affine = sim.function(sim.load(WORDS), "affine");
        let data = sim.upload(&[1_u32; WORDS_IN_ALL]);
        let mut model = [1_u32; WORDS_IN_ALL];
        let streams: Vec<CUstream> = (0..3).map(|_| sim.stream(1)).collect();
        let event = sim.event(2);
        // The nodes on which the next node of each stream depends.
        let mut tails: [Vec<CUgraphNode>; 3] = Default::default();
        let join = |tails: &mut [Vec<CUgraphNode>; 3], from: usize, to: usize| unsafe {
            ok(sim.cuEventRecord(event, streams[from]));
            ok(sim.cuStreamWaitEvent(streams[to], event, 0));
            let more: Vec<CUgraphNode> = tails[from].clone();
            tails[to].extend(more);
            tails[to].sort_unstable();
            tails[to].dedup();
        };
        sim.begin(streams[0]);
        (1..3).for_each(|other| join(&mut tails, 0, other));
        let built = sim.graph();
        // A single chain that moves from stream to stream.
        let mut here = 0;
        for _ in 0..16 {
            let next = dice.below(3);
            if next != here {
                join(&mut tails, here, next);
                here = next;
            }
            let op = Op::random(&mut dice);
            op.queue(&sim, streams[here], data, affine);
            tails[here] = vec![op.add(&sim, (built, &tails[here]), data, affine)];
            op.model(&mut model);
        }
        (1..3).for_each(|other| join(&mut tails, other, 0));
        let captured = sim.end(streams[0]).unwrap();
        assert_eq!(
            sim.download::<u32>(data, WORDS_IN_ALL),
            [1; WORDS_IN_ALL],
            "nothing ran"
        );
        assert_eq!(sim.sorts(captured), sim.sorts(built), "seed {seed}");
        assert_eq!(sim.edges(captured), sim.edges(built), "seed {seed}");
        for graph in [captured, built] {
            unsafe { ok(sim.cuMemsetD32_v2(data, 1, WORDS_IN_ALL)) };
            ok(sim.sync());
            sim.run_graph(graph);
            assert_eq!(
                sim.download::<u32>(data, WORDS_IN_ALL),
                model,
                "seed {seed}"
            );
        }
    }
}
