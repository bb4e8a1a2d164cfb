//! `mapa` and `getctarank`: addresses in the shared memory of other blocks of a cluster.

use super::form::{Form, Ty};
use super::function::FunctionDecoder;
use super::{Decoded, unsupported};
use crate::vm::address::RANK_SHIFT;
use crate::vm::lanes::lanes;
use crate::vm::vector::each;

/// The bits of a shared-memory address that identify a block.
const RANK: u64 = 0xff << RANK_SHIFT;

impl<'a> FunctionDecoder<'a, '_> {
    /// Decodes `mapa`: the address of the same byte in the block of the given rank.
    pub(super) fn map_address(&mut self, form: &mut Form<'a>) -> Decoded {
        form.flag("shared::cluster");
        let ty = form.ty()?;
        let wide = self.wide();
        let kind = match ty {
            Ty::U32 => lanes!(wide, |a: u32, rank: u32| -> u32 {
                a & !(RANK as u32) | rank.saturating_add(1).min(0xff) << RANK_SHIFT
            }),
            Ty::U64 => lanes!(wide, |a: u64, rank: u32| -> u64 {
                a & !RANK | u64::from(rank.saturating_add(1).min(0xff)) << RANK_SHIFT
            }),
            _ => return unsupported("this type"),
        };
        self.emit_plain(form, kind, ty, &[ty, Ty::U32])
    }

    /// Decodes `getctarank`: the rank of the block to which an address belongs.
    pub(super) fn rank_of_address(&mut self, form: &mut Form<'a>) -> Decoded {
        form.flag("shared::cluster");
        let ty = form.ty()?;
        let wide = self.wide();
        let kind = match ty {
            Ty::U32 => lanes!(wide, with w, i, m {
                let (a, own) = (w.get32(i.a), w.rank);
                let value = each(|lane| (a[lane] >> RANK_SHIFT & 0xff).checked_sub(1).unwrap_or(own));
                w.put32(i.d, m, &value);
            }),
            Ty::U64 => lanes!(wide, with w, i, m {
                let (a, own) = (w.get64(i.a), w.rank);
                let value = each(|lane| {
                    ((a[lane] >> RANK_SHIFT) as u32 & 0xff).checked_sub(1).unwrap_or(own)
                });
                w.put32(i.d, m, &value);
            }),
            _ => return unsupported("this type"),
        };
        self.emit_plain(form, kind, Ty::U32, &[ty])
    }
}
