//! Keeps the first violation of a thread, and writes it to the record when the thread ends.

use std::fmt::Write;

use crate::analysis::Root;
use crate::ast::{Instruction, Predicate};

use super::site::{Checked, Writer};
use super::{ExtraParameter, RECORD_VERSION, Site};

impl Writer<'_, '_> {
    /// The number of the first violation of the thread, or 0.
    pub(super) fn first(&self) -> String {
        self.r(15)
    }

    /// The address of the first violation of the thread.
    pub(super) fn first_address(&self) -> String {
        self.d(15)
    }

    /// The third coordinate of the first violation of the thread, if that is one of a surface.
    pub(super) fn first_third(&self) -> String {
        self.r(14)
    }

    /// Whether an access to a surface is checked.
    pub(super) fn has_surfaces(&self) -> bool {
        self.sites
            .iter()
            .any(|site| matches!(site.root, Some(Root::Object { .. })))
    }

    /// The code at the end of the body, which writes the record.
    pub(super) fn end(&mut self) -> String {
        let record = self.parameter(ExtraParameter::Record);
        let (done, write) = (self.label("done"), self.label("end"));
        let (first, address, to) = (self.first(), self.first_address(), self.d(0));
        let (word, none) = (self.r(0), self.p(0));
        let mut out = format!(
            " {write}: setp.eq.u32 {none}, {first}, 0; @{none} bra {done}; \
             ld.param.u64 {to}, [{record}]; red.global.add.u32 [{to}+4], 1; \
             atom.global.cas.b32 {word}, [{to}], 0, {first}; \
             setp.ne.u32 {none}, {word}, 0; @{none} bra {done}; \
             mov.u32 {word}, {RECORD_VERSION}; st.global.u32 [{to}+8], {word}; \
             st.global.u64 [{to}+16], {address}; "
        );
        for (index, name) in ["%ctaid", "%tid"].into_iter().enumerate() {
            for (axis, member) in ["x", "y", "z"].into_iter().enumerate() {
                let at = 24 + 12 * index + 4 * axis;
                let _ = write!(out, "mov.u32 {word}, {name}.{member}; ");
                let _ = write!(out, "st.global.u32 [{to}+{at}], {word}; ");
            }
        }
        if self.has_surfaces() {
            let _ = write!(out, "st.global.u32 [{to}+48], {}; ", self.first_third());
        }
        let _ = write!(out, "{done}: ret; ");
        out
    }

    /// Keeps a violation, if it is the first of the thread.
    pub(super) fn record(
        &self,
        out: &mut String,
        one: &Checked,
        guard: Option<&str>,
        bad: &str,
        scratch: &str,
    ) {
        let (first, address) = (self.first(), self.first_address());
        let _ = write!(out, "not.pred {bad}, {}; ", one.ok);
        if let Some(guard) = guard {
            let _ = write!(out, "and.pred {bad}, {bad}, {guard}; ");
        }
        let _ = write!(out, "setp.eq.and.u32 {scratch}, {first}, 0, {bad}; ");
        let _ = write!(out, "@{scratch} mov.u32 {first}, {}; ", one.site);
        let conversion = if one.is_wide {
            "mov.u64"
        } else {
            "cvt.u64.u32"
        };
        let _ = write!(out, "@{scratch} {conversion} {address}, {}; ", one.address);
        if let Some(third) = &one.third {
            let _ = write!(out, "@{scratch} mov.u32 {}, {third}; ", self.first_third());
        }
    }

    /// The end of a thread.
    pub(super) fn leave(&self, instruction: &Instruction<'_>) -> String {
        let end = self.label("end");
        match instruction.predicate {
            Some(Predicate { name, negated }) => {
                let not = if negated { "!" } else { "" };
                format!("@{not}{name} bra {end};")
            }
            None => format!("bra {end};"),
        }
    }

    /// A violation that ends the thread.
    pub(super) fn trap(&mut self, instruction: &Instruction<'_>) -> String {
        self.sites.push(Site {
            line: instruction.line,
            access: None,
            root: None,
        });
        let (first, scratch) = (self.first(), self.p(7));
        let mut out = String::new();
        let guard = self.guard(&mut out, instruction);
        let _ = write!(out, "setp.eq.u32 {scratch}, {first}, 0; ");
        if let Some(guard) = &guard {
            let _ = write!(out, "and.pred {scratch}, {scratch}, {guard}; ");
        }
        let _ = write!(out, "@{scratch} mov.u32 {first}, {}; ", self.sites.len());
        let _ = write!(out, "{}", self.leave(instruction));
        out
    }
}
