//! One walk over a kernel and the functions that it calls.

use std::collections::HashSet;
use std::fmt::Write;

use crate::ast::{Function, Instruction, Location, Predicate, Space, Statement, Variable};
use crate::flow::Refused;

use super::MAX_INSERTED;
use super::callees::{Call, Callees, cost, cost_of_signature};
use super::frame::{Frame, Role};
use super::params::Parameter;

/// The deepest nesting of calls, and the largest number of statements.
pub(super) const MAX_DEPTH: usize = 24;
const MAX_STATEMENTS: u64 = 400_000;

/// Writes a kernel without calls.
pub(super) struct Expander<'c, 'a> {
    callees: &'c Callees<'a>,
    /// The beginning of all new names. No name of the text contains it.
    pub(super) prefix: &'c str,
    out: String,
    lines: Vec<u32>,
    /// The line of the last instruction.
    pub(super) line: u32,
    /// The names of the functions that are being inserted.
    open: Vec<&'a str>,
    /// The functions with a shared variable that were inserted.
    with_statics: HashSet<&'a str>,
    insertions: u32,
    /// The statements of the kernel itself, and those that its calls inserted.
    statements: u64,
    pub(super) inserted: u64,
    /// The number of statements that its calls may insert.
    most_inserted: u64,
    /// The variables in parameter space, as the walks so far saw them.
    pub(super) parameters: Vec<Parameter>,
    pub(super) next_parameter: usize,
    has_asserts: bool,
}

impl<'c, 'a> Expander<'c, 'a> {
    /// Begins with a limit for the statements that calls insert.
    pub(super) fn new(callees: &'c Callees<'a>, most_inserted: u64) -> Self {
        Self {
            callees,
            prefix: &callees.prefix,
            out: String::new(),
            lines: Vec::new(),
            line: 0,
            open: Vec::new(),
            with_statics: HashSet::new(),
            insertions: 0,
            statements: 0,
            inserted: 0,
            most_inserted,
            parameters: Vec::new(),
            next_parameter: 0,
            has_asserts: false,
        }
    }

    /// Fails if the calls of a kernel insert too many statements. Their number is possibly unknown.
    pub(super) fn expect_room(
        &mut self,
        function: &Function<'a>,
        inserted: Option<u64>,
    ) -> Result<(), Refused> {
        let own = function.body.as_ref().map_or(0, Vec::len) as u64;
        self.line = function.line;
        match inserted {
            Some(inserted) => self.expect_below(own, inserted, &inserted.to_string()),
            None => Ok(()),
        }
    }

    /// Fails if these are too many statements.
    fn expect_below(&self, own: u64, inserted: u64, what: &str) -> Result<(), Refused> {
        let left = self.most_inserted;
        if own.saturating_add(inserted) > MAX_STATEMENTS {
            let reason = format!(
                "after its calls were inlined, the kernel has more than {MAX_STATEMENTS} \
                 statements; call fewer functions from it, or split it into several kernels"
            );
            return Refused::new(self.line, reason);
        }
        if inserted > left {
            let reason = format!(
                "the functions that the kernel calls insert {what} statements, but {left} of the \
                 {MAX_INSERTED} for all kernels of a module are left; load the kernel from another \
                 module, with fewer kernels that call functions"
            );
            return Refused::new(self.line, reason);
        }
        Ok(())
    }

    /// Counts statements that a call inserts.
    pub(super) fn insert(&mut self, count: u64) -> Result<(), Refused> {
        self.inserted += count;
        let what = format_args!("more than {}", self.most_inserted);
        match self.statements + self.inserted > MAX_STATEMENTS || self.inserted > self.most_inserted
        {
            true => self.expect_below(self.statements, self.inserted, &what.to_string()),
            false => Ok(()),
        }
    }

