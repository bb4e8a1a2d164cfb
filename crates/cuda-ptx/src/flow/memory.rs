//! Turns instructions that access memory into operations.

use crate::ast::{Base, Instruction, Literal, Operand, Space};

use super::decode::{Decoder, NO, integer};
use super::names::{Name, bits_of};
use super::op::{Access, AccessKind, Ins, Op, Source, UNDEFINED};
use super::tile::Tile;
use super::{Refused, is_window};

/// The space of an access, or `Err` for the shared memory of another block.
pub(super) fn space_of(instruction: &Instruction<'_>) -> Result<Option<Space>, Refused> {
    for modifier in &instruction.modifiers {
        return Ok(Some(match *modifier {
            "global" => Space::Global,
            "shared" | "shared::cta" => Space::Shared,
            "local" => Space::Local,
            "const" => Space::Const,
            "param" | "param::entry" => Space::Param,
            "shared::cluster" => {
                return Refused::new(
                    instruction.line,
                    "access to the shared memory of another block",
                );
            }
            "param::func" => return Refused::new(instruction.line, "parameters of functions"),
            _ => continue,
        }));
    }
    Ok(None)
}

/// The bytes of a type with a vector size, such as `v4.f32`.
fn size_of(instruction: &Instruction<'_>) -> Option<u32> {
    let bits = bits_of(instruction.modifiers.last()?);
    let vector = if instruction.has("v2") {
        2
    } else if instruction.has("v4") {
        4
    } else if instruction.has("v8") {
        8
    } else {
        1
    };
    (bits >= 8).then_some(bits / 8 * vector)
}

/// The bytes of the row that a thread names in a matrix instruction, or `None` if it is not
/// modelled.
///
/// For fewer than four matrices, the hardware ignores the addresses of some threads. Here they
/// count as well.
fn row_size(instruction: &Instruction<'_>) -> Option<u32> {
    let is_row = matches!(instruction.opcode, "ldmatrix" | "stmatrix")
        && instruction.has("m8n8")
        && instruction.modifiers.last() == Some(&"b16");
    is_row.then_some(16)
}

impl<'a> Decoder<'a> {
    /// `cvta`
    pub(super) fn conversion_of_address(&mut self, instruction: &Instruction<'a>) -> Option<()> {
        let space = space_of(instruction).ok()??;
        let [target, from] = instruction.operands.as_slice() else {
            return None;
        };
        if instruction.modifiers.last() != Some(&"u64") {
            return None;
        }
        let source = self.source(from, 64);
        let op = match instruction.has("to") {
            true => Op::FromGeneric { space },
            false => Op::ToGeneric { space },
        };
        self.set(op, [source, NO, NO], 64, target);
        Some(())
    }

    /// Records an access at the address of `operand`.
    fn access(
        &mut self,
        instruction: &Instruction<'a>,
        operand: &Operand<'a>,
        kind: AccessKind,
        space: Option<Space>,
        size: Option<u32>,
    ) -> Result<(), Refused> {
        let Operand::Address(base, offset) = operand else {
            return Refused::new(instruction.line, "an operand that is not an address");
        };
        let (source, bits) = match base {
            Base::Absolute => (Source::Number(0), 64),
            Base::Name(name) => match self.names.find(name) {
                Some(Name::Reg(reg)) if reg.bits == 64 => (Source::Value(reg.number), 64),
                Some(Name::Reg(reg)) if reg.bits == 32 && space.is_some_and(is_window) => {
                    (Source::Value(reg.number), 32)
                }
                Some(Name::Var(var)) => (Source::Address(var, 0), 64),
                _ => (NO, 64),
            },
        };
        let number = self.accesses.len() as u32;
        let is_this = |other: &Operand<'a>| std::ptr::eq(other, operand);
        let position = instruction.operands.iter().position(is_this);
        self.accesses.push(Access {
            kind,
            space,
            is_common: is_common(instruction),
            is_store: instruction.opcode == "st",
            size: size.unwrap_or(1),
            is_simple: size.is_some(),
            tile: None,
            offset: *offset,
            bits,
            line: instruction.line,
            location: self.location,
            mnemonic: instruction.mnemonic(),
            statement: self.statement,
            operand: position.unwrap_or(0) as u32,
            object: None,
        });
        self.ins.push(Ins {
            op: Op::Access(number),
            sources: [source, NO, NO],
            unmodelled: Vec::new(),
            target: None,
            guard: self.guard,
            previous: UNDEFINED,
        });
        Ok(())
    }

