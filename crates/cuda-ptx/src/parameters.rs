//! Accesses to variables in parameter space.

use std::collections::HashMap;

use crate::ast::{Base, Instruction, Module, Operand, Space, Statement, Variable};
use crate::error::Error;
use crate::flow::{bits_of, size_of_variable};

/// The variables of a function, one map for each block that is open.
type Scopes<'a> = Vec<HashMap<&'a str, u64>>;

/// Checks that each `ld.param` and `st.param` at a constant offset stays in its variable.
///
/// NVIDIA's assembler does not refuse all such accesses: version 13.5 ends with a segmentation
/// fault for a store that is before the variable, or far behind it. The driver has the same
/// assembler, so it would end the process. A text from an unknown source is therefore checked
/// before the driver loads it.
///
/// # Errors
///
/// Names the line of the first access that leaves its variable, with its offset and both sizes.
///
/// ```
/// let text = ".version 8.0\n.target sm_80\n.visible .entry k(.param .u32 n)\n\
///             { .reg .b64 %x; ld.param.u64 %x, [n]; ret; }";
/// let error = cuda_ptx::check_parameters(&cuda_ptx::parse(text)?).unwrap_err();
/// assert_eq!(error.line, 4);
/// assert_eq!(error.message, "an access to 8 bytes at offset 0 of parameter n, which has 4 bytes");
/// # Ok::<(), cuda_ptx::Error>(())
/// ```
pub fn check_parameters(module: &Module<'_>) -> Result<(), Error> {
    for function in &module.functions {
        let mut scopes = vec![HashMap::new()];
        for variable in function.returns.iter().chain(&function.params) {
            declare(&mut scopes, variable);
        }
        for statement in function.body.iter().flatten() {
            match statement {
                Statement::Open => scopes.push(HashMap::new()),
                Statement::Close => {
                    scopes.pop();
                }
                Statement::Variable(variable) if variable.space == Space::Param => {
                    declare(&mut scopes, variable);
                }
                Statement::Instruction(instruction) => check(&scopes, instruction)?,
                _ => {}
            }
        }
    }
    Ok(())
}

/// Adds a variable to the innermost block.
fn declare<'a>(scopes: &mut Scopes<'a>, variable: &Variable<'a>) {
    if let (Some(scope), Some(size)) = (scopes.last_mut(), size_of_variable(variable)) {
        scope.insert(variable.name, size);
    }
}

fn check(scopes: &Scopes<'_>, instruction: &Instruction<'_>) -> Result<(), Error> {
    let is_param = |it: &&str| matches!(*it, "param" | "param::entry" | "param::func");
    let (address, value) = match (instruction.opcode, instruction.operands.as_slice()) {
        ("ld", [value, address, ..]) | ("st", [address, value, ..]) => (address, value),
        _ => return Ok(()),
    };
    let Operand::Address(Base::Name(name), offset) = address else {
        return Ok(());
    };
    if !instruction.modifiers.iter().any(is_param) {
        return Ok(());
    }
    // A name that is not among them is that of a register, or of a variable without a known size.
    let Some(&size) = scopes.iter().rev().find_map(|scope| scope.get(name)) else {
        return Ok(());
    };
    let ty = instruction.modifiers.last().copied().unwrap_or("");
    let count = match value {
        Operand::Vector(values) => values.len() as u64,
        _ => 1,
    };
    let bytes = u64::from(bits_of(ty) / 8) * count;
    let end = u64::try_from(*offset)
        .ok()
        .and_then(|at| at.checked_add(bytes));
    if end.is_some_and(|end| end <= size) {
        return Ok(());
    }
    Err(Error {
        line: instruction.line,
        column: 1,
        message: format!(
            "an access to {bytes} bytes at offset {offset} of parameter {name}, which has {size} \
             bytes"
        ),
    })
}
