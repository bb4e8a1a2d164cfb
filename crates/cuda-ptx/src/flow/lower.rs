//! Turns the statements of a function into blocks of operations.

use std::collections::{HashMap, HashSet};

use crate::ast::names;
use crate::ast::{Function, Instruction, Linkage, Operand, Space, Statement, Variable};

use super::addresses::{mark_used, params_at};
use super::cycles::Cycles;
use super::decode::{Decoder, NO};
use super::effect;
use super::first;
use super::float;
use super::graph::Graph;
use super::local;
use super::names::{Name, bits_of};
use super::op::{Access, AccessKind, Block, Guard, Ins, Op, Param, Source, UNDEFINED, Var};
use super::results::{self, Cause, Memory, Results};
use super::{MAX_BLOCKS, MAX_OPS, Refused, require, ssa};

/// A kernel in the form that the analysis uses.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) line: u32,
    pub(crate) params: Vec<Param>,
    pub(crate) vars: Vec<Var>,
    pub(crate) accesses: Vec<Access>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) graph: Graph,
    pub(crate) cycles: Cycles,
    /// The width of each value, and the block that defines it.
    pub(crate) values: Vec<(u32, u32)>,
    /// Whether a value depends on a register that is possibly not set, or on local memory that
    /// nothing may have written.
    pub(crate) is_undefined: Vec<bool>,
    /// Whether a value depends on a register that is possibly not set.
    pub(crate) is_unset: Vec<bool>,
    /// The statements that load local memory that nothing may have written.
    pub(crate) unset: Vec<u32>,
    /// The registers that the text that is launched sets to 0 first, with their widths. Those of
    /// inner blocks are not among them.
    pub(crate) first: Vec<(String, u32)>,
    /// Whether a value depends on the result of an instruction that an assembler may repeat.
    pub(crate) is_unstable: Vec<bool>,
    /// Whether each value depends on an instruction that is not modelled, or on memory from which
    /// an assembler may take a value without a load.
    pub(crate) is_hidden: Vec<bool>,
    /// The statements whose loads must be volatile in the text that is launched, in order.
    pub(crate) volatile: Vec<u32>,
    /// Whether an address or a branch depends on a value.
    pub(crate) needed: ssa::Needed,
    /// The line of each `trap` and `brkpt`.
    pub(crate) traps: Vec<u32>,
    /// The threads that a block must have for the barriers, with the line of the one that needs
    /// most.
    pub(crate) least_threads: (u32, u32),
}

