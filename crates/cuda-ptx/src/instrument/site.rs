//! Writes the code around a checked instruction.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use crate::analysis::{Refusal, Root};
use crate::ast::{Base, Function, Instruction, Literal, Module, Operand, Predicate, Statement};
use crate::flow::{Kernel, Name, Names, volatile};
use crate::prefix;

use super::{Check, ExtraParameter, Site, refuse};

/// Writes the code of one kernel.
pub(super) struct Writer<'a, 'k> {
    pub(super) kernel: &'k Kernel,
    pub(super) memories: &'k [Option<Root>],
    /// The compute capability that the text is for, such as 90.
    target: u32,
    /// The beginning of all names that it declares. No name of the text begins with it.
    prefix: String,
    names: Names<'a>,
    /// How often each variable name was declared so far.
    variables: HashMap<&'a str, u32>,
    pub(super) extra: Vec<ExtraParameter>,
    pub(super) sites: Vec<Site>,
    /// The number of regions so far.
    pub(super) regions: usize,
    /// The number of registers of each width for hoisted instructions.
    pub(super) hoisted_registers: BTreeMap<u32, u32>,
}

/// An operand whose address is checked.
pub(super) struct Checked {
    /// The register with the address.
    pub(super) address: String,
    pub(super) is_wide: bool,
    /// The register with the third coordinate in a surface. The other two take the place of the
    /// address.
    pub(super) third: Option<String>,
    /// The predicate that the address is in range.
    pub(super) ok: String,
    pub(super) site: usize,
}

impl<'a, 'k> Writer<'a, 'k> {
    pub(super) fn new(
        text: &str,
        module: &'a Module<'a>,
        kernel: &'k Kernel,
        memories: &'k [Option<Root>],
    ) -> Self {
        let mut names = Names::new();
        let mut variables: HashMap<&str, u32> = HashMap::new();
        for variable in &module.variables {
            names.declare_variable(variable.name, 0);
            *variables.entry(variable.name).or_default() += 1;
        }
        Self {
            kernel,
            memories,
            target: module.target.sm,
            prefix: prefix::unused("chk", [text].into_iter()),
            names,
            variables,
            extra: Vec::new(),
            sites: Vec::new(),
            regions: 0,
            hoisted_registers: BTreeMap::new(),
        }
    }

    /// Declares the parameters, and opens the scope of the body.
    pub(super) fn open_body(&mut self, function: &'a Function<'a>) {
        for variable in &function.params {
            self.declare(variable.name);
        }
        self.names.open();
    }

    /// Follows the names that a statement declares.
    pub(super) fn statement(&mut self, statement: &'a Statement<'a>) {
        match statement {
            Statement::Open => self.names.open(),
            Statement::Close => self.names.close(),
            Statement::Register(register) => self.names.declare_register(register),
            Statement::Variable(variable) => self.declare(variable.name),
            _ => {}
        }
    }

    fn declare(&mut self, name: &'a str) {
        self.names.declare_variable(name, 0);
        *self.variables.entry(name).or_default() += 1;
    }

    /// Whether the name refers to the variable at the current statement, and not to a register.
    pub(super) fn is_visible(&mut self, name: &str) -> bool {
        let found = self.variables.get_key_value(name);
        found.is_some_and(|(name, _)| matches!(self.names.find(name), Some(Name::Var(_))))
    }

    /// Whether only one variable with this name was declared so far.
    pub(super) fn is_unique(&self, name: &str) -> bool {
        self.variables.get(name) == Some(&1)
    }

    /// A 64-bit register.
    pub(super) fn d(&self, number: u32) -> String {
        format!("%{}d{number}", self.prefix)
    }

    /// A 32-bit register.
    pub(super) fn r(&self, number: u32) -> String {
        format!("%{}r{number}", self.prefix)
    }

    /// A predicate.
    pub(super) fn p(&self, number: u32) -> String {
        format!("%{}p{number}", self.prefix)
    }

    pub(super) fn label(&self, what: &str) -> String {
        format!("${}{what}", self.prefix)
    }

    /// A label of the region with this number.
    pub(super) fn numbered(&self, what: &str, number: usize) -> String {
        self.label(&format!("{what}{number}"))
    }

    /// A register for the result of a hoisted instruction.
    pub(super) fn hoisted_register(&self, bits: u32, number: u32) -> String {
        format!("%{}c{bits}_{number}", self.prefix)
    }

    /// The name of an extra parameter, which is added if it is new.
    pub(super) fn parameter(&mut self, parameter: ExtraParameter) -> String {
        let found = self.extra.iter().position(|other| *other == parameter);
        let index = found.unwrap_or_else(|| {
            self.extra.push(parameter);
            self.extra.len() - 1
        });
        format!("{}a{index}", self.prefix)
    }

