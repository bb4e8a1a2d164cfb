//! Moves, loads, stores, address conversions and atomics.

use crate::vm::vector::Over;
use std::borrow::Cow;
use std::sync::atomic::{Ordering, fence};

use super::bulk::without_policy;
use super::form::{Class, Form, Ty};
use super::function::{FunctionDecoder, Name};
use super::operand::Sym;
use super::{Decoded, invalid, unsupported};
use crate::vm::address::{LOCAL, NARROW, PARAM, RANK_SHIFT, SHARED, TAG};
use crate::vm::atomic;
use crate::vm::check::Acquired;
use crate::vm::code::{Kind, MemoryFn, Slot};
use crate::vm::lanes::{Bit, Lane, lanes, memory_fn};
use crate::vm::load_store::{load_fn, store_fn};
use crate::vm::mbarrier::Op;
use crate::vm::space::LoadParam;
use crate::vm::vector::each;
use cuda_ptx::{Base, Operand};

/// Removes the modifiers, and the operand, that control caching of a load or store. The software
/// device has no caches.
fn drop_hints(form: &mut Form<'_>) {
    form.operands = without_policy(form);
    form.modifiers.retain(|name| {
        let hint = matches!(
            *name,
            "ca" | "cg" | "cs" | "lu" | "cv" | "wb" | "wt" | "nc" | "unified"
        );
        !hint && !name.starts_with("L1::") && !name.starts_with("L2::")
    });
}

/// The memory-ordering guarantees of an access.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Order {
    /// The access does not race with other strong accesses.
    pub(super) strong: bool,
    pub(super) acquire: bool,
    pub(super) release: bool,
}

pub(super) fn take_order(form: &mut Form<'_>) -> Order {
    let names = [
        "weak", "relaxed", "volatile", "acquire", "release", "acq_rel", "mmio",
    ];
    let mut order = Order::default();
    while let Some(name) = form.one_of(&names) {
        order.strong |= name != "weak";
        order.acquire |= matches!(name, "acquire" | "acq_rel");
        order.release |= matches!(name, "release" | "acq_rel");
    }
    form.one_of(&["cta", "cluster", "gpu", "sys"]);
    order
}

/// Returns whether the program uses a byte of an element of the loaded vector. NVRTC combines loads
/// into vectors that are longer than what the program reads, and marks the other bytes as unused.
/// They can be after the end of an allocation, where a GPU reads them without a fault, because
/// memory is mapped in whole pages.
fn is_used(mask: Option<u32>, bytes: u32, element: u32) -> bool {
    let of_element = (u64::MAX >> (64 - bytes)) << (bytes * element);
    mask.is_none_or(|mask| u64::from(mask) & of_element != 0)
}

fn load_of<const CHECKED: bool>(bytes: u32, wide: bool) -> MemoryFn {
    match bytes {
        1 => load_fn::<u8, CHECKED>(wide),
        2 => load_fn::<u16, CHECKED>(wide),
        4 => load_fn::<u32, CHECKED>(wide),
        _ => load_fn::<u64, CHECKED>(wide),
    }
}

fn store_of<const CHECKED: bool>(bytes: u32, wide: bool) -> MemoryFn {
    match bytes {
        1 => store_fn::<u8, CHECKED>(wide),
        2 => store_fn::<u16, CHECKED>(wide),
        4 => store_fn::<u32, CHECKED>(wide),
        _ => store_fn::<u64, CHECKED>(wide),
    }
}

fn atomic_of<const CHECKED: bool>(bits: u32, wide: bool) -> MemoryFn {
    match bits {
        16 => memory_fn::<atomic::Rmw<u16, CHECKED>>(wide),
        32 => memory_fn::<atomic::Rmw<u32, CHECKED>>(wide),
        _ => memory_fn::<atomic::Rmw<u64, CHECKED>>(wide),
    }
}

