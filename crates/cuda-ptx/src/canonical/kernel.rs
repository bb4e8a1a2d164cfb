//! Prints one kernel without calls, with names of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;

use crate::ast::{
    Base, Function, Instruction, Linkage, Operand, Predicate, Space, Statement, Variable,
};
use crate::calls::Inliner;
use crate::flow::{Names, Refused, lower, volatile};
use crate::print;

use super::is_known;
use super::names::{ModuleNames, Taken};
use super::out::Out;
use super::variable::{Variables, declaration, is_plain, typed};

/// The directives of a kernel that are printed: they limit the launch or the number of registers,
/// and a launch that does not fit fails.
pub(super) const DIRECTIVES: &[&str] = &[
    "explicitcluster",
    "maxclusterrank",
    "maxnctapersm",
    "maxnreg",
    "maxntid",
    "minnctapersm",
    "reqnctapercluster",
    "reqntid",
];

/// Prints a kernel of a module. Also returns the numbers of the variables of the module that it
/// uses.
pub(super) fn print<'a>(
    module: &ModuleNames<'_>,
    inliner: &mut Inliner<'a>,
    function: &'a Function<'a>,
) -> Result<(Out, BTreeSet<usize>), Refused> {
    if !is_plain(function.name) {
        let reason = format!("the name {} is not supported", function.name);
        return Refused::new(function.line, reason);
    }
    if module.is_ambiguous(function.name) {
        let reason = "the text defines the kernel more than once";
        return Refused::new(function.line, reason);
    }
    let directives = function.directives.iter().map(|directive| directive.0);
    for directive in directives {
        if !DIRECTIVES.contains(&directive) {
            let reason = format!("the directive .{directive} is not supported");
            return Refused::new(function.line, reason);
        }
    }
    if let Some(pragma) = function.pragmas.iter().find(|it| !is_known(it)) {
        let reason = format!("the pragma \"{pragma}\" is not supported");
        return Refused::new(function.line, reason);
    }
    if let Some(attribute) = function.attributes.first() {
        let reason = format!("the attribute .{} is not supported", attribute.name);
        return Refused::new(function.line, reason);
    }
    let Some(expanded) = inliner.expand(function)? else {
        return body(module, function);
    };
    let text = expanded.text();
    let statements = expanded.statements(&text);
    let statements = statements.or_else(|error| Refused::new(function.line, error.to_string()))?;
    let function = Function {
        body: Some(statements),
        ..function.clone()
    };
    body(module, &function)
}

/// Prints a kernel without calls.
fn body<'a>(
    module: &'a ModuleNames<'a>,
    function: &'a Function<'a>,
) -> Result<(Out, BTreeSet<usize>), Refused> {
    // Refuses what the analysis does not model.
    let variables = module.mentioned(function);
    let kernel = lower(variables.iter().map(|it| it.1), function)?;
    let mut printer = Printer::new(module, &variables, function);
    let signature = printer.signature(function)?;
    printer.names.open();
    printer.labels(function)?;
    for (index, statement) in function.body.iter().flatten().enumerate() {
        let is_volatile = kernel.volatile.contains(&(index as u32));
        printer.statement(statement, is_volatile)?;
    }
    printer.set_first(&kernel.first);
    Ok((printer.finish(signature, function), printer.uses))
}

/// A variable that a name of the kernel refers to.
pub(super) struct Known<'a> {
    /// Its name in the new text.
    pub(super) name: String,
    pub(super) variable: &'a Variable<'a>,
    /// Its number among the variables of the module.
    pub(super) module: Option<usize>,
}

pub(super) struct Printer<'a> {
    pub(super) variables: &'a Variables,
    pub(super) names: Names<'a>,
    pub(super) known: Vec<Known<'a>>,
    taken: Taken<'a>,
    /// The new name of each register that is used.
    pub(super) registers: HashMap<u32, String>,
    /// The number of registers of each type.
    pub(super) counts: BTreeMap<&'a str, u32>,
    pub(super) labels: HashMap<&'a str, String>,
    pub(super) declarations: Out,
    pub(super) out: Out,
    pub(super) uses: BTreeSet<usize>,
    pub(super) line: u32,
}

