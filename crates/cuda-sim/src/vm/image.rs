//! A program with its variables in the memory of one device.

use std::sync::Arc;

use super::fault::LoadError;
use super::program::Program;
use crate::memory::Arena;

/// A loaded module: code, and the addresses of its variables.
#[derive(Debug)]
pub struct Image {
    program: Arc<Program>,
    addresses: Vec<u64>,
}

impl Image {
    pub(super) fn new(program: Arc<Program>, arena: &Arena) -> Result<Self, LoadError> {
        let mut image = Self {
            program,
            addresses: Vec::new(),
        };
        for global in &image.program.globals {
            match arena.alloc(global.size, global.align) {
                Some(address) => image.addresses.push(address),
                None => {
                    let size = global.size;
                    image.release(arena);
                    return Err(LoadError::OutOfMemory(size));
                }
            }
        }
        Ok(image)
    }

    /// The code.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Address and size of the variable `name`.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        let globals = &self.program.globals;
        let index = globals.iter().position(|global| global.name == name)?;
        Some((*self.addresses.get(index)?, globals[index].size))
    }

    /// Frees the variables in `arena`, which must be the one that `instantiate` got. Nothing happens the second time.
    pub fn release(&mut self, arena: &Arena) {
        for address in self.addresses.drain(..) {
            // Whoever frees a variable with cuMemFree gets an error there; here it is gone either way.
            let _ = arena.free(address);
        }
    }
}