    /// The declarations of the extra parameters.
    pub(super) fn parameters(&self) -> String {
        let names =
            (0..self.extra.len()).map(|index| format!(".param .u64 {}a{index}", self.prefix));
        names.collect::<Vec<_>>().join(", ")
    }

    /// The code at the beginning of the body.
    pub(super) fn declarations(&self) -> String {
        let prefix = &self.prefix;
        let (first, address) = (self.first(), self.first_address());
        let mut out = format!(
            " .reg .pred %{prefix}p<16>; .reg .b32 %{prefix}r<16>; .reg .b64 %{prefix}d<16>; \
             mov.u32 {first}, 0; mov.u64 {address}, 0; "
        );
        for (bits, count) in &self.hoisted_registers {
            let ty = match bits {
                1 => "pred".to_owned(),
                bits => format!("b{bits}"),
            };
            let _ = write!(out, ".reg .{ty} %{prefix}c{bits}_<{count}>; ");
        }
        if self.has_surfaces() {
            let _ = write!(out, "mov.u32 {}, 0; ", self.first_third());
        }
        out
    }

    pub(super) fn refuse<T>(&self, line: u32, reason: impl Into<String>) -> Result<T, Refusal> {
        refuse(&self.kernel.name, line, reason)
    }

    /// The object that a name refers to at the current statement.
    pub(super) fn find(&mut self, name: &'a str) -> Option<Name> {
        self.names.find(name)
    }

    /// The width of a register, or 0.
    pub(super) fn bits(&mut self, name: &'a str) -> u32 {
        match self.names.find(name) {
            Some(Name::Reg(reg)) => reg.bits,
            _ => 0,
        }
    }

    /// The new text of an instruction, or `None` if it stays as it is.
    pub(super) fn instruction(
        &mut self,
        instruction: &'a Instruction<'a>,
        checks: &[(usize, &Check)],
        is_volatile: bool,
    ) -> Result<Option<String>, Refusal> {
        match instruction.opcode {
            "ret" | "exit" => return Ok(Some(self.leave(instruction))),
            "trap" | "brkpt" => return Ok(Some(self.trap(instruction))),
            _ => {}
        }
        let mut new = match is_volatile {
            true => volatile(instruction),
            false => instruction.clone(),
        };
        if checks.is_empty() {
            return Ok(is_volatile.then(|| new.to_string()));
        }
        if matches!(instruction.opcode, "suld" | "sust" | "sured")
            && let [(operand, check)] = checks
        {
            return Ok(Some(self.surface(instruction, *operand, check)?));
        }
        let line = instruction.line;
        let is_copy = instruction.opcode == "cp" && !instruction.has("mbarrier");
        let is_matrix = matches!(instruction.opcode, "ldmatrix" | "stmatrix");
        let is_supported = is_matrix
            || matches!(
                instruction.opcode,
                "ld" | "ldu"
                    | "st"
                    | "atom"
                    | "red"
                    | "prefetch"
                    | "prefetchu"
                    | "applypriority"
                    | "discard"
            );
        if !is_supported && !is_copy {
            return Err(Refusal {
                kernel: self.kernel.name.clone(),
                line,
                access: checks.first().map(|(_, check)| check.access),
                reason: format!("{} cannot be checked", instruction.mnemonic()),
            });
        }
        let mut out = String::new();
        let mut checked = Vec::new();
        for (number, (operand, check)) in checks.iter().enumerate() {
            let is_source = is_copy && *operand == 1;
            let read = if is_source {
                instruction.operands.get(3)
            } else {
                None
            };
            let one = self.check(&mut out, instruction, *operand, check, number, read)?;
            if is_matrix {
                self.excuse_unused_rows(&mut out, instruction, &one.ok);
            }
            if let Some(operand) = new.operands.get_mut(*operand) {
                *operand = Operand::Name("");
            }
            checked.push((*operand, one));
        }
        // `run`: the instruction is executed. `bad`: the check of one address failed.
        let (run, bad, scratch) = (self.p(5), self.p(6), self.p(7));
        let guard = self.guard(&mut out, instruction);
        let _ = write!(out, "setp.eq.u32 {run}, {0}, {0}; ", self.first());
        if let Some(guard) = &guard {
            let _ = write!(out, "mov.pred {run}, {guard}; ");
        }
        for (_, one) in &checked {
            self.record(&mut out, one, guard.as_deref(), &bad, &scratch);
            let _ = write!(out, "and.pred {run}, {run}, {}; ", one.ok);
        }
        if is_matrix {
            // The threads of a warp execute the instruction together, or not at all.
            let _ = write!(out, "vote.sync.all.pred {run}, {run}, -1; ");
        }
        self.zero(&mut out, instruction, guard.as_deref(), &run, &bad)?;
        self.write_checked(&mut out, &new, &checked, &run);
        if is_copy {
            self.zero_copy(&mut out, instruction, &checked, guard.as_deref(), &bad)?;
        }
        Ok(Some(out))
    }

