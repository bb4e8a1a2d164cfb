//! Texts that end the process inside NVIDIA's assembler.
//!
//! Each rule is a cause, found by random edits of texts, and by hand, with ptxas 12.0, 12.4, 12.8,
//! 12.9, 13.0 and 13.5. The test `crashes` runs ptxas with an example of each.

mod declared;

use std::collections::HashMap;

use self::declared::Declared;
use crate::ast::{Base, Init, Instruction, Literal, Module, Operand, Space, Statement, Variable};
use crate::error::Error;
use crate::flow::size_of_variable;
use crate::lexer::{Kind, Lexer, NOT_ASCII, UNEXPECTED};
use crate::parameters::check_parameters;

/// The largest alignment. With 2³¹, ptxas crashes, or fills its memory with zeros.
const MAX_ALIGN: u64 = 1 << 20;

/// The assembler computes the size of a variable in 32 bits, and so makes a variable of 4 bytes of
/// one with 2³² + 4 bytes.
const MAX_SIZE: u64 = u32::MAX as u64;

/// Checks a text for the known causes by which NVIDIA's assembler ends the process that it runs in,
/// such as a store behind the end of a parameter. A driver contains this assembler, so the check is
/// made before a driver or a linker gets a text.
///
/// A text that is refused is wrong in any case: the assembler either refuses it too, or crashes, on
/// some architecture. The exception is a constant expression that divides by something else than a
/// positive number, which is refused although it may be right, because its value is not computed. A
/// text that [`parse`](crate::parse) does not understand is only checked for causes that a list of
/// its tokens shows. There may be other causes, which are not known.
///
/// # Errors
///
/// Names the line and the cause.
///
/// ```
/// let text = ".version 8.3\n.target sm_80\n.visible .entry %laneid() { ret; }";
/// let error = cuda_ptx::check_crashes(text).unwrap_err();
/// assert_eq!(error.line, 3);
/// assert_eq!(error.message, "the name of the kernel %laneid begins with %");
/// # Ok::<(), cuda_ptx::Error>(())
/// ```
pub fn check_crashes(text: &str) -> Result<(), Error> {
    check_tokens(text)?;
    // The assembler reports most errors of syntax, and the parser knows fewer forms than it does.
    match crate::parse(text) {
        Ok(module) => check_module(&module),
        Err(_) => Ok(()),
    }
}

fn error<T>(line: u32, message: String) -> Result<T, Error> {
    Err(Error {
        line,
        column: 1,
        message,
    })
}

