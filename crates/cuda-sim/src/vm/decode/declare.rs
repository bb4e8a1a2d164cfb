//! Declarations of registers and variables in a function, and the names in scope.

use super::form::Ty;
use super::function::{FunctionDecoder, Name, Reg, VectorReg, Width};
use super::module::layout;
use super::operand::Sym;
use super::symbols;
use super::{Decoded, invalid, unsupported};
use cuda_ptx::{Register, Space, Variable, register_number};

/// The largest local memory of one frame, in bytes.
pub(super) const MAX_FRAME: u64 = 512 << 10;

impl<'a> FunctionDecoder<'a, '_> {
    /// Reserves space in the frame and declares the variable.
    pub(super) fn local(&mut self, variable: &Variable<'a>) -> Decoded<u32> {
        let (size, align) = layout(variable);
        if size > MAX_FRAME || align > MAX_FRAME {
            return invalid("Too much local data");
        }
        let code = &mut self.out.program.functions[self.index];
        code.local_align = code.local_align.max(align as u32);
        self.frame = self.frame.next_multiple_of(align.max(4));
        let offset = self.frame as u32;
        self.frame += size;
        self.max_frame = self.max_frame.max(self.frame);
        self.sizes.insert(offset, size as u32);
        self.declare(variable.name, Name::Sym(Sym::Local(offset)))?;
        Ok(offset)
    }

    pub(super) fn declare(&mut self, name: &'a str, what: Name) -> Decoded {
        let Some(scope) = self.scopes.last_mut() else {
            return Ok(());
        };
        if scope.names.insert(name, what).is_some() && name != "_" {
            return invalid(format!("Duplicate definition of '{name}'"));
        }
        Ok(())
    }

    pub(super) fn register(&mut self, ty: &str, count: u32) -> Decoded<Reg> {
        let Some(ty) = Ty::parse(ty) else {
            return invalid(format!("Unknown type '.{ty}'"));
        };
        let code = &mut self.out.program.functions[self.index];
        let (width, counter, step) = match ty.width() {
            1 => (Width::Pred, &mut code.preds, 1),
            64 => (Width::W64, &mut code.r64, 1),
            128 => (Width::W128, &mut code.r64, 2),
            _ => (Width::W32, &mut code.r32, 1),
        };
        let slot = *counter;
        *counter += count * step;
        if *counter > 1 << 20 {
            return invalid("Too many registers");
        }
        Ok(Reg {
            width,
            bits: ty.width(),
            slot,
        })
    }

    pub(super) fn registers(&mut self, register: &Register<'a>) -> Decoded {
        let count = register.count.unwrap_or(1);
        let reg = self.register(register.ty, count * register.vector)?;
        let Some(scope) = self.scopes.last_mut() else {
            return Ok(());
        };
        if register.vector > 1 {
            let vector = VectorReg {
                first: reg,
                len: register.vector,
                count: register.count,
            };
            scope.vectors.insert(register.name, vector);
        } else if register.count.is_some() {
            scope.numbered.insert(register.name, (reg, count));
        } else {
            return self.declare(register.name, Name::Reg(reg));
        }
        Ok(())
    }

    pub(super) fn lookup(&self, name: &str) -> Option<Name> {
        let numbered = register_number(name);
        for scope in self.scopes.iter().rev() {
            if let Some(&found) = scope.names.get(name) {
                return Some(found);
            }
            if let Some((prefix, number)) = numbered
                && let Some(&(first, count)) = scope.numbered.get(prefix)
                && number < count
            {
                let step = if first.width == Width::W128 { 2 } else { 1 };
                return Some(Name::Reg(Reg {
                    slot: first.slot + number * step,
                    ..first
                }));
            }
        }
        self.names.symbols.get(name).copied().map(Name::Sym)
    }

    /// The offset in bytes of the element `name[index]` of an array.
    pub(super) fn element_offset(&self, name: &str, index: i64) -> Decoded<i64> {
        let mut found = None;
        for scope in self.scopes.iter().rev() {
            found = scope.declared.get(name).copied();
            if found.is_some() {
                break;
            }
            if scope.names.contains_key(name) {
                // A register has no elements.
                let mut params = self.function.params.iter();
                found = params.find(|param| param.name == name);
                break;
            }
        }
        let found = found.or_else(|| self.names.declared.get(name).copied());
        match found.filter(|variable| variable.array) {
            Some(variable) => match variable.element_offset(index) {
                Some(offset) => Ok(offset),
                None => invalid(format!("'{name}' has elements without a size")),
            },
            None => invalid(format!("Array indexing on non-array '{name}'")),
        }
    }

    /// Whether the text declares a register, a variable or a function with the name.
    pub(super) fn is_declared(&self, name: &str) -> bool {
        self.lookup(name).is_some() || self.lookup_vector(name).is_some()
    }

    pub(super) fn lookup_member(&self, name: &str, member: &str) -> Option<Reg> {
        let index = match member {
            "x" | "r" => 0,
            "y" | "g" => 1,
            "z" | "b" => 2,
            "w" | "a" => 3,
            _ => return None,
        };
        let vector = self.lookup_vector(name)?;
        let step = if vector.first.width == Width::W128 {
            2
        } else {
            1
        };
        (index < vector.len).then(|| Reg {
            slot: vector.first.slot + index * step,
            ..vector.first
        })
    }

    /// The vector register `name`.
    pub(super) fn lookup_vector(&self, name: &str) -> Option<VectorReg> {
        let numbered = register_number(name);
        for scope in self.scopes.iter().rev() {
            if let Some(&vector) = scope.vectors.get(name)
                && vector.count.is_none()
            {
                return Some(vector);
            }
            if let Some((prefix, number)) = numbered
                && let Some(&vector) = scope.vectors.get(prefix)
                && number < vector.count.unwrap_or(0)
            {
                let step = if vector.first.width == Width::W128 {
                    2
                } else {
                    1
                };
                let first = Reg {
                    slot: vector.first.slot + number * vector.len * step,
                    ..vector.first
                };
                return Some(VectorReg { first, ..vector });
            }
        }
        None
    }

    pub(super) fn variable(&mut self, variable: &'a Variable<'a>) -> Decoded {
        self.line = variable.line;
        if let Some(scope) = self.scopes.last_mut() {
            scope.declared.insert(variable.name, variable);
        }
        match variable.space {
            Space::Local | Space::Param => self.local(variable).map(|_| ()),
            Space::Shared if variable.count.is_none() => {
                let sym = Sym::DynamicShared(layout(variable).1);
                self.declare(variable.name, Name::Sym(sym))
            }
            // The offset depends on the kernel that calls the function.
            Space::Shared if !self.entry() => {
                self.out.shared.push(layout(variable));
                let sym = Sym::Common(self.out.shared.len() - 1);
                self.declare(variable.name, Name::Sym(sym))
            }
            Space::Shared => {
                let Some(start) = self.shared.place(layout(variable)) else {
                    return invalid("Too much shared data");
                };
                self.declare(variable.name, Name::Sym(Sym::Shared(start)))
            }
            Space::Global | Space::Const => self.module_variable(variable),
            Space::Reg => unsupported("a variable in registers"),
        }
    }

    /// Declares a `.global` or `.const` variable of the function. It exists once in the module, and
    /// its name has no meaning outside of the function.
    pub(super) fn module_variable(&mut self, variable: &'a Variable<'a>) -> Decoded {
        let index = self.out.program.globals.len();
        let mut global = symbols::global(variable);
        // No PTX name has a colon, so `cuModuleGetGlobal` cannot find the variable.
        global.name = format!("{}::{}", self.function.name, variable.name);
        global.visible = false;
        self.out.program.globals.push(global);
        self.declare(variable.name, Name::Sym(Sym::Global(index)))?;
        let resolve = |name: &str| match self.lookup(name) {
            Some(Name::Sym(sym)) => Some(sym),
            _ => None,
        };
        match symbols::initial_value(variable, &resolve) {
            Ok((init, relocations)) => {
                let global = &mut self.out.program.globals[index];
                (global.init, global.relocations) = (init, relocations);
                Ok(())
            }
            Err(error) => invalid(error.to_string()),
        }
    }
}
