//! A program whose variables are placed in the memory of one device.

use std::sync::Arc;

use super::address::FUNCTION;
use super::fault::LoadError;
use super::program::{Global, Program, Symbol};
use crate::memory::Arena;

/// A loaded module: code and the addresses of its variables.
#[derive(Debug)]
pub struct Image {
    program: Arc<Program>,
    addresses: Vec<u64>,
    consts32: Arc<[u32]>,
    consts64: Arc<[u64]>,
}

impl Image {
    /// Allocates and initializes the variables of `program` in `arena`.
    ///
    /// # Errors
    ///
    /// [`LoadError::OutOfMemory`] if the variables do not fit; nothing stays allocated in this
    /// case.
    pub fn new(program: &Arc<Program>, arena: &Arena) -> Result<Self, LoadError> {
        let mut image = Self {
            consts32: program.consts32.as_slice().into(),
            consts64: Arc::from([]),
            program: Arc::clone(program),
            addresses: Vec::new(),
        };
        for global in &program.globals {
            match arena.alloc(global.size, global.align) {
                Some(address) => image.addresses.push(address),
                None => {
                    let error = out_of_memory(global, arena);
                    image.release(arena);
                    return Err(error);
                }
            }
        }
        let mut consts64 = program.consts64.clone();
        for fixup in &program.fixups {
            if let Some(constant) = consts64.get_mut(fixup.constant as usize) {
                let address = image.address(fixup.target);
                *constant = address.wrapping_add_signed(fixup.offset);
            }
        }
        image.consts64 = consts64.into();
        let map = arena.map();
        for (global, &address) in program.globals.iter().zip(&image.addresses) {
            let mut bytes = global.init.clone();
            for relocation in &global.relocations {
                let value = image.address(relocation.target);
                let value = value.wrapping_add_signed(relocation.offset).to_le_bytes();
                let at = relocation.at as usize;
                match relocation.byte {
                    Some(byte) => bytes[at] = value[byte as usize],
                    None => bytes[at..at + 8].copy_from_slice(&value),
                }
            }
            let zeros = global.size - bytes.len() as u64;
            let written = map
                .write(address, &bytes)
                .and_then(|()| map.fill(address + bytes.len() as u64, &[0], zeros));
            if written.is_err() {
                let error = out_of_memory(global, arena);
                image.release(arena);
                return Err(error);
            }
        }
        Ok(image)
    }

    fn address(&self, symbol: Symbol) -> u64 {
        match symbol {
            Symbol::Global(index) => self.addresses.get(index).copied().unwrap_or(0),
            Symbol::Function(index) => FUNCTION + index as u64,
        }
    }

    /// The 32-bit constants of the code.
    pub(super) fn consts32(&self) -> &Arc<[u32]> {
        &self.consts32
    }

    /// The 64-bit constants of the code, with the addresses of this image's variables.
    pub(super) fn consts64(&self) -> &Arc<[u64]> {
        &self.consts64
    }

    /// The code.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The address and size of the variable `name`.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        let globals = &self.program.globals;
        let find = |visible| {
            let is_it = |global: &Global| global.visible == visible && global.name == name;
            globals.iter().position(is_it)
        };
        // Linked modules may each have a private variable of this name; prefer the visible one.
        let index = find(true).or_else(|| find(false))?;
        Some((*self.addresses.get(index)?, globals[index].size))
    }

    /// Frees the variables in `arena`, which must be the arena that was passed to `new`. A
    /// second call does nothing.
    pub fn release(&mut self, arena: &Arena) {
        for address in self.addresses.drain(..) {
            // An error is ignored: a program that passes a variable to cuMemFree gets the error
            // there, and the variable is gone here either way.
            let _ = arena.free(address, "the unloading of its module");
        }
    }
}

/// The error for a variable that does not fit beside what is allocated now.
fn out_of_memory(global: &Global, arena: &Arena) -> LoadError {
    LoadError::OutOfMemory {
        variable: global.name.clone(),
        size: global.size,
        free: arena.capacity().saturating_sub(arena.used()),
        total: arena.capacity(),
    }
}
