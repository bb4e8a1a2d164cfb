//! Finds the constant tables of a module: variables that no instruction of the module can write.
//!
//! The search follows addresses through registers by name, without regard to the flow of control.
//! So it may miss a table, but every variable that it finds is only read.

use std::collections::{BTreeSet, HashMap};

use crate::ast::{
    Function, Init, Instruction, Linkage, Module, Operand, Space, Statement, Variable, names,
};

/// Instructions whose result is the address of a table if a source is one.
const ARITHMETIC: &[&str] = &[
    "add", "and", "cvt", "cvta", "mad", "mov", "or", "selp", "sub",
];

/// Instructions that load from the address in their second operand.
const LOADS: &[&str] = &["ld", "ldu"];

/// The number of times that the instructions of a function are followed. A function that needs more
/// may write every table.
const MAX_PASSES: u32 = 24;

/// Sets [`Variable::constant`] for the constant tables of a module.
pub(crate) fn mark(module: &mut Module<'_>) {
    let mut candidates: HashMap<&str, usize> = HashMap::new();
    for (index, variable) in module.variables.iter().enumerate() {
        if is_candidate(variable) {
            candidates.insert(variable.name, index);
        }
    }
    // A name that is declared twice, or that an initial value has, is not followed.
    for (index, variable) in module.variables.iter().enumerate() {
        if candidates.get(variable.name) != Some(&index) {
            candidates.remove(variable.name);
        }
    }
    let addresses = module.variables.iter().flat_map(|variable| &variable.init);
    for init in addresses {
        if let Init::Symbol { name, .. } = init {
            candidates.remove(name);
        }
    }
    let mut exposed = BTreeSet::new();
    for function in &module.functions {
        if !candidates.is_empty() {
            let mut uses = Uses {
                candidates: &candidates,
                registers: HashMap::new(),
                exposed: &mut exposed,
            };
            uses.follow(function);
        }
    }
    let found: Vec<usize> = candidates.into_values().collect();
    for index in found {
        if let Some(variable) = module.variables.get_mut(index) {
            variable.constant = !exposed.contains(&index);
        }
    }
}

/// Whether a variable is a table if no instruction writes to it.
fn is_candidate(variable: &Variable<'_>) -> bool {
    let is_address = |init: &Init<'_>| matches!(init, Init::Symbol { .. });
    variable.linkage == Linkage::Internal
        && matches!(variable.space, Space::Global | Space::Const)
        && variable.attributes.is_empty()
        && !matches!(variable.ty, "texref" | "surfref" | "samplerref")
        && !variable.init.is_empty()
        && !variable.init.iter().any(is_address)
}

/// How one function uses the addresses of the candidates.
struct Uses<'m, 'a> {
    candidates: &'m HashMap<&'a str, usize>,
    /// The candidates whose addresses a register may hold.
    registers: HashMap<&'m str, BTreeSet<usize>>,
    /// The candidates that may be written.
    exposed: &'m mut BTreeSet<usize>,
}