    /// Writes the kernel from its beginning.
    pub(super) fn run(
        &mut self,
        function: &'a Function<'a>,
        body: &'a [Statement<'a>],
    ) -> Result<(), Refused> {
        self.out.clear();
        self.lines.clear();
        self.with_statics.clear();
        (self.insertions, self.next_parameter) = (0, 0);
        (self.statements, self.inserted) = (0, 0);
        self.line = function.line;
        self.expect_distinct(function, self.callees.conflict(function))?;
        self.write("{");
        let mut frame = Frame::new(function, None);
        frame.open();
        self.body(&mut frame, body)?;
        self.write("}");
        Ok(())
    }

    /// The text, its lines, and whether a call of `__assertfail` was replaced.
    pub(super) fn finish(self) -> (String, Vec<u32>, bool) {
        (self.out, self.lines, self.has_asserts)
    }

    /// Fails if a function declares a name that the module has, too: in another function it would
    /// refer to something else.
    fn expect_distinct(
        &self,
        function: &Function<'a>,
        conflict: Option<&str>,
    ) -> Result<(), Refused> {
        match conflict {
            Some(name) => {
                let reason = format!("{} declares {name}, as the module does", function.name);
                Refused::new(function.line, reason)
            }
            None => Ok(()),
        }
    }

    /// Writes one line.
    pub(super) fn write(&mut self, text: impl AsRef<str>) {
        self.out.push_str(text.as_ref());
        self.out.push('\n');
        self.lines.push(self.line);
    }

    fn body(&mut self, frame: &mut Frame<'a>, body: &'a [Statement<'a>]) -> Result<(), Refused> {
        let is_inserted = frame.prefix.is_some();
        for statement in body {
            self.statements += u64::from(!is_inserted);
            self.insert(if is_inserted { cost(statement) } else { 0 })?;
            self.statement(frame, statement)?;
        }
        Ok(())
    }

    fn statement(
        &mut self,
        frame: &mut Frame<'a>,
        statement: &'a Statement<'a>,
    ) -> Result<(), Refused> {
        match statement {
            Statement::Label(name, line) => {
                self.line = *line;
                self.write(format!("{}:", frame.name(name)));
            }
            Statement::Instruction(instruction) => {
                self.line = instruction.line;
                return self.instruction(frame, instruction);
            }
            Statement::Loc { at, .. } => {
                frame.location = Some(*at);
                self.location(*at);
            }
            Statement::Open => {
                frame.open();
                self.write("{");
            }
            Statement::Close => {
                frame.close();
                self.write("}");
            }
            Statement::Register(register) => {
                frame.declare_register(register);
                let mut text = String::from(".reg ");
                if register.vector > 1 {
                    let _ = write!(text, ".v{} ", register.vector);
                }
                let _ = write!(text, ".{} {}", register.ty, frame.name(register.name));
                if let Some(count) = register.count {
                    let _ = write!(text, "<{count}>");
                }
                self.write(text + ";");
            }
            Statement::Variable(variable) if variable.space == Space::Param => {
                let number = self.declare_parameter(variable)?;
                frame.declare(variable.name, number, Role::Own);
            }
            Statement::Variable(variable) => self.variable(frame, variable)?,
            Statement::BranchTargets(name, targets) => {
                let targets: Vec<&str> = targets.iter().map(|name| frame.name(name)).collect();
                let targets = targets.join(", ");
                self.write(format!("{}: .branchtargets {targets};", frame.name(name)));
            }
            Statement::Pragma(text) => self.write(format!(".pragma \"{text}\";")),
            Statement::CallTargets(..) | Statement::Prototype(..) => {}
        }
        Ok(())
    }

    fn location(&mut self, at: Location) {
        self.write(format!(".loc {} {} {}", at.file, at.line, at.column));
    }

    fn variable(&mut self, frame: &Frame<'a>, variable: &'a Variable<'a>) -> Result<(), Refused> {
        let name = variable.name;
        let is_inserted = frame.prefix.is_some();
        let space = match variable.space {
            Space::Local => "local",
            // It exists once, so its function must be inserted only once.
            Space::Shared => {
                if is_inserted && !self.with_statics.insert(frame.function.name) {
                    let reason = format!(
                        "the shared variable {name} belongs to {}, which is called in several \
                         places",
                        frame.function.name
                    );
                    return Refused::new(variable.line, reason);
                }
                "shared"
            }
            Space::Global if !is_inserted => "global",
            Space::Const if !is_inserted => "const",
            _ => {
                let reason = format!(
                    "{} has the static variable {name}, so it cannot be inlined",
                    frame.function.name
                );
                return Refused::new(variable.line, reason);
            }
        };
        if !variable.init.is_empty() || variable.is_managed() {
            let reason = format!("{name} has an initial value");
            return Refused::new(variable.line, reason);
        }
        let mut text = format!(".{space} ");
        if let Some(align) = variable.align {
            let _ = write!(text, ".align {align} ");
        }
        if variable.vector > 1 {
            let _ = write!(text, ".v{} ", variable.vector);
        }
        let _ = write!(text, ".{} {}", variable.ty, frame.name(name));
        match variable.count {
            Some(count) if variable.array || count != 1 => {
                let _ = write!(text, "[{count}]");
            }
            Some(_) => {}
            None => text.push_str("[]"),
        }
        self.write(text + ";");
        Ok(())
    }

    fn instruction(
        &mut self,
        frame: &mut Frame<'a>,
        instruction: &'a Instruction<'a>,
    ) -> Result<(), Refused> {
        let is_param = || instruction.has("param") || instruction.has("param::func");
        match instruction.opcode {
            "call" => return self.call(frame, instruction),
            "ret" => {
                if let Some(prefix) = &frame.prefix {
                    let guard = guard(frame.predicate(instruction.predicate), false);
                    let text = format!("{guard}bra ${prefix}end;");
                    self.write(text);
                    return Ok(());
                }
            }
            "ld" | "st" if is_param() && self.access(frame, instruction)? => return Ok(()),
            _ => {}
        }
        let mut parameter = None;
        for operand in &instruction.operands {
            crate::ast::names(operand, &mut |name| {
                if frame.parameter(name).is_some() {
                    parameter = Some(name);
                }
            });
        }
        if let Some(name) = parameter {
            let reason = format!("the address of {name}, a parameter of a function, is used");
            return Refused::new(instruction.line, reason);
        }
        let text = frame.instruction(instruction).to_string();
        self.write(text);
        Ok(())
    }

    fn call(
        &mut self,
        frame: &mut Frame<'a>,
        instruction: &'a Instruction<'a>,
    ) -> Result<(), Refused> {
        let line = instruction.line;
        let Some(call) = Call::of(instruction) else {
            let reason = "the operands of the call are not results, a function and arguments";
            return Refused::new(line, reason);
        };
        let name = call.name;
        let found = self.callees.get(name);
        let Some(callee) = found.filter(|_| call.more.is_empty() && frame.bits(name) == 0) else {
            return Refused::new(
                line,
                format!("call of a function through a pointer: {name}"),
            );
        };
        let function = callee.function;
        let Some(body) = &function.body else {
            return self.system_call(frame, instruction, name);
        };
        if function.entry {
            return Refused::new(line, format!("call of the kernel {name}"));
        }
        if self.open.contains(&name) || frame.function.name == name {
            return Refused::new(line, format!("recursive call of {name}"));
        }
        if self.open.len() >= MAX_DEPTH {
            return Refused::new(line, format!("calls are nested more than {MAX_DEPTH} deep"));
        }
        if let Some((directive, _)) = function.directives.first() {
            // `.noreturn`, for example, lets the assembler assume that the function does not
            // return.
            let reason = format!("call of {name}, which has the directive .{directive}");
            return Refused::new(line, reason);
        }
        self.expect_distinct(function, callee.conflict)?;
        self.insertions += 1;
        self.insert(cost_of_signature(function))?;
        let prefix = format!("{}{}_", self.prefix, self.insertions);
        if instruction.predicate.is_some() {
            let guard = guard(frame.predicate(instruction.predicate), true);
            let text = format!("{guard}bra ${prefix}skip;");
            self.write(text);
        }
        self.write("{");
        let mut inner = Frame::new(function, Some(prefix.clone()));
        self.pass(frame, &mut inner, instruction, &call)?;
        let results = self.declare_results(&mut inner, line, &call)?;
        inner.open();
        self.open.push(name);
        self.body(&mut inner, body)?;
        self.open.pop();
        self.line = line;
        self.write(format!("${prefix}end:"));
        for ((result, formal), number) in call.returns.iter().zip(&function.returns).zip(results) {
            self.take(frame, &inner, instruction, result, formal, number)?;
        }
        self.write("}");
        if instruction.predicate.is_some() {
            self.write(format!("${prefix}skip:"));
        }
        if let Some(at) = frame.location {
            self.location(at);
        }
        Ok(())
    }

    /// A call of a function that the driver defines.
    fn system_call(
        &mut self,
        frame: &Frame<'a>,
        instruction: &'a Instruction<'a>,
        name: &str,
    ) -> Result<(), Refused> {
        let what = match name {
            "__assertfail" => {
                self.has_asserts = true;
                let guard = guard(frame.predicate(instruction.predicate), false);
                let text = format!("{guard}trap;");
                self.write(text);
                return Ok(());
            }
            "vprintf" => "printf in a kernel",
            "malloc" | "free" => "memory that the kernel allocates",
            _ => "call of a function that the text does not define",
        };
        Refused::new(instruction.line, format!("{what}: {name}"))
    }
}

/// A predicate as text, or its opposite.
fn guard(predicate: Option<Predicate<'_>>, is_opposite: bool) -> String {
    match predicate {
        Some(Predicate { name, negated }) => {
            let not = if negated != is_opposite { "!" } else { "" };
            format!("@{not}{name} ")
        }
        None => String::new(),
    }
}
