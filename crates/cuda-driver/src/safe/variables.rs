//! The variables of its module that a kernel uses.

use std::ffi::CString;
use std::sync::atomic::Ordering;

use cuda_sys::CUdeviceptr;

use super::kernel::SafeKernel;
use super::memories::Memories;
use super::plan::Plan;
use super::refusal::refused;
use crate::error::{Error, Result, SafeLaunchError};

impl SafeKernel {
    /// The constant tables that the kernel reads and the program has looked up. The program may
    /// have changed their contents, so they count as variables. The other tables can no longer be
    /// looked up, because the program could change them while a launch or a graph reads them.
    #[inline]
    pub(super) fn changed_tables(&self) -> Vec<&String> {
        let inner = &*self.inner;
        if inner.tables.is_empty() || inner.are_tables_constant.load(Ordering::Acquire) {
            return Vec::new();
        }
        let changed = self.function.code().globals().make_constant(&inner.tables);
        if changed.is_empty() {
            inner.are_tables_constant.store(true, Ordering::Release);
        }
        changed
    }

    /// Fails unless all variables that the kernel uses are among the arguments.
    pub(super) fn check_variables(&self, plan: &Plan, memories: &Memories) -> Result<()> {
        let changed = self.changed_tables();
        if plan.contract.variables.is_empty() && changed.is_empty() {
            return Ok(());
        }
        let changed: Result<Vec<_>> = changed
            .iter()
            .map(|name| self.variable(plan, name))
            .collect();
        for (name, address, bytes) in self.variables(plan)?.iter().chain(&changed?) {
            let is_written = plan.writes(name);
            let is_passed = memories.iter().any(|memory| {
                let is_same = memory.address == *address && memory.bytes == *bytes as u64;
                is_same && (memory.is_writable || !is_written)
            });
            if !is_passed {
                return Err(refused(SafeLaunchError::Variable {
                    kernel: self.function.name().to_owned(),
                    variable: name.clone(),
                    is_written,
                }));
            }
        }
        Ok(())
    }

    /// The addresses and sizes of the variables that the kernel uses.
    fn variables(&self, plan: &Plan) -> Result<&[(String, CUdeviceptr, usize)]> {
        if let Some(known) = self.inner.variables.get() {
            return Ok(known);
        }
        let names = plan.contract.variables.iter();
        let variables: Result<Vec<_>> = names.map(|name| self.variable(plan, name)).collect();
        let variables = variables?;
        Ok(self.inner.variables.get_or_init(|| variables))
    }

    /// The address and size of a variable.
    fn variable(&self, plan: &Plan, name: &str) -> Result<(String, CUdeviceptr, usize)> {
        let module = self.function.code();
        let _current = module.context().enter()?;
        let c_name = CString::new(name).map_err(|error| Error::NulByte {
            what: "the name of the variable",
            position: error.nul_position(),
        })?;
        let (address, bytes) = module.variable(&c_name).map_err(|_| {
            refused(SafeLaunchError::Variable {
                kernel: self.function.name().to_owned(),
                variable: name.to_owned(),
                is_written: plan.writes(name),
            })
        })?;
        Ok((name.to_owned(), address, bytes))
    }
}