impl<'a> FunctionDecoder<'a, '_> {
    /// Decodes `prefetch`, `prefetchu` and `applypriority`, which have no effect because the
    /// software device has no caches.
    pub(super) fn cache_hint(&mut self, form: &mut Form<'a>) -> Decoded {
        let names = ["global", "local", "param", "const", "L1", "L2", "tensormap"];
        while form.one_of(&names).is_some() {}
        form.modifiers.retain(|name| !name.starts_with("L2::evict"));
        Ok(())
    }

    /// The tag of the space that an access names.
    fn space(form: &mut Form<'_>) -> Decoded<u64> {
        let names = [
            "global",
            "shared",
            "shared::cta",
            "local",
            "const",
            "param",
            "param::entry",
            "param::func",
            "generic",
            "shared::cluster",
        ];
        Ok(match form.one_of(&names) {
            Some("shared" | "shared::cta" | "shared::cluster") => SHARED,
            Some("local") => LOCAL,
            // Addresses of parameters already carry their tag.
            _ => 0,
        })
    }

    /// Takes the number of elements of a vector; 1 without one.
    pub(super) fn vector(form: &mut Form<'_>) -> usize {
        match form.one_of(&["v2", "v4", "v8"]) {
            Some("v2") => 2,
            Some("v4") => 4,
            Some(_) => 8,
            None => 1,
        }
    }

    /// The elements of a vector register.
    fn vector_members(&self, operand: &Operand<'a>) -> Option<Vec<Operand<'a>>> {
        let Operand::Name(name) = *operand else {
            return None;
        };
        let vector = self.lookup_vector(name)?;
        let members = ["x", "y", "z", "w"].into_iter().take(vector.len as usize);
        Some(
            members
                .map(|member| Operand::Member(name, member))
                .collect(),
        )
    }

    /// The `count` elements of an operand: a list in braces, or a vector register.
    pub(super) fn elements<'v>(
        &self,
        operand: &'v Operand<'a>,
        count: usize,
    ) -> Decoded<Cow<'v, [Operand<'a>]>> {
        let elements = match operand {
            Operand::Vector(elements) => Cow::Borrowed(&elements[..]),
            single => match self.vector_members(single) {
                Some(members) => Cow::Owned(members),
                None => Cow::Borrowed(std::slice::from_ref(single)),
            },
        };
        if elements.len() != count {
            return invalid("Bad vector size");
        }
        Ok(elements)
    }

    pub(super) fn load(&mut self, form: &mut Form<'a>) -> Decoded {
        drop_hints(form);
        let ty = form.ty()?;
        let order = take_order(form);
        let tag = Self::space(form)?;
        let count = Self::vector(form);
        if form.operands.len() != 2 {
            return unsupported("a cache policy");
        }
        if ty.bits > 64 || ty.class == Class::Pred {
            return unsupported("this type");
        }
        let wide = self.wide();
        let elements = self.elements(&form.operands[0], count)?;
        let bytes = ty.width() / 8;
        let accessed = self.accessed(&form.operands[1])?;
        if let Operand::Address(Base::Name(name), offset) = &accessed
            && let Name::Sym(Sym::Param(start)) = self.named(name)?
        {
            for (index, element) in elements.iter().enumerate() {
                let kind = Kind::Memory(match bytes {
                    1 => memory_fn::<LoadParam<u8>>(wide),
                    2 => memory_fn::<LoadParam<u16>>(wide),
                    4 => memory_fn::<LoadParam<u32>>(wide),
                    _ => memory_fn::<LoadParam<u64>>(wide),
                });
                let at = u64::from(start).wrapping_add_signed(*offset);
                let (d, widen) = self.dest(element, ty)?;
                self.emit(
                    kind,
                    d,
                    0,
                    0,
                    0,
                    at.wrapping_add(u64::from(bytes) * index as u64),
                );
                self.finish(widen);
            }
            return Ok(());
        }
        let (mut base, offset, bits) = self.address(&accessed, tag)?;
        let is_overwritten = elements.iter().any(|element| {
            matches!((element, &accessed),
                (Operand::Name(to), Operand::Address(Base::Name(at), _)) if to == at)
        });
        if count > 1 && is_overwritten {
            base = self.copied(base, bits & NARROW == 0);
        }
        for (index, element) in elements.iter().enumerate() {
            if !is_used(form.used_bytes, bytes, index as u32) {
                continue;
            }
            let kind = Kind::Memory(match self.out.checked {
                false => load_of::<false>(bytes, wide),
                true => load_of::<true>(bytes, wide),
            });
            let whole = if index == 0 { count as u32 } else { 1 };
            let (d, widen) = self.dest(element, ty)?;
            let at = offset.wrapping_add(u64::from(bytes) * index as u64);
            self.emit(kind, d, base, 0, bits | (bytes * whole - 1), at);
            self.last_source(order.strong.into());
            self.finish(widen);
        }
        if order.acquire {
            self.fence();
            self.acquired();
        }
        Ok(())
    }

    /// A register that holds a copy of the value of `slot`.
    pub(super) fn copied(&mut self, slot: Slot, is_wide: bool) -> Slot {
        let wide = self.wide();
        let (copy, kind) = if is_wide {
            (self.temp64(), lanes!(wide, |a: u64| -> u64 { a }))
        } else {
            (self.temp32(), lanes!(wide, |a: u32| -> u32 { a }))
        };
        self.emit(kind, copy, slot, 0, 0, 0);
        copy
    }

    pub(super) fn store(&mut self, form: &mut Form<'a>) -> Decoded {
        drop_hints(form);
        if form.flag("bulk") {
            return self.clear_bulk(form);
        }
        let ty = form.ty()?;
        let barrier = Self::take_barrier(form)?;
        let order = take_order(form);
        let tag = Self::space(form)?;
        let count = Self::vector(form);
        if form.operands.len() != 2 {
            return unsupported("a cache policy");
        }
        if ty.bits > 64 || ty.class == Class::Pred {
            return unsupported("this type");
        }
        if order.release {
            self.fence();
        }
        let wide = self.wide();
        let accessed = self.accessed(&form.operands[0])?;
        let (base, offset, bits) = self.address(&accessed, tag)?;
        let bytes = ty.width() / 8;
        for (index, element) in self.elements(&form.operands[1], count)?.iter().enumerate() {
            let kind = Kind::Memory(match self.out.checked {
                false => store_of::<false>(bytes, wide),
                true => store_of::<true>(bytes, wide),
            });
            let whole = if index == 0 { count as u32 } else { 1 };
            let b = self.source(element, ty)?;
            let at = offset.wrapping_add(u64::from(bytes) * index as u64);
            self.emit(kind, 0, base, b, bits | (bytes * whole - 1), at);
            self.last_source(order.strong.into());
        }
        self.complete_barrier(barrier, bytes * count as u32)
    }

    /// Takes the barrier to which an asynchronous store reports its bytes.
    fn take_barrier(form: &mut Form<'a>) -> Decoded<Option<&'a Operand<'a>>> {
        if !form.flag("async") {
            return Ok(None);
        }
        if !form.flag("mbarrier::complete_tx::bytes") {
            return unsupported("this completion mechanism");
        }
        match form.operands {
            [rest @ .., barrier] => {
                form.operands = rest;
                Ok(Some(barrier))
            }
            [] => unsupported("these operands"),
        }
    }

    fn complete_barrier(&mut self, barrier: Option<&Operand<'a>>, bytes: u32) -> Decoded {
        let Some(barrier) = barrier else {
            return Ok(());
        };
        let (none, bytes) = (self.const32(0), self.const32(bytes));
        self.operate(Op::CompleteTx, barrier, SHARED, (none, Some(bytes)))
    }

    /// Emits a memory fence for the host thread that runs this thread.
    pub(super) fn fence(&mut self) {
        let kind = lanes!(self.wide(), with _w, _i, _m {
            fence(Ordering::SeqCst);
        });
        self.emit(kind, 0, 0, 0, 0, 0);
        if self.out.checked {
            let kind = Kind::Memory(memory_fn::<Acquired>(self.wide()));
            self.emit(kind, 0, 0, 0, 0, 0);
        }
    }

    /// Emits an instruction that reports an acquire operation to the checks.
    pub(super) fn acquired(&mut self) {
        if self.out.checked {
            let kind = Kind::Memory(memory_fn::<Acquired>(self.wide()));
            self.emit(kind, 0, 0, 0, 0, 1);
        }
    }

    pub(super) fn cvta(&mut self, form: &mut Form<'a>) -> Decoded {
        let ty = form.ty()?;
        let to_space = form.flag("to");
        let tag = match form.one_of(&[
            "global",
            "shared",
            "shared::cta",
            "shared::cluster",
            "local",
            "const",
            "param",
            "param::entry",
        ]) {
            Some("shared" | "shared::cta" | "shared::cluster") => SHARED,
            Some("local") => LOCAL,
            Some(_) => 0,
            None => return unsupported("this state space"),
        };
        if ty != Ty::U64 {
            return unsupported("this type");
        }
        form.arity(2)?;
        let a = self.source(&form.operands[1], ty)?;
        let (d, widen) = self.dest(&form.operands[0], ty)?;
        let kind = match (tag, to_space) {
            (0, _) => lanes!(self.wide(), |a: u64| -> u64 { a }),
            (_, false) => lanes!(self.wide(), with w, i, m {
                let value = w.get64(i.a).over(|a| a | i.imm);
                w.put64(i.d, m, &value);
            }),
            (_, true) => lanes!(self.wide(), |a: u64| -> u64 { a & !TAG }),
        };
        self.emit(kind, d, a, 0, 0, tag);
        self.finish(widen);
        Ok(())
    }

    pub(super) fn isspacep(&mut self, form: &mut Form<'a>) -> Decoded {
        let names = [
            "global",
            "shared",
            "shared::cta",
            "shared::cluster",
            "local",
            "param",
            "param::entry",
        ];
        let wide = self.wide();
        let kind = match form.one_of(&names) {
            // The parameters of a kernel lie within the global window.
            Some("global") => lanes!(wide, |a: u64| -> Bit {
                Bit(a & TAG == 0 || a & TAG == PARAM)
            }),
            Some("local") => lanes!(wide, |a: u64| -> Bit { Bit(a & TAG == LOCAL) }),
            Some("param" | "param::entry") => {
                lanes!(wide, |a: u64| -> Bit { Bit(a & TAG == PARAM) })
            }
            Some("shared::cluster") => lanes!(wide, |a: u64| -> Bit { Bit(a & TAG == SHARED) }),
            Some(_) => lanes!(wide, with w, i, m {
                let (a, own) = (w.get64(i.a), u64::from(w.rank) + 1);
                let value = each(|lane| {
                    let number = a[lane] >> RANK_SHIFT & 0xff;
                    Bit(a[lane] & TAG == SHARED && (number == 0 || number == own))
                });
                Bit::put(w, i.d, m, value);
            }),
            None => return unsupported("this state space"),
        };
        self.emit_plain(form, kind, Ty::PRED, &[Ty::U64])
    }

    /// Decodes `atom`, or `red` if `reduces`.
    pub(super) fn atomic(&mut self, form: &mut Form<'a>, reduces: bool) -> Decoded {
        drop_hints(form);
        form.flag("noftz");
        let ty = form.ty()?;
        let order = take_order(form);
        let tag = Self::space(form)?;
        let count = Self::vector(form);
        let barrier = if reduces {
            Self::take_barrier(form)?
        } else {
            None
        };
        let names = [
            "add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec",
        ];
        let Some(name) = form.one_of(&names) else {
            return unsupported("this operation");
        };
        let Some(op) = atomic::Op::parse(name, ty.class, ty.bits, ty.packed) else {
            return unsupported("this operation on this type");
        };
        let swaps = name == "cas";
        if swaps && count > 1 {
            return unsupported("this vector size");
        }
        let first = usize::from(!reduces);
        form.arity(first + 2 + usize::from(swaps))?;
        let raw = Ty::new(Class::Bits, ty.width());
        let (base, offset, bits) = self.address(&form.operands[first], tag)?;
        let wide = self.wide();
        let kind = Kind::Memory(match self.out.checked {
            false => atomic_of::<false>(ty.width(), wide),
            true => atomic_of::<true>(ty.width(), wide),
        });
        let bytes = ty.width() / 8;
        let values = self.elements(&form.operands[first + 1], count)?;
        let mut sources = Vec::new();
        for value in values.iter() {
            let mut b = self.source(value, raw)?;
            if count > 1 && !reduces {
                // The operand may be in a register that an earlier element overwrites.
                b = self.copied(b, raw.width() == 64);
            }
            sources.push(b);
        }
        // Each element of a vector is a separate atomic operation.
        for (index, b) in sources.into_iter().enumerate() {
            let e = if swaps {
                self.source(&form.operands[first + 2], raw)?
            } else {
                b
            };
            let (d, widen) = if reduces {
                self.dest(&Operand::Sink, raw)?
            } else {
                self.dest(&self.elements(&form.operands[0], count)?[index], ty)?
            };
            let whole = if index == 0 { count as u32 } else { 1 };
            let at = offset.wrapping_add(u64::from(bytes) * index as u64);
            let bits = bits | (bytes * whole - 1) | (op as u32) << atomic::OP_SHIFT;
            self.emit(kind, d, base, b, bits, at);
            self.last_source(e);
            self.finish(widen);
        }
        if order.acquire {
            self.acquired();
        }
        self.complete_barrier(barrier, bytes)
    }
}
