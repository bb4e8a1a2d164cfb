//! Decodes one function: declarations, scopes and labels.

use std::collections::{BTreeSet, HashMap};

use super::declare::MAX_FRAME;
use super::module::{Output, SharedLayout, invalid_at, layout, param_layout};
use super::operand::Sym;
use super::symbols::Names;
use super::{DecodeError, Decoded, group_check, invalid};
use crate::vm::code::{ALWAYS, Ins, Kind, Place, Slot};
use crate::vm::fault::LoadError;
use cuda_ptx::{Location, Space, Statement, Variable};

/// The largest parameter buffer of a kernel, in bytes.
pub(super) const MAX_PARAMS: u32 = 32764;
/// The register file of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Pred,
    W32,
    W64,
    /// A pair of 64-bit registers.
    W128,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Reg {
    pub(super) width: Width,
    /// The declared width: 8, 16, 32 or 64.
    pub(super) bits: u32,
    pub(super) slot: Slot,
}

/// A vector register, such as `.reg .v2 .f32 v`, or several that are numbered from 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct VectorReg {
    /// The first element.
    pub(super) first: Reg,
    /// The number of elements.
    pub(super) len: u32,
    /// The number of numbered registers; `None` if the name has no number.
    pub(super) count: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Name {
    Reg(Reg),
    Sym(Sym),
}

#[derive(Default)]
pub(super) struct Scope<'a> {
    pub(super) names: HashMap<&'a str, Name>,
    /// For `%r<10>`: the first register and the number of registers.
    pub(super) numbered: HashMap<&'a str, (Reg, u32)>,
    pub(super) vectors: HashMap<&'a str, VectorReg>,
    /// The declarations of the variables.
    pub(super) declared: HashMap<&'a str, &'a Variable<'a>>,
    id: usize,
    frame: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Patch {
    Jump(usize),
    Table(usize, usize),
}

