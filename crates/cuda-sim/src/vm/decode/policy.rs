//! `createpolicy`: cache policies, which have no effect because the software device has no caches.

use super::form::{Form, Ty};
use super::function::FunctionDecoder;
use super::{Decoded, unsupported};
use crate::vm::lanes::lanes;

impl<'a> FunctionDecoder<'a, '_> {
    /// Decodes `createpolicy`; the policy is a number that is never read.
    pub(super) fn create_policy(&mut self, form: &mut Form<'a>) -> Decoded {
        if form.one_of(&["fractional", "range", "cvt"]).is_none() || !form.flag("b64") {
            return unsupported("");
        }
        let names = [
            "global",
            "L2",
            "L2::evict_last",
            "L2::evict_normal",
            "L2::evict_first",
            "L2::evict_unchanged",
        ];
        while form.one_of(&names).is_some() {}
        let Some(to) = form.operands.first() else {
            return unsupported("these operands");
        };
        let (d, widen) = self.dest(to, Ty::B64)?;
        let kind = lanes!(self.wide(), with w, i, m {
            w.put64(i.d, m, &[0; 32]);
        });
        self.emit(kind, d, 0, 0, 0, 0);
        self.finish(widen);
        Ok(())
    }
}