impl<'a> Printer<'a> {
    fn new(
        module: &'a ModuleNames<'a>,
        mentioned: &[(usize, &'a Variable<'a>)],
        function: &'a Function<'a>,
    ) -> Self {
        let mut printer = Self {
            variables: module.variables,
            names: Names::new(),
            known: Vec::new(),
            taken: Taken::new(module),
            registers: HashMap::new(),
            counts: BTreeMap::new(),
            labels: HashMap::new(),
            declarations: Out::default(),
            out: Out::default(),
            uses: BTreeSet::new(),
            line: function.line,
        };
        for &(index, variable) in mentioned {
            printer.know(variable, variable.name.to_owned(), Some(index));
        }
        printer
    }

    fn know(&mut self, variable: &'a Variable<'a>, name: String, module: Option<usize>) {
        let number = self.known.len() as u32;
        self.known.push(Known {
            name,
            variable,
            module,
        });
        self.names.declare_variable(variable.name, number);
    }

    pub(super) fn refuse<T>(&self, reason: impl Into<String>) -> Result<T, Refused> {
        Refused::new(self.line, reason)
    }

    /// The lines before the body.
    fn signature(&mut self, function: &'a Function<'a>) -> Result<Out, Refused> {
        let linkage = match function.linkage {
            Linkage::Internal => "",
            Linkage::Weak => ".weak ",
            _ => ".visible ",
        };
        let mut out = Out::default();
        out.line(format!("{linkage}.entry {}(", function.name), function.line);
        for (index, param) in function.params.iter().enumerate() {
            self.line = param.line;
            if param.space != Space::Param || !param.init.is_empty() {
                return self.refuse(format!("{} is not a parameter in memory", param.name));
            }
            let name = self.taken.variable(param.name);
            let mut text = String::from(".param ");
            typed(&mut text, param).or_else(|reason| self.refuse(reason))?;
            let _ = write!(text, " {name}");
            match param.count {
                Some(count) if param.array => {
                    let _ = write!(text, "[{count}]");
                }
                Some(_) => {}
                None => return self.refuse(format!("{} has no length", param.name)),
            }
            if index + 1 < function.params.len() {
                text.push(',');
            }
            out.line(text, param.line);
            self.know(param, name, None);
        }
        out.line(")", function.line);
        for (name, numbers) in &function.directives {
            let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
            let text = format!(".{name} {}", numbers.join(", "));
            out.line(text.trim_end(), function.line);
        }
        for pragma in &function.pragmas {
            out.line(format!(".pragma \"{pragma}\";"), function.line);
        }
        Ok(out)
    }

    /// Names the labels, which can be used before they are defined.
    fn labels(&mut self, function: &'a Function<'a>) -> Result<(), Refused> {
        for statement in function.body.iter().flatten() {
            let name = match statement {
                Statement::Label(name, line) => {
                    self.line = *line;
                    name
                }
                Statement::BranchTargets(name, _) => name,
                _ => continue,
            };
            let new = self.taken.label(self.labels.len());
            if self.labels.insert(name, new).is_some() {
                return self.refuse(format!("label {name} is defined twice"));
            }
        }
        Ok(())
    }

    fn label(&self, name: &str) -> Result<String, Refused> {
        match self.labels.get(name) {
            Some(label) => Ok(label.clone()),
            None => self.refuse(format!("label {name} is not defined")),
        }
    }