/// The end of a block before labels are resolved.
#[derive(Debug)]
enum End<'a> {
    /// Continues with the next block.
    Next,
    /// `bra`
    Jump(&'a str),
    /// A conditional `bra`; else the next block.
    Branch(Guard, &'a str),
    /// `brx.idx`, with its index.
    Table(&'a str, Source),
    /// A conditional end; else the next block.
    Leave(Guard),
    /// `ret`, `exit`, `trap`
    Exit,
}

/// The size of a variable in bytes, if it has one.
pub(crate) fn size_of_variable(variable: &Variable<'_>) -> Option<u64> {
    let bits = match variable.ty {
        "texref" | "surfref" | "samplerref" => 64,
        ty => bits_of(ty),
    };
    let element = u64::from(bits / 8) * u64::from(variable.vector);
    (element > 0).then(|| variable.count?.checked_mul(element))?
}

fn var(variable: &Variable<'_>, is_module: bool) -> Var {
    let is_extern = variable.linkage == Linkage::Extern;
    let is_dynamic = is_extern && variable.space == Space::Shared && variable.count.is_none();
    let is_own = matches!(variable.linkage, Linkage::Internal | Linkage::Visible);
    let element = u64::from(bits_of(variable.ty) / 8) * u64::from(variable.vector);
    Var {
        name: variable.name.to_owned(),
        space: variable.space,
        size: size_of_variable(variable).filter(|_| is_own),
        is_dynamic,
        align: variable.align.unwrap_or(element).max(1),
        is_module: is_module
            && !variable.constant
            && matches!(variable.space, Space::Global | Space::Const),
        is_table: is_module && variable.constant,
        param: None,
        is_used: false,
    }
}

/// The largest number of edges between the blocks of a kernel.
const MAX_EDGES: usize = 8 * MAX_BLOCKS;

fn too_complex<T>(line: u32) -> Result<T, Refused> {
    let reason = format!("the control flow is too complex; the limit is {MAX_EDGES} edges");
    Refused::new(line, reason)
}

#[derive(Debug)]
struct Lowering<'a> {
    decoder: Decoder<'a>,
    blocks: Vec<(Vec<Ins>, End<'a>, u32)>,
    /// The numbers of the blocks with an effect that an assembler must keep.
    effects: Vec<usize>,
    results: Vec<Results>,
    /// Whether a variable in local memory was declared so far.
    has_local: bool,
    labels: HashMap<&'a str, u32>,
    tables: HashMap<&'a str, &'a [&'a str]>,
    ops: usize,
    traps: Vec<u32>,
}

/// Lowers `function`. `variables` are those of its module, at least all that it uses.
pub(crate) fn lower<'a>(
    variables: impl IntoIterator<Item = &'a Variable<'a>>,
    function: &'a Function<'a>,
) -> Result<Kernel, Refused> {
    let Some(body) = &function.body else {
        return Refused::new(function.line, "declaration without a body");
    };
    if !function.entry {
        return Refused::new(function.line, "a function that is not a kernel");
    }
    if function
        .directives
        .iter()
        .any(|it| it.0 == "blocksareclusters")
    {
        return Refused::new(function.line, "`.blocksareclusters`");
    }
    let mut lowering = Lowering {
        decoder: Decoder::new(function.line),
        blocks: Vec::new(),
        effects: Vec::new(),
        results: Vec::new(),
        has_local: false,
        labels: HashMap::new(),
        tables: HashMap::new(),
        ops: 0,
        traps: Vec::new(),
    };
    for variable in variables {
        lowering.declare(variable, true);
    }
    let mut params = Vec::new();
    for (index, variable) in function.params.iter().enumerate() {
        let Some(size) = size_of_variable(variable).filter(|_| variable.space == Space::Param)
        else {
            let reason = format!("parameter {} has no known size", variable.name);
            return Refused::new(variable.line, reason);
        };
        lowering.declare(variable, false);
        if let Some(var) = lowering.decoder.vars.last_mut() {
            // The linkage of the kernel says nothing about its parameters.
            (var.param, var.size) = (Some(index as u32), Some(size));
        }
        let name = variable.name.to_owned();
        let target_align = variable.target_align().unwrap_or(1);
        params.push(Param {
            name,
            size,
            target_align,
        });
    }
    lowering.decoder.names.open();
    for (index, statement) in body.iter().enumerate() {
        lowering.decoder.statement = index as u32;
        lowering.statement(statement)?;
    }
    lowering.end(End::Exit, function.line);
    lowering.finish(function, params)
}

impl<'a> Lowering<'a> {
    fn declare(&mut self, variable: &'a Variable<'a>, is_module: bool) {
        let number = self.decoder.vars.len() as u32;
        self.has_local |= variable.space == Space::Local;
        self.decoder.vars.push(var(variable, is_module));
        self.decoder.names.declare_variable(variable.name, number);
    }

    /// Ends a block with the instruction or label on this line.
    fn end(&mut self, end: End<'a>, line: u32) {
        let ins = std::mem::take(&mut self.decoder.ins);
        self.ops += ins.len();
        self.blocks.push((ins, end, line));
    }

    fn statement(&mut self, statement: &'a Statement<'a>) -> Result<(), Refused> {
        match statement {
            Statement::Label(name, line) => {
                self.end(End::Next, *line);
                let block = self.blocks.len() as u32;
                if self.labels.insert(name, block).is_some() {
                    return Refused::new(*line, format!("label {name} is defined twice"));
                }
            }
            Statement::Instruction(instruction) => self.instruction(instruction)?,
            Statement::Loc { at, .. } => self.decoder.location = Some(*at),
            Statement::Open => self.decoder.names.open(),
            Statement::Close => self.decoder.names.close(),
            Statement::Register(register) => self.decoder.names.declare_register(register),
            Statement::Variable(variable) => self.declare(variable, false),
            Statement::BranchTargets(name, targets) => {
                if self.tables.insert(name, targets.as_slice()).is_some() {
                    let line = self.decoder.line;
                    return Refused::new(line, format!("table {name} is defined twice"));
                }
            }
            Statement::Pragma(_) | Statement::CallTargets(..) | Statement::Prototype(..) => {}
        }
        Ok(())
    }

    fn instruction(&mut self, instruction: &'a Instruction<'a>) -> Result<(), Refused> {
        let line = instruction.line;
        if self.blocks.len() > MAX_BLOCKS || self.ops + self.decoder.ins.len() > MAX_OPS {
            let reason = format!(
                "the kernel has more than {MAX_OPS} operations or {MAX_BLOCKS} basic blocks"
            );
            return Refused::new(line, reason);
        }
        let guard = instruction.predicate.map(|predicate| Guard {
            predicate: self.decoder.predicate_source(predicate.name),
            negated: predicate.negated,
        });
        if matches!(instruction.opcode, "trap" | "brkpt") {
            self.traps.push(line);
        }
        let end = match (instruction.opcode, instruction.operands.as_slice(), guard) {
            ("bra", [Operand::Name(label)], None) => End::Jump(label),
            ("bra", [Operand::Name(label)], Some(guard)) => End::Branch(guard, label),
            ("brx", [index, Operand::Name(table)], None) => {
                End::Table(table, self.decoder.source(index, 32))
            }
            ("ret" | "exit" | "trap" | "brkpt", _, None) => End::Exit,
            ("ret" | "exit" | "trap" | "brkpt", _, Some(guard)) => End::Leave(guard),
            ("bra" | "brx", ..) => {
                let reason = format!("unknown branch: {}", instruction.mnemonic());
                return Refused::new(line, reason);
            }
            _ => {
                if effect::is_kept(instruction) {
                    self.effects.push(self.blocks.len());
                }
                // A policy may be in the register that the instruction sets, so its requirement
                // comes first. The decoders have better reasons.
                let admitted = self.decoder.admit(instruction);
                self.plain(instruction)?;
                admitted?;
                return self.decoder.expect_resolved(line);
            }
        };
        self.decoder.admit(instruction)?;
        self.decoder.expect_resolved(line)?;
        self.end(end, line);
        Ok(())
    }

    /// Decodes an instruction that is neither a branch nor an end.
    fn plain(&mut self, instruction: &'a Instruction<'a>) -> Result<(), Refused> {
        let first = self.decoder.ins.len();
        self.decoder.instruction(instruction)?;
        let end = self.decoder.ins.len();
        if let Some(cause) = results::cause(instruction) {
            self.results.push(Results {
                cause,
                block: self.blocks.len() as u32,
                first: first as u32,
                end: end as u32,
                statement: self.decoder.statement,
            });
        }
        // What is stored to global memory matters for addresses of local memory only.
        let has_local = self.has_local;
        let accesses = &self.decoder.accesses;
        let is_store = |ins: &&mut Ins| match ins.op {
            Op::Access(number) => {
                let access = &accesses[number as usize];
                access.kind != AccessKind::Read
                    && (has_local || access.space != Some(Space::Global))
            }
            _ => false,
        };
        let mut new = self.decoder.ins[first..].iter_mut();
        if let Some(ins) = new.find(is_store) {
            for operand in instruction.operands.iter().skip(1) {
                names(operand, &mut |name| {
                    if let Some(Name::Reg(reg)) = self.decoder.names.find(name) {
                        ins.unmodelled.push(reg.number);
                    }
                });
            }
        }
        Ok(())
    }

    fn label(&self, name: &str, line: u32) -> Result<u32, Refused> {
        match self.labels.get(name) {
            Some(block) => Ok(*block),
            None => Refused::new(line, format!("label {name} is not defined")),
        }
    }

    fn finish(mut self, function: &Function<'_>, params: Vec<Param>) -> Result<Kernel, Refused> {
        let line = function.line;
        let count = self.blocks.len();
        let mut blocks: Vec<Block> = Vec::new();
        blocks.resize_with(count, Block::default);
        for &block in &self.effects {
            blocks[block].has_effect = true;
        }
        // Each conditional edge gets its own block, which the condition dominates.
        let edge = |blocks: &mut Vec<Block>, from: usize, guard: Guard, to: Option<u32>| {
            let number = blocks.len() as u32;
            blocks.push(Block {
                edge: Some(guard),
                succs: to.into_iter().collect(),
                ..Block::default()
            });
            blocks[from].succs.push(number);
        };
        // The blocks that each table leads to, without repetitions.
        let mut leads_to: HashMap<&str, Vec<u32>> = HashMap::new();
        let mut edges_of_tables = 0;
        for (index, (ins, end, at)) in std::mem::take(&mut self.blocks).into_iter().enumerate() {
            blocks[index].ins = ins;
            // The last block ends with `Exit`.
            let next = Some(index as u32 + 1).filter(|next| (*next as usize) < count);
            let not = |guard: Guard| Guard {
                negated: !guard.negated,
                ..guard
            };
            match end {
                End::Next => blocks[index].succs.extend(next),
                End::Jump(name) => {
                    let target = self.label(name, at)?;
                    blocks[index].succs.push(target);
                }
                End::Branch(guard, name) => {
                    let target = self.label(name, at)?;
                    edge(&mut blocks, index, guard, Some(target));
                    edge(&mut blocks, index, not(guard), next);
                }
                End::Leave(guard) => edge(&mut blocks, index, not(guard), next),
                End::Table(name, source) => {
                    let Some(table) = self.tables.get(name) else {
                        return Refused::new(at, format!("table {name} is not defined"));
                    };
                    let targets = table.len() as u32;
                    blocks[index].ins.push(Ins {
                        op: Op::Jump { targets, line: at },
                        sources: [source, NO, NO],
                        unmodelled: Vec::new(),
                        target: None,
                        guard: None,
                        previous: UNDEFINED,
                    });
                    if !leads_to.contains_key(name) {
                        let (mut all, mut seen) = (Vec::new(), HashSet::new());
                        for name in *table {
                            let target = self.label(name, at)?;
                            if seen.insert(target) {
                                all.push(target);
                            }
                        }
                        leads_to.insert(name, all);
                    }
                    let all = leads_to.get(name).map_or(&[][..], Vec::as_slice);
                    edges_of_tables += all.len();
                    if edges_of_tables > MAX_EDGES {
                        return too_complex(line);
                    }
                    blocks[index].succs.extend_from_slice(all);
                }
                End::Exit => {}
            }
            if blocks.len() > 4 * MAX_BLOCKS {
                let most = 4 * MAX_BLOCKS;
                let reason = format!("the branches of the kernel make more than {most} blocks");
                return Refused::new(line, reason);
            }
        }
        let succs: Vec<Vec<u32>> = blocks.iter().map(|block| block.succs.clone()).collect();
        let edges: usize = succs.iter().map(Vec::len).sum();
        if edges > MAX_EDGES {
            return too_complex(line);
        }
        let Some(graph) = Graph::new(&succs) else {
            return too_complex(line);
        };
        let widths = std::mem::take(&mut self.decoder.names.widths);
        let first = first::read_first(&blocks, &graph, widths.len());
        let Some(values) = ssa::construct(&mut blocks, &graph, &widths) else {
            return Refused::new(line, "the data flow is too complex");
        };
        let least_threads = require::check(
            &mut blocks,
            &graph,
            &self.decoder.requirements,
            values.len(),
        )?;
        let cycles = Cycles::new(&blocks, &graph);
        params_at(&mut blocks, &graph, &self.decoder.vars, values.len());
        float::find_sources(&mut blocks, &graph, values.len());
        let count = values.len();
        let mut vars = self.decoder.vars;
        let accesses = self.decoder.accesses;
        // Registers of unreachable blocks have no values.
        let is_reachable = |it: &Results| graph.position[it.block as usize] != u32::MAX;
        self.results.retain(is_reachable);
        let memory = Memory::new(&blocks, &graph, &accesses, &self.results);
        let is_unset = ssa::dependent(&blocks, &graph, &memory, count, vec![UNDEFINED]);
        let first = match first::is_address(&blocks, &graph, &is_unset) {
            true => self.decoder.names.known(&first, &widths),
            false => Vec::new(),
        };
        let loads = local::unset(&blocks, &graph, &vars, &accesses, count, &self.results);
        for load in &loads {
            load.unset(&mut blocks);
        }
        let unset = loads.iter().map(|load| load.statement).collect();
        let is_undefined = ssa::dependent(&blocks, &graph, &memory, count, vec![UNDEFINED]);
        let needed = ssa::needed(&blocks, &graph, &memory, count);
        let repeated = self.results.iter().filter(|it| it.cause == Cause::Repeated);
        let repeated = repeated.flat_map(|it| it.targets(&blocks)).collect();
        let is_unstable = ssa::dependent(&blocks, &graph, &memory, count, repeated);
        let hidden = ssa::hidden(&blocks, &graph).chain(memory.loaded.iter().copied());
        let is_hidden = ssa::dependent(&blocks, &graph, &memory, count, hidden.collect());
        let read_only = self.results.iter().filter(|it| it.cause == Cause::ReadOnly);
        let is_needed = |it: &&Results| {
            it.targets(&blocks)
                .any(|value| needed.in_any_way[value as usize])
        };
        let volatile = read_only.filter(is_needed).map(|it| it.statement).collect();
        mark_used(&mut vars, &blocks, &graph);
        Ok(Kernel {
            name: function.name.to_owned(),
            line,
            params,
            vars,
            accesses,
            blocks,
            graph,
            cycles,
            values,
            is_undefined,
            is_unset,
            unset,
            first,
            is_unstable,
            is_hidden,
            volatile,
            needed,
            traps: self.traps,
            least_threads,
        })
    }
}