    /// Sets `ok` for threads whose row the matrix instruction does not use. Before `sm_80`, the
    /// addresses of all threads must be valid.
    fn excuse_unused_rows(&self, out: &mut String, instruction: &Instruction<'_>, ok: &str) {
        let rows = match instruction {
            _ if self.target < 80 => return,
            it if it.has("x4") => return,
            it if it.has("x2") => 16,
            _ => 8,
        };
        let lane = self.r(0);
        let _ = write!(out, "mov.u32 {lane}, %laneid; ");
        let _ = write!(out, "setp.ge.or.u32 {ok}, {lane}, {rows}, {ok}; ");
    }

    /// The predicate of an instruction in its own register, if it has one.
    pub(super) fn guard(&self, out: &mut String, instruction: &Instruction<'_>) -> Option<String> {
        let Predicate { name, negated } = instruction.predicate?;
        let guard = self.p(8);
        let op = if negated { "not" } else { "mov" };
        let _ = write!(out, "{op}.pred {guard}, {name}; ");
        Some(guard)
    }

    /// Computes an address, and whether it is in range.
    fn check(
        &mut self,
        out: &mut String,
        instruction: &'a Instruction<'a>,
        operand: usize,
        check: &Check,
        number: usize,
        read: Option<&'a Operand<'a>>,
    ) -> Result<Checked, Refusal> {
        let kernel = self.kernel;
        let line = instruction.line;
        let Some(access) = kernel.accesses.get(check.access) else {
            return self.refuse(line, "a check of an access that does not exist");
        };
        let Some(Operand::Address(base, offset)) = instruction.operands.get(operand) else {
            return self.refuse(line, "an operand that is not an address");
        };
        if !access.is_simple || access.size == 0 || !access.size.is_power_of_two() {
            return self.refuse(line, "an access whose bytes are not known");
        }
        let is_wide = match base {
            Base::Name(name) => self.bits(name) != 32,
            Base::Absolute => true,
        };
        let (bits, address) = match is_wide {
            true => (64, self.d(8 + number as u32)),
            false => (32, self.r(8 + number as u32)),
        };
        match base {
            Base::Name(name) => {
                let _ = write!(out, "mov.b{bits} {address}, {name}; ");
            }
            Base::Absolute => {
                let _ = write!(out, "mov.b64 {address}, 0; ");
            }
        }
        if *offset != 0 {
            let _ = write!(out, "add.s{bits} {address}, {address}, {offset}; ");
        }
        let ok = self.p(9 + number as u32);
        let size = match read {
            Some(Operand::Literal(Literal::Int(size))) => Some(size.to_string()),
            Some(Operand::Name(name)) if self.bits(name) == 32 => Some((*name).to_owned()),
            Some(_) => return self.refuse(line, "a copy with an unknown source size"),
            None => None,
        };
        let read = size.as_ref().map(|size| {
            let read = self.r(3);
            let _ = write!(out, "mov.b32 {read}, {size}; ");
            read
        });
        if read.is_some() && !is_wide {
            return self.refuse(line, "a copy from a short address");
        }
        let at = (address.as_str(), is_wide);
        let size = if read.is_some() { 0 } else { access.size };
        let root = check.root.as_ref();
        self.compare(out, access, root, at, size, &ok, read.as_deref())?;
        if let Some(read) = &read {
            // Nothing is read if the source size is 0. More than the copied bytes is not defined.
            let _ = write!(out, "setp.eq.or.u32 {ok}, {read}, 0, {ok}; ");
            let _ = write!(out, "setp.le.and.u32 {ok}, {read}, {}, {ok}; ", access.size);
        }
        if !check.is_aligned {
            self.align(out, at, access.size - 1, &ok);
        }
        self.sites.push(Site {
            line,
            access: Some(check.access),
            root: check.root.clone(),
        });
        Ok(Checked {
            address,
            is_wide,
            third: None,
            ok,
            site: self.sites.len(),
        })
    }

    /// Writes the instruction with its checked addresses.
    fn write_checked(
        &self,
        out: &mut String,
        new: &Instruction<'_>,
        checked: &[(usize, Checked)],
        run: &str,
    ) {
        let _ = write!(out, "@{run} {}", new.mnemonic());
        for (index, operand) in new.operands.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = match checked.iter().find(|(operand, _)| *operand == index) {
                Some((_, one)) => write!(out, "{comma} [{}]", one.address),
                None => write!(out, "{comma} {operand}"),
            };
        }
        out.push_str("; ");
    }
}