    pub(super) fn memory(&mut self, instruction: &Instruction<'a>) -> Result<(), Refused> {
        let line = instruction.line;
        let unknown = |what: &str| {
            let text = format!("{what}: {}", instruction.mnemonic());
            Refused::new(line, text)
        };
        for unmodelled in ["async", "bulk", "tensormap", "tensor"] {
            if instruction.has(unmodelled) && instruction.opcode != "cp" {
                return unknown("asynchronous copies and reductions");
            }
        }
        let operands = &instruction.operands;
        let (Some(first), second) = (operands.first(), operands.get(1)) else {
            return match instruction.has("async") {
                true => Ok(()),
                false => unknown("an instruction without operands"),
            };
        };
        match (instruction.opcode, second) {
            ("cp", _) => self.asynchronous_copy(instruction),
            ("ld" | "ldu", Some(address)) => {
                let space = space_of(instruction)?;
                let Some(size) = size_of(instruction) else {
                    return unknown("unknown type");
                };
                if space == Some(Space::Param) && self.load_param(instruction, first, address, size)
                {
                    return Ok(());
                }
                self.access(instruction, address, AccessKind::Read, space, Some(size))?;
                if space == Some(Space::Param) {
                    self.load_param_at(instruction, first, address, size);
                    return Ok(());
                }
                let range = instruction.modifiers.last().and_then(|ty| integer(ty));
                // A signed load may fill a wider register with ones.
                let range = range.filter(|(_, signed)| !signed);
                self.clobber_within(first, range.map(|(bits, _)| (0, (1 << bits) - 1)));
                Ok(())
            }
            ("st", Some(_)) => {
                let space = space_of(instruction)?;
                let Some(size) = size_of(instruction) else {
                    return unknown("unknown type");
                };
                match space {
                    Some(Space::Param) => return unknown("call of a function"),
                    Some(Space::Const) => return unknown("store to constants"),
                    _ => {}
                }
                self.access(instruction, first, AccessKind::Write, space, Some(size))
            }
            ("atom" | "red", Some(second)) => {
                let space = space_of(instruction)?;
                let Some(size) = size_of(instruction) else {
                    return unknown("unknown type");
                };
                if instruction.opcode == "red" {
                    return self.access(instruction, first, AccessKind::Write, space, Some(size));
                }
                self.access(instruction, second, AccessKind::Atomic, space, Some(size))?;
                self.clobber(first);
                Ok(())
            }
            ("mbarrier", _) => {
                let space = space_of(instruction)?;
                if let Some(address) = operands.iter().find(|o| matches!(o, Operand::Address(..))) {
                    self.access(instruction, address, AccessKind::Atomic, space, Some(8))?;
                } else if !instruction.has("pending_count") {
                    return unknown("unknown barrier");
                }
                self.clobber(first);
                Ok(())
            }
            ("wmma", Some(second)) => self.matrix(instruction, first, second),
            ("ldmatrix" | "stmatrix", Some(second)) => {
                let space = space_of(instruction)?;
                let (address, kind) = match instruction.opcode == "stmatrix" {
                    true => (first, AccessKind::Write),
                    false => (second, AccessKind::Read),
                };
                let size = match space {
                    Some(Space::Shared) => row_size(instruction),
                    _ => None,
                };
                self.access(instruction, address, kind, space, size)?;
                self.clobber(first);
                Ok(())
            }
            ("prefetch" | "prefetchu", _) => {
                let space = space_of(instruction)?;
                self.access(instruction, first, AccessKind::Read, space, Some(1))
            }
            ("applypriority" | "discard", _) => {
                let space = space_of(instruction)?;
                self.access(instruction, first, AccessKind::Write, space, Some(128))
            }
            _ => unknown("operands are missing"),
        }
    }

    /// `wmma.load registers, [address]{, stride}`, `wmma.store [address], registers{, stride}` and
    /// `wmma.mma`.
    fn matrix(
        &mut self,
        instruction: &Instruction<'a>,
        first: &Operand<'a>,
        second: &Operand<'a>,
    ) -> Result<(), Refused> {
        if instruction.has("mma") {
            self.clobber(first);
            return Ok(());
        }
        let space = space_of(instruction)?;
        let (address, kind) = match instruction.has("store") {
            true => (first, AccessKind::Write),
            false => (second, AccessKind::Read),
        };
        self.access(instruction, address, kind, space, None)?;
        if let Some(tile) = Tile::of(instruction) {
            let stride = instruction.operands.get(2);
            let stride = stride.map_or(NO, |stride| self.source(stride, 32));
            if let (Some(access), Some(ins)) = (self.accesses.last_mut(), self.ins.last_mut()) {
                (access.tile, access.size) = (Some(tile), tile.bytes());
                ins.sources[1] = stride;
            }
        }
        self.clobber(first);
        Ok(())
    }

