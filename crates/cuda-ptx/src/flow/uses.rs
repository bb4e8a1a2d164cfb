//! What a kernel uses of its module and of its parameters.

use super::lower::Kernel;
use super::op::Op;

impl Kernel {
    /// The names of the variables of the module whose addresses the kernel uses.
    pub(crate) fn used_variables(&self) -> Vec<String> {
        let used = self.vars.iter().filter(|var| var.is_used && var.is_module);
        used.map(|var| var.name.clone()).collect()
    }

    /// The names of the constant tables of the module whose addresses the kernel uses.
    pub(crate) fn used_tables(&self) -> Vec<String> {
        let used = self.vars.iter().filter(|var| var.is_used && var.is_table);
        used.map(|var| var.name.clone()).collect()
    }

    /// The parameter bytes that addresses or branches depend on: the parameter, the offset and the
    /// size.
    pub(crate) fn needed_params(&self) -> Vec<(u32, u64, u32)> {
        let order = self.graph.order.iter();
        let blocks = order.map(|&block| &self.blocks[block as usize]);
        let ins = blocks.flat_map(|block| &block.ins);
        let mut needed: Vec<_> = ins
            .filter_map(|ins| match (ins.op, ins.target) {
                (
                    Op::Param {
                        param,
                        offset,
                        size,
                        ..
                    },
                    Some(target),
                ) if self.needed.by_all[target as usize] => Some((param, offset, size)),
                _ => None,
            })
            .collect();
        needed.sort_unstable();
        needed.dedup();
        needed
    }
}