impl<'m> Uses<'m, '_> {
    /// Finds the candidates that a function may write.
    fn follow(&mut self, function: &'m Function<'m>) {
        let body = || function.body.iter().flatten();
        let mut is_used = false;
        for statement in body() {
            match statement {
                Statement::Instruction(instruction) => {
                    for operand in &instruction.operands {
                        names(operand, &mut |name| {
                            is_used |= self.candidates.contains_key(name);
                        });
                    }
                }
                Statement::Variable(variable) => {
                    for init in &variable.init {
                        if let Init::Symbol { name, .. } = init {
                            self.exposed.extend(self.candidates.get(name));
                        }
                    }
                }
                _ => {}
            }
        }
        if !is_used {
            return;
        }
        // Each pass either adds a candidate to a register or is the last one.
        for _ in 0..MAX_PASSES {
            let mut is_new = false;
            for statement in body() {
                if let Statement::Instruction(instruction) = statement {
                    is_new |= self.instruction(instruction);
                }
            }
            if !is_new {
                return;
            }
        }
        self.exposed.extend(self.candidates.values());
    }

    /// The candidates whose addresses an operand may hold.
    fn held(&self, operand: &Operand<'m>) -> BTreeSet<usize> {
        let mut held = BTreeSet::new();
        names(operand, &mut |name| {
            held.extend(self.candidates.get(name));
            held.extend(self.registers.get(name).into_iter().flatten());
        });
        held
    }

    /// Follows one instruction. Returns whether a register may hold a further candidate.
    fn instruction(&mut self, instruction: &'m Instruction<'m>) -> bool {
        let opcode = instruction.opcode;
        let (target, sources) = match instruction.operands.as_slice() {
            [target, sources @ ..] => (target, sources),
            [] => return false,
        };
        if LOADS.contains(&opcode) || matches!(opcode, "prefetch" | "prefetchu" | "setp") {
            // The result is no address of a table: its elements are numbers.
            let is_load = LOADS.contains(&opcode) && matches!(sources, [Operand::Address(..), ..]);
            let is_read = is_load || !LOADS.contains(&opcode);
            if !is_read {
                self.expose(&instruction.operands);
            }
            return false;
        }
        let held: BTreeSet<usize> = sources.iter().flat_map(|it| self.held(it)).collect();
        match target {
            Operand::Name(name) if ARITHMETIC.contains(&opcode) => {
                if held.is_empty() {
                    return false;
                }
                let known = self.registers.entry(name).or_default();
                let before = known.len();
                known.extend(held);
                known.len() > before
            }
            _ => {
                self.expose(&instruction.operands);
                false
            }
        }
    }

    /// Records that the tables in these operands may be written, or passed on.
    fn expose(&mut self, operands: &[Operand<'m>]) {
        for operand in operands {
            // The address of an operand that is only overwritten is not passed on, but it is not
            // worth a rule.
            let held = self.held(operand);
            self.exposed.extend(held);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;

    const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";
    const TABLE: &str = ".global .align 4 .u32 t[4] = {1, 2, 3, 4};\n";

    /// Whether `t` is a constant table if a kernel has these instructions.
    fn is_table(variables: &str, body: &str) -> bool {
        let text = format!(
            "{HEAD}{variables}.visible .func f(.param .b64 p) {{ ret; }}\n\
             .visible .entry k(.param .u64 x) {{ .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<5>; \
             ld.param.u64 %d1, [x]; {body} ret; }}"
        );
        let module = parse(&text).unwrap();
        let t = module
            .variables
            .iter()
            .find(|variable| variable.name == "t");
        t.unwrap().constant
    }

    #[test]
    fn loads_at_any_offset_leave_a_table_constant() {
        let loads = "mov.u64 %d2, t; add.s64 %d3, %d2, %d1; ld.global.nc.u32 %r1, [%d3+4]; \
                     cvta.global.u64 %d4, %d3; ld.u32 %r2, [%d4]; prefetch.global.L2 [t]; \
                     ld.global.u32 %r3, [t+8]; st.global.u32 [%d1], %r3; setp.eq.s64 %p, %d2, 0;";
        assert!(is_table(TABLE, loads));
        assert!(is_table(
            &TABLE.replace("global", "const"),
            "ld.const.u32 %r1, [t];"
        ));
        assert!(is_table(TABLE, ""));
    }

    #[test]
    fn a_variable_that_may_be_written_is_no_table() {
        for body in [
            "st.global.u32 [t], 1;",
            "mov.u64 %d2, t; st.global.u32 [%d2+4], %r1;",
            "mov.u64 %d2, t; add.s64 %d3, %d2, 4; atom.global.add.u32 %r1, [%d3], 1;",
            "mov.u64 %d2, t; red.global.add.u32 [%d2], 1;",
            // The address is stored, passed, or changed by an instruction that is not followed.
            "mov.u64 %d2, t; st.global.u64 [%d1], %d2;",
            "mov.u64 %d2, t; { .param .b64 q; st.param.b64 [q], %d2; call.uni f, (q); }",
            "mov.u64 %d2, t; xor.b64 %d3, %d2, 1; st.global.u32 [%d3], 1;",
            "mov.u64 %d2, t; shfl.sync.idx.b32 %r1, %d2, 0, 31, -1;",
            "mov.b64 {%r1, %r2}, t;",
            // The register gets the address after the store, in an earlier iteration.
            "l: st.global.u32 [%d3], 1; mov.u64 %d3, t; bra l;",
        ] {
            assert!(!is_table(TABLE, body), "{body}");
        }
    }

    #[test]
    fn a_variable_that_others_may_change_is_no_table() {
        for linkage in [".visible ", ".weak ", ".common "] {
            assert!(!is_table(&format!("{linkage}{TABLE}"), ""), "{linkage}");
        }
        let managed = TABLE.replace(".global", ".global .attribute(.managed)");
        assert!(!is_table(&managed, ""));
        assert!(!is_table(".global .align 4 .u32 t[4];\n", ""));
        let pointer = format!("{TABLE}.global .u64 p[1] = {{t}};\n");
        assert!(!is_table(&pointer, ""));
        let pointer = format!("{TABLE}.visible .global .u64 p[1] = {{generic(t)+4}};\n");
        assert!(!is_table(&pointer, ""));
        // A table with addresses may lead to other variables.
        assert!(!is_table(".global .u64 u;\n.global .u64 t[1] = {u};\n", ""));
    }
}
