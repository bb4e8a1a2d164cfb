//! The results of integer instructions, written as the manual describes them.

use cuda_ptx::Instruction;

use super::interpret::{bits_of, integer, mask, window_of};

/// The result of an instruction with these sources, whose low bits the destination gets.
pub(super) fn result(instruction: &Instruction<'_>, values: &[u64]) -> u64 {
    let ty = *instruction.modifiers.last().expect("a type");
    let first = instruction.modifiers[0];
    let get = |index: usize| values.get(index).copied().unwrap_or(0);
    let (a, b, c) = (get(0), get(1), get(2));
    let int = |value| integer(value, ty);
    let bits = bits_of(ty);
    let is_saturating = instruction.has("sat");
    match instruction.opcode {
        "mov" => a,
        "cvta" => {
            let window = window_of(instruction);
            match instruction.has("to") {
                true => a.wrapping_sub(window),
                false => a.wrapping_add(window),
            }
        }
        "add" if is_saturating => saturated(int(a) + int(b), ty),
        "sub" if is_saturating => saturated(int(a) - int(b), ty),
        "add" => a.wrapping_add(b),
        "sub" => a.wrapping_sub(b),
        "neg" => a.wrapping_neg(),
        "not" => !a,
        "and" => a & b,
        "or" => a | b,
        "xor" => a ^ b,
        "mul" | "mad" => {
            // Both products fit: unsigned factors have up to 64 bits, signed ones up to 63.
            let high = match ty.starts_with('s') {
                true => ((int(a) * int(b)) >> bits) as u64,
                false => ((int(a) as u128 * int(b) as u128) >> bits) as u64,
            };
            match first {
                "hi" => high.wrapping_add(c),
                _ => (int(a).wrapping_mul(int(b)) as u64).wrapping_add(c),
            }
        }
        "mul24" | "mad24" => {
            let int = |value| integer(value, if ty == "s32" { "s24" } else { "u24" });
            ((int(a) * int(b)) as u64).wrapping_add(c)
        }
        "sad" => ((int(a) - int(b)).unsigned_abs() as u64).wrapping_add(c),
        "abs" => int(a).unsigned_abs() as u64,
        "div" => (int(a) / int(b)) as u64,
        "rem" => (int(a) % int(b)) as u64,
        "min" => int(a).min(int(b)) as u64,
        "max" => int(a).max(int(b)) as u64,
        "shl" => a
            .checked_shl(u32::try_from(b).unwrap_or(64))
            .filter(|_| b < u64::from(bits))
            .unwrap_or(0),
        "shr" => (int(a) >> (b & 0xffff_ffff).min(u64::from(bits))) as u64,
        "shf" => {
            let pair = mask(b, 32) << 32 | mask(a, 32);
            let amount = match instruction.has("wrap") {
                true => c & 31,
                false => mask(c, 32).min(32),
            };
            match first {
                "l" => (u128::from(pair) << amount >> 32) as u64,
                _ => pair >> amount,
            }
        }
        "selp" if c & 1 != 0 => a,
        "selp" => b,
        "slct" if integer(c, ty) >= 0 => a,
        "slct" => b,
        "set" => {
            let is_set = match first {
                "lt" => int(a) < int(b),
                "ge" => int(a) >= int(b),
                "eq" => int(a) == int(b),
                _ => int(a) != int(b),
            };
            u64::from(is_set).wrapping_neg()
        }
        "popc" => mask(a, bits).count_ones().into(),
        "clz" => u64::from(mask(a, bits).leading_zeros() - (64 - bits)),
        "brev" => a.reverse_bits() >> (64 - bits),
        "cnot" => u64::from(mask(a, bits) == 0),
        "bfind" => {
            // The highest bit that is not the sign.
            let value = mask(if int(a) < 0 { !a } else { a }, bits);
            value.checked_ilog2().map_or(u64::MAX, u64::from)
        }
        "lop3" => {
            let table = get(3);
            let bits = (0..32).filter(|at| {
                let row = (a >> at & 1) << 2 | (b >> at & 1) << 1 | c >> at & 1;
                table >> row & 1 != 0
            });
            bits.fold(0, |all, at| all | 1 << at)
        }
        "prmt" => {
            let pair = mask(b, 32) << 32 | mask(a, 32);
            let bytes = (0..4).map(|at| {
                let selected = c >> (4 * at) & 15;
                let byte = pair >> (8 * (selected & 7)) & 0xff;
                let byte = match selected & 8 {
                    0 => byte,
                    _ => (byte >> 7) * 0xff,
                };
                byte << (8 * at)
            });
            bytes.sum()
        }
        "bfi" => {
            // Bit by bit, as the manual describes it.
            let (at, length) = (c & 0xff, get(3) & 0xff);
            let bits = (0..length).filter(|bit| at + bit < u64::from(bits));
            bits.fold(b, |all, bit| {
                let to = 1 << (at + bit);
                (all & !to) | if a >> bit & 1 != 0 { to } else { 0 }
            })
        }
        "bfe" => {
            let (at, length) = (b & 0xff, c & 0xff);
            let most = u64::from(bits) - 1;
            let sign = match (ty.starts_with('s'), length) {
                (true, 1..) => a >> most.min(at + length - 1) & 1,
                _ => 0,
            };
            (0..u64::from(bits)).fold(0, |all, bit| {
                let is_inside = bit < length && at + bit <= most;
                all | (if is_inside { a >> (at + bit) & 1 } else { sign }) << bit
            })
        }
        "cvt" => {
            let value = integer(a, ty);
            let to = instruction.modifiers[usize::from(is_saturating)];
            match is_saturating {
                true => saturated(value, to),
                false => integer(value as u64, to) as u64,
            }
        }
        opcode => panic!("opcode {opcode}"),
    }
}

/// The nearest value of a type.
fn saturated(value: i128, ty: &str) -> u64 {
    let bits = bits_of(ty);
    let (low, high) = match ty.starts_with('s') {
        true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    };
    value.clamp(low, high) as u64
}