pub(super) struct FunctionDecoder<'a, 'o> {
    pub(super) out: &'o mut Output,
    pub(super) names: &'o Names<'a>,
    pub(super) function: &'a cuda_ptx::Function<'a>,
    pub(super) index: usize,
    pub(super) scopes: Vec<Scope<'a>>,
    parents: Vec<usize>,
    labels: HashMap<(usize, &'a str), u32>,
    pub(super) patches: Vec<(Patch, &'a str, usize, u32)>,
    pub(super) tables: HashMap<&'a str, Vec<&'a str>>,
    pub(super) sizes: HashMap<u32, u32>,
    pub(super) frame: u64,
    pub(super) max_frame: u64,
    /// The shared memory layout, if the function is a kernel.
    pub(super) shared: SharedLayout,
    pub(super) temps: [(Vec<Slot>, usize); 3],
    pub(super) guard: u32,
    pub(super) line: u32,
    /// If accesses are observed, the names of the registers that each `wgmma` uses.
    pub(super) group_names: BTreeSet<&'a str>,
    files: HashMap<u32, u32>,
}

impl<'a, 'o> FunctionDecoder<'a, 'o> {
    pub(super) fn new(
        out: &'o mut Output,
        names: &'o Names<'a>,
        function: &'a cuda_ptx::Function<'a>,
        index: usize,
    ) -> Self {
        Self {
            out,
            names,
            function,
            index,
            scopes: vec![Scope::default()],
            parents: vec![0],
            labels: HashMap::new(),
            patches: Vec::new(),
            tables: HashMap::new(),
            sizes: HashMap::new(),
            frame: 0,
            max_frame: 0,
            shared: SharedLayout::default(),
            temps: Default::default(),
            guard: ALWAYS,
            line: 0,
            group_names: BTreeSet::new(),
            files: HashMap::new(),
        }
    }

    pub(super) fn files(&mut self, first: u32, numbers: &[u32]) {
        self.files = numbers.iter().copied().zip(first..).collect();
    }

    /// Records that the function refers to a shared variable that other functions may refer to;
    /// returns its offset if that is known.
    pub(super) fn common(&mut self, variable: usize) -> Decoded<Option<u32>> {
        if !self.entry() {
            self.out.uses[self.index].shared.insert(variable);
            return Ok(None);
        }
        match self.shared.common(variable, &self.out.shared) {
            Some(start) => Ok(Some(start)),
            None => invalid("Too much shared data"),
        }
    }

    pub(super) fn wide(&self) -> bool {
        self.out.wide
    }

    pub(super) fn entry(&self) -> bool {
        self.function.entry
    }

    /// Decodes the body. For a kernel, returns the layout of the shared variables that it declares
    /// or names.
    pub(super) fn run(mut self, body: &'a [Statement<'a>]) -> Result<SharedLayout, LoadError> {
        let entry = self.out.program.code.len() as u32;
        self.out.program.functions[self.index].entry = Some(entry);
        self.line = self.function.line;
        if self.out.checked {
            self.group_names = group_check::names(body);
        }
        self.signature().map_err(|refuse| self.load_error(refuse))?;
        for statement in body {
            if let Err(refuse) = self.statement(statement) {
                return Err(self.load_error(refuse));
            }
            if self.max_frame > MAX_FRAME {
                return Err(invalid_at(self.line, "Too much local data"));
            }
        }
        // Code that runs past the end returns.
        self.guard = ALWAYS;
        self.emit(Kind::Ret, 0, 0, 0, 0, 0);
        self.patch()?;
        let end = self.out.program.code.len() as u32;
        let code = &mut self.out.program.functions[self.index];
        code.end = end;
        code.frame = self.max_frame.next_multiple_of(16) as u32;
        Ok(self.shared)
    }

    fn load_error(&self, refuse: DecodeError) -> LoadError {
        match refuse {
            DecodeError::Invalid(message) | DecodeError::Unsupported(message) => {
                invalid_at(self.line, &message)
            }
        }
    }

    fn signature(&mut self) -> Decoded {
        let function = self.function;
        if function.entry {
            let (params, _) = param_layout(&function.params);
            for (variable, param) in function.params.iter().zip(params) {
                self.declare(variable.name, Name::Sym(Sym::Param(param.offset)))?;
            }
            return Ok(());
        }
        let mut returns = Vec::new();
        for variable in &function.returns {
            returns.push(self.parameter(variable)?);
        }
        let mut params = Vec::new();
        for variable in &function.params {
            params.push(self.parameter(variable)?);
        }
        let code = &mut self.out.program.functions[self.index];
        code.params = params;
        code.returns = returns;
        Ok(())
    }

    fn parameter(&mut self, variable: &Variable<'a>) -> Decoded<Place> {
        if variable.space == Space::Reg {
            let reg = self.register(variable.ty, 1)?;
            self.declare(variable.name, Name::Reg(reg))?;
            return Ok(match reg.width {
                Width::Pred => Place::Pred(reg.slot),
                Width::W32 => Place::R32(reg.slot),
                Width::W64 | Width::W128 => Place::R64(reg.slot),
            });
        }
        let offset = self.local(variable)?;
        let (size, _) = layout(variable);
        Ok(Place::Local {
            offset,
            size: size as u32,
        })
    }

    fn temp(&mut self, class: usize) -> Slot {
        let (slots, used) = &mut self.temps[class];
        if *used == slots.len() {
            let code = &mut self.out.program.functions[self.index];
            let counter = [&mut code.preds, &mut code.r32, &mut code.r64];
            let [preds, r32, r64] = counter;
            let counter = match class {
                0 => preds,
                1 => r32,
                _ => r64,
            };
            slots.push(*counter);
            *counter += 1;
        }
        *used += 1;
        slots[*used - 1]
    }

    pub(super) fn temp_pred(&mut self) -> Slot {
        self.temp(0)
    }

    pub(super) fn temp32(&mut self) -> Slot {
        self.temp(1)
    }

    pub(super) fn temp64(&mut self) -> Slot {
        self.temp(2)
    }

    pub(super) fn emit(&mut self, kind: Kind, d: Slot, a: Slot, b: Slot, c: Slot, imm: u64) {
        self.out.program.code.push(Ins {
            kind,
            guard: self.guard,
            d,
            a,
            b,
            c,
            e: 0,
            line: self.line,
            imm,
        });
    }

    /// Stores the message of an instruction that fails; returns its number.
    pub(super) fn message(&mut self, text: String) -> u32 {
        self.out.program.messages.push(text);
        self.out.program.messages.len() as u32 - 1
    }

    /// Records that the last instruction, or a table entry, is to receive the position of `label`.
    pub(super) fn refer(&mut self, patch: Patch, label: &'a str) {
        let scope = self.scopes.last().map_or(0, |scope| scope.id);
        self.patches.push((patch, label, scope, self.line));
    }

    fn patch(&mut self) -> Result<(), LoadError> {
        for &(patch, label, mut scope, line) in &self.patches {
            let target = loop {
                if let Some(&target) = self.labels.get(&(scope, label)) {
                    break target;
                }
                if scope == 0 {
                    return Err(invalid_at(line, &format!("Unknown label '{label}'")));
                }
                scope = self.parents[scope];
            };
            match patch {
                Patch::Jump(at) => self.out.program.code[at].imm = target.into(),
                Patch::Table(table, entry) => self.out.program.tables[table][entry] = target,
            }
        }
        Ok(())
    }

    fn statement(&mut self, statement: &'a Statement<'a>) -> Decoded {
        match statement {
            Statement::Label(name, line) => {
                self.line = *line;
                let at = self.out.program.code.len() as u32;
                let scope = self.scopes.last().map_or(0, |scope| scope.id);
                if self.labels.insert((scope, name), at).is_some() {
                    return invalid(format!("Duplicate definition of label '{name}'"));
                }
                Ok(())
            }
            Statement::Loc { at, inlined_at, .. } => {
                let from = self.out.program.code.len() as u32;
                let known = |at: Location| {
                    let file = *self.files.get(&at.file)?;
                    Some(Location { file, ..at })
                };
                if let Some(at) = known(*at) {
                    let inlined_at = inlined_at.and_then(known);
                    self.out.program.lines.mark(from, at, inlined_at);
                }
                Ok(())
            }
            Statement::Open => {
                let parent = self.scopes.last().map_or(0, |scope| scope.id);
                let id = self.parents.len();
                self.parents.push(parent);
                self.scopes.push(Scope {
                    id,
                    frame: self.frame,
                    ..Scope::default()
                });
                Ok(())
            }
            Statement::Close => {
                if let Some(scope) = self.scopes.pop() {
                    self.frame = scope.frame;
                }
                Ok(())
            }
            Statement::Register(register) => self.registers(register),
            Statement::Variable(variable) => self.variable(variable),
            Statement::BranchTargets(name, labels) => {
                self.tables.insert(name, labels.clone());
                Ok(())
            }
            Statement::Pragma(_) | Statement::CallTargets(..) | Statement::Prototype(..) => Ok(()),
            Statement::Instruction(instruction) => self.instruction(instruction),
        }
    }
}