    /// Prints a statement. A load that the assembler must not repeat is printed as volatile.
    fn statement(
        &mut self,
        statement: &'a Statement<'a>,
        is_volatile: bool,
    ) -> Result<(), Refused> {
        match statement {
            Statement::Label(name, line) => {
                self.line = *line;
                let label = self.label(name)?;
                self.out.line(format!("{label}:"), *line);
            }
            Statement::Instruction(instruction) => {
                self.line = instruction.line;
                match is_volatile {
                    true => self.instruction(&volatile(instruction))?,
                    false => self.instruction(instruction)?,
                }
            }
            Statement::Loc { at, .. } => {
                let text = format!(".loc {} {} {}", at.file, at.line, at.column);
                self.out.line(text, 0);
            }
            Statement::Open => self.names.open(),
            Statement::Close => self.names.close(),
            Statement::Register(register) => self.names.declare_register(register),
            Statement::Variable(variable) => self.variable(variable)?,
            Statement::BranchTargets(name, targets) => {
                let name = self.label(name)?;
                let targets: Result<Vec<String>, Refused> =
                    targets.iter().map(|target| self.label(target)).collect();
                let text = format!("{name}: .branchtargets {};", targets?.join(", "));
                self.out.line(text, self.line);
            }
            Statement::Pragma(pragma) if is_known(pragma) => {
                self.out.line(format!(".pragma \"{pragma}\";"), self.line);
            }
            Statement::Pragma(pragma) => {
                return self.refuse(format!("the pragma \"{pragma}\" is not supported"));
            }
            // The kernel has no calls.
            Statement::CallTargets(..) | Statement::Prototype(..) => {}
        }
        Ok(())
    }

    fn variable(&mut self, variable: &'a Variable<'a>) -> Result<(), Refused> {
        self.line = variable.line;
        let name = self.taken.variable(variable.name);
        if variable.linkage != Linkage::Internal
            || !variable.init.is_empty()
            || !variable.attributes.is_empty()
        {
            return self.refuse(format!(
                "{} is a variable of a function that is visible or has an initial value",
                variable.name
            ));
        }
        let text = declaration(variable, &name).or_else(|reason| self.refuse(reason))?;
        self.declarations.line(text, variable.line);
        self.know(variable, name, None);
        Ok(())
    }

    fn instruction(&mut self, instruction: &Instruction<'a>) -> Result<(), Refused> {
        // The names of the operands, in the new text.
        let mut renamed: HashMap<&'a str, String> = HashMap::new();
        if let Some(Predicate { name, .. }) = instruction.predicate {
            let register = self.register(name)?;
            renamed.insert(name, register);
        }
        let is_branch = matches!(instruction.opcode, "bra" | "brx");
        let last = instruction.operands.len().saturating_sub(1);
        for (index, operand) in instruction.operands.iter().enumerate() {
            if is_branch && index == last {
                let Operand::Name(label) = operand else {
                    return self.refuse(format!("{operand} is not a label"));
                };
                if renamed.contains_key(label) {
                    return self.refuse(format!("{label} is a label and a register"));
                }
                let new = self.label(label)?;
                renamed.insert(label, new);
                continue;
            }
            self.operand(operand, &mut renamed)?;
            if let Operand::Address(Base::Name(name), _) = operand {
                self.expect_space(name, instruction)?;
            }
        }
        let mut new = instruction.clone();
        for operand in &mut new.operands {
            self.offset_of_element(operand, instruction)?;
        }
        self.add_own_lane(&mut new, &mut renamed);
        let mut text = String::new();
        let mut rename = |name: &'a str| match renamed.get(name) {
            Some(name) => name.clone(),
            None => name.to_owned(),
        };
        // Writing to a string does not fail.
        let _ = print::instruction(&mut text, &new, &mut rename);
        self.out.line(text, instruction.line);
        Ok(())
    }

    /// Sets registers to 0 before the first instruction.
    fn set_first(&mut self, registers: &[(String, u32)]) {
        for (name, bits) in registers {
            let known = self.names.used(name);
            if let Some(name) = known.and_then(|reg| self.registers.get(&reg.number)) {
                let text = format!("mov.b{bits} {name}, 0;");
                self.declarations.line(text, 0);
            }
        }
    }

    /// The lines of the kernel.
    fn finish(&mut self, signature: Out, function: &Function<'_>) -> Out {
        let mut out = signature;
        out.line("{", function.line);
        for (ty, count) in &self.counts {
            out.line(format!(".reg .{ty} %{ty}_<{count}>;"), 0);
        }
        out.append(&self.declarations);
        out.append(&self.out);
        out.line("}", 0);
        out
    }
}