/// The causes that do not need a syntax tree.
fn check_tokens(text: &str) -> Result<(), Error> {
    let mut lexer = Lexer::new(text);
    // An unexpected character is an error here: for one that is not ASCII, ptxas 12.4 crashes, and
    // for others, all versions report it. Other errors of the lexer end the list of tokens, and are
    // left to the assembler.
    let mut next = || match lexer.next() {
        Ok(token) => Ok(Some(token).filter(|token| token.kind != Kind::End)),
        Err(error) if [UNEXPECTED, NOT_ASCII].contains(&error.message.as_str()) => Err(error),
        Err(_) => Ok(None),
    };
    let mut token = next()?;
    let mut declared = Declared::default();
    while let Some(first) = token {
        if declared.take(first) {
            let message = format!("the function {} has the name of a variable", first.text);
            return error(first.line, message);
        }
        let second = next()?;
        token = second;
        let value = second.and_then(|second| match second.kind {
            Kind::Number(Literal::Int(value)) => Some(value),
            _ => None,
        });
        match (first.kind, first.text) {
            (Kind::Dot, "align") => {
                if let Some(align) = value.filter(|&align| align > MAX_ALIGN) {
                    let message = format!("the alignment {align} is above {MAX_ALIGN}");
                    return error(first.line, message);
                }
            }
            // The assembler divides without a check, so -2⁶³ / -1 is a fault of the processor.
            (Kind::Punct(b'/'), _)
                if !value.is_some_and(|value| value != 0 && i64::try_from(value).is_ok()) =>
            {
                let divisor = second.map_or("nothing", |second| second.text);
                return error(
                    first.line,
                    format!(
                        "a constant expression divides by {divisor}; the divisor must be a \
                         positive number"
                    ),
                );
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_module(module: &Module<'_>) -> Result<(), Error> {
    check_parameters(module)?;
    let mut names = Names::default();
    for variable in &module.variables {
        names.declare(variable)?;
        for init in &variable.init {
            if let Init::Symbol { name, .. } = init
                && name.starts_with('%')
                && names.depth_of(name).is_none()
            {
                return error(
                    variable.line,
                    format!(
                        "the initial value of {} is the register {name}",
                        variable.name
                    ),
                );
            }
        }
    }
    for function in &module.functions {
        if function.entry && function.name.starts_with('%') {
            return error(
                function.line,
                format!("the name of the kernel {} begins with %", function.name),
            );
        }
        names.open();
        for variable in function.returns.iter().chain(&function.params) {
            names.declare(variable)?;
        }
        names.open();
        for statement in function.body.iter().flatten() {
            match statement {
                Statement::Open => names.open(),
                Statement::Close => names.close(),
                Statement::Variable(variable) => names.declare(variable)?,
                Statement::Register(register) => names.add(register.name, register.count),
                Statement::Instruction(instruction) => check_instruction(&names, instruction)?,
                _ => {}
            }
        }
        names.close();
        names.close();
    }
    Ok(())
}

/// The registers and variables that an instruction can refer to.
#[derive(Default)]
struct Names<'a> {
    depth: u32,
    /// The names that were declared in each open block.
    blocks: Vec<Vec<&'a str>>,
    /// The depths at which a name was declared. The count is that of registers with numbers.
    declared: HashMap<&'a str, Vec<(u32, Option<u32>)>>,
    /// The variables in parameter space, with their depths.
    params: Vec<(&'a str, u32)>,
}

/// The depth of the parameters of a function. Its body has the next one.
const PARAMETERS: u32 = 1;

impl<'a> Names<'a> {
    fn open(&mut self) {
        self.depth += 1;
        self.blocks.push(Vec::new());
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        for name in self.blocks.pop().unwrap_or_default() {
            self.declared.get_mut(name).and_then(Vec::pop);
        }
        while self.params.last().is_some_and(|it| it.1 > self.depth) {
            self.params.pop();
        }
    }

    fn declare(&mut self, variable: &Variable<'a>) -> Result<(), Error> {
        if let Some(size) = size_of_variable(variable).filter(|&size| size > MAX_SIZE) {
            let name = variable.name;
            let message = format!("the variable {name} has {size} bytes; the limit is {MAX_SIZE}");
            return error(variable.line, message);
        }
        if variable.space == Space::Param {
            self.params.push((variable.name, self.depth));
        } else {
            self.add(variable.name, None);
        }
        Ok(())
    }

    fn add(&mut self, name: &'a str, count: Option<u32>) {
        let places = self.declared.entry(name).or_default();
        places.push((self.depth, count));
        if let Some(block) = self.blocks.last_mut() {
            block.push(name);
        }
    }

    /// Returns the innermost depth at which a name was declared, except as a parameter.
    fn depth_of(&self, name: &str) -> Option<u32> {
        let single = self.declared.get(name).and_then(|places| {
            let depths = places.iter().filter(|(_, count)| count.is_none());
            depths.map(|(depth, _)| *depth).max()
        });
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        // `%r1<20>` declares `%r110`, so each split is tried.
        let numbered = (name.len() - digits..name.len()).filter_map(|at| {
            let (prefix, number) = name.split_at(at);
            let number: u32 = number.parse().ok()?;
            let places = self.declared.get(prefix)?.iter();
            let found = places.filter(|(_, count)| count.is_some_and(|count| number < count));
            found.map(|(depth, _)| *depth).max()
        });
        numbered.chain(single).max()
    }

    /// Returns the depth of a variable in parameter space that a name refers to.
    fn param(&self, name: &str) -> Option<u32> {
        let params = self.params.iter().filter(|(param, _)| *param == name);
        let depth = params.map(|(_, depth)| *depth).max()?;
        self.depth_of(name)
            .is_none_or(|other| other < depth)
            .then_some(depth)
    }
}

fn check_instruction(names: &Names<'_>, instruction: &Instruction<'_>) -> Result<(), Error> {
    let is_store =
        instruction.opcode == "st" && (instruction.has("param") || instruction.has("param::func"));
    for operand in &instruction.operands {
        match operand {
            Operand::Address(Base::Name(name), _)
                if name.starts_with('%')
                    && names.depth_of(name).is_none()
                    && names.param(name).is_none() =>
            {
                return error(
                    instruction.line,
                    format!("the address begins with {name}, which is not declared"),
                );
            }
            Operand::Address(Base::Name(name), _) if is_store && names.param(name).is_none() => {
                return error(
                    instruction.line,
                    format!("a store to parameter space at {name}, which is not a parameter"),
                );
            }
            // The assembler refuses this without an offset, and crashes with one, even with `+0`.
            Operand::Name(name) | Operand::Offset(name, _)
                if instruction.opcode == "mov"
                    && names.param(name).is_some_and(|depth| depth > PARAMETERS) =>
            {
                return error(
                    instruction.line,
                    format!("the address of {name} is taken, which is a parameter of a call"),
                );
            }
            _ => {}
        }
    }
    if instruction.opcode == "call" {
        return check_call(instruction);
    }
    Ok(())
}

fn check_call(instruction: &Instruction<'_>) -> Result<(), Error> {
    if let Some(modifier) = instruction.modifiers.iter().find(|name| **name != "uni") {
        let message = format!("a call with the modifier .{modifier}");
        return error(instruction.line, message);
    }
    if let [Operand::List(results), _, ..] = instruction.operands.as_slice()
        && results.iter().any(|it| matches!(it, Operand::Literal(_)))
    {
        let message = String::from("the result of a call is stored to a number");
        return error(instruction.line, message);
    }
    Ok(())
}