    /// `cp.async [shared], [global], size{, source size}`.
    fn asynchronous_copy(&mut self, instruction: &Instruction<'a>) -> Result<(), Refused> {
        let refuse = || Refused::new(instruction.line, "bulk copies");
        if !instruction.has("async") || instruction.has("bulk") || instruction.has("tensor") {
            return refuse();
        }
        if instruction.has("commit_group") || instruction.has("wait_group") {
            return Ok(());
        }
        let operands = &instruction.operands;
        if instruction.has("mbarrier") {
            let Some(address) = operands.first() else {
                return refuse();
            };
            let space = space_of(instruction)?;
            return self.access(instruction, address, AccessKind::Atomic, space, Some(8));
        }
        let (Some(to), Some(from)) = (operands.first(), operands.get(1)) else {
            return refuse();
        };
        let Some(Operand::Literal(Literal::Int(size @ (4 | 8 | 16)))) = operands.get(2) else {
            return refuse();
        };
        // A smaller source size, or an ignored source, reads less.
        let size = Some(*size as u32);
        self.access(
            instruction,
            to,
            AccessKind::Write,
            Some(Space::Shared),
            size,
        )?;
        self.access(
            instruction,
            from,
            AccessKind::Read,
            Some(Space::Global),
            size,
        )
    }

    /// Loads a parameter at a constant offset. Returns whether it is one.
    fn load_param(
        &mut self,
        instruction: &Instruction<'a>,
        target: &Operand<'a>,
        address: &Operand<'a>,
        size: u32,
    ) -> bool {
        let Operand::Address(Base::Name(name), offset) = address else {
            return false;
        };
        let Some(Name::Var(var)) = self.names.find(name) else {
            return false;
        };
        let Some(param) = self.vars.get(var as usize).and_then(|var| var.param) else {
            return false;
        };
        let Ok(offset) = u64::try_from(*offset) else {
            return false;
        };
        let targets = elements(target);
        let signed = is_signed(instruction);
        let each = size / targets.len().max(1) as u32;
        // A load beyond the end of the parameter is an access that is not proven.
        let end = offset.checked_add(u64::from(size));
        let declared = self.vars.get(var as usize).and_then(|var| var.size);
        if end.is_none_or(|end| declared.is_none_or(|size| end > size)) || each > 8 {
            return false;
        }
        for (index, target) in targets.iter().enumerate() {
            let offset = offset + index as u64 * u64::from(each);
            let bits = self.register(target).map_or(0, |reg| reg.bits);
            if bits < 8 * each || bits > 64 {
                self.clobber(target);
                continue;
            }
            let op = Op::Param {
                param,
                offset,
                size: each,
                signed,
                bits,
            };
            self.set(op, [NO; 3], bits, target);
        }
        true
    }

    /// Loads a parameter, or something else in parameter space, at an address in a register.
    fn load_param_at(
        &mut self,
        instruction: &Instruction<'a>,
        target: &Operand<'a>,
        address: &Operand<'a>,
        size: u32,
    ) {
        let (base, first) = match address {
            Operand::Address(Base::Name(name), offset) => {
                (self.source(&Operand::Name(name), 64), *offset)
            }
            _ => (NO, 0),
        };
        let targets = elements(target);
        let each = size / targets.len().max(1) as u32;
        for (index, target) in targets.iter().enumerate() {
            let bits = self.register(target).map_or(0, |reg| reg.bits);
            let offset = first.checked_add(index as i64 * i64::from(each));
            let Some(offset) = offset.filter(|_| bits >= 8 * each && bits <= 64) else {
                self.clobber(target);
                continue;
            };
            let op = Op::ParamAt {
                offset,
                size: each,
                signed: is_signed(instruction),
                bits,
            };
            self.set(op, [base, NO, NO], bits, target);
        }
    }
}

/// The registers that a load writes.
fn elements<'o, 'a>(target: &'o Operand<'a>) -> &'o [Operand<'a>] {
    match target {
        Operand::Vector(targets) => targets.as_slice(),
        target => std::slice::from_ref(target),
    }
}

/// Whether a load extends its value by the sign.
fn is_signed(instruction: &Instruction<'_>) -> bool {
    let ty = instruction.modifiers.last().copied().unwrap_or("");
    ty.starts_with('s')
}

/// Whether only global and shared memory may be accessed. With a generic address of other memory,
/// the manual leaves the behaviour undefined. For example, `red` with the address of a local
/// variable may change nothing on an H200.
fn is_common(instruction: &Instruction<'_>) -> bool {
    let synchronizes = ["relaxed", "acquire", "release"];
    matches!(instruction.opcode, "atom" | "red")
        || synchronizes
            .iter()
            .any(|modifier| instruction.has(modifier))
}
