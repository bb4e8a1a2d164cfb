//! Accesses with an index: to buffers, to shared, local and module variables, with addresses and
//! instructions of every form.

use super::guard::Guarded;
use super::writer::{BASES, TID, Writer, put};

/// The memory of an access.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// A buffer by its number.
    Buffer(usize),
    /// A variable with its space and its size.
    Variable(String, &'static str, u32),
}

impl Writer<'_> {
    /// Chooses the memory of an access, and declares it if it is a variable.
    pub(super) fn target(&mut self) -> Target {
        match self.rng.u32(..24) {
            0..=14 => Target::Buffer([0, 0, 2][self.rng.usize(..3)]),
            15 => Target::Buffer(1),
            16 => {
                self.uses_variables = true;
                Target::Variable("table".to_owned(), ".global", super::TABLE_WORDS * 4)
            }
            kind => {
                let space = if kind < 19 { ".local" } else { ".shared" };
                let bytes = [64, 256, 1024][self.rng.usize(..3)];
                let name = self.unique("arr");
                self.inside += &format!(" {space} .align 16 .b8 {name}[{bytes}];\n");
                if space == ".local" || self.one_in(2) {
                    let at = self.r();
                    put!(self, "mov.u32 {at}, {name};");
                    put!(self, "st{space}.u32 [{at}], {TID};");
                }
                Target::Variable(name, space, bytes)
            }
        }
    }

    fn bytes(&self, target: &Target) -> u32 {
        match target {
            Target::Buffer(number) => 4 * self.words(*number),
            Target::Variable(_, _, bytes) => *bytes,
        }
    }

    /// Chooses the size of an element.
    pub(super) fn size(&mut self) -> u32 {
        [4, 4, 4, 4, 1, 2, 8, 16][self.rng.usize(..8)]
    }

    /// The number of elements of `size` bytes.
    pub(super) fn count(&self, target: &Target, size: u32) -> u32 {
        self.bytes(target) / size
    }

    /// Accesses the element.
    pub(super) fn access(&mut self, target: &Target, size: u32, index: &Guarded) {
        match target {
            Target::Buffer(number) => {
                let (base, is_read_only) = (BASES[*number], *number == 1);
                let base = self.generic_and_back(base);
                let space = self.of(&[".global", ".global", ".global", ""]);
                let address = self.wide(&base, size, &index.register);
                self.instruction(space, &address, size, index, is_read_only);
            }
            Target::Variable(name, space, _) => {
                let (space, name) = (*space, name.clone());
                if space != ".global" && self.one_in(2) {
                    let address = self.narrow(&name, size, &index.register);
                    self.instruction(space, &address, size, index, false);
                    return;
                }
                let base = self.d();
                put!(self, "mov.u64 {base}, {name};");
                if self.one_in(3) {
                    put!(self, "cvta{space}.u64 {base}, {base};");
                    let address = self.wide(&base, size, &index.register);
                    self.instruction("", &address, size, index, false);
                } else {
                    let address = self.wide(&base, size, &index.register);
                    self.instruction(space, &address, size, index, false);
                }
            }
        }
    }

    /// Converts an address to a global or generic one, and perhaps back.
    fn generic_and_back(&mut self, base: &str) -> String {
        let (a, b) = (self.d(), self.d());
        match self.rng.u32(..6) {
            0 => {
                put!(self, "cvta.to.global.u64 {a}, {base};");
                a
            }
            1 => {
                put!(self, "cvta.to.global.u64 {a}, {base};");
                put!(self, "cvta.global.u64 {b}, {a};");
                b
            }
            _ => base.to_owned(),
        }
    }

    /// An address of 64 bits.
    fn wide(&mut self, base: &str, size: u32, index: &str) -> String {
        let (address, offset) = (self.d(), self.d());
        let shift = size.trailing_zeros();
        match self.rng.u32(..8) {
            0 => put!(self, "mad.wide.u32 {address}, {index}, {size}, {base};"),
            1 => {
                put!(self, "cvt.u64.u32 {offset}, {index};");
                put!(self, "shl.b64 {offset}, {offset}, {shift};");
                put!(self, "add.s64 {address}, {base}, {offset};");
            }
            2 => {
                put!(self, "cvt.u64.u32 {offset}, {index};");
                put!(self, "mad.lo.u64 {address}, {offset}, {size}, {base};");
            }
            3 => {
                // The product may wrap at 32 bits.
                let low = self.r();
                put!(self, "shl.b32 {low}, {index}, {shift};");
                put!(self, "cvt.u64.u32 {offset}, {low};");
                put!(self, "add.s64 {address}, {base}, {offset};");
            }
            4 => {
                put!(self, "mul.wide.s32 {offset}, {index}, {size};");
                put!(self, "add.s64 {address}, {offset}, {base};");
            }
            5 => {
                let far = self.of(&["4294967296", "4096", "-8", "1073741824"]);
                put!(self, "mul.wide.u32 {offset}, {index}, {size};");
                put!(self, "add.s64 {address}, {base}, {offset};");
                if far.len() < 6 {
                    put!(self, "sub.s64 {address}, {address}, {far};");
                    return format!("[{address}+{far}]");
                }
                put!(self, "add.s64 {address}, {address}, {far};");
                put!(self, "sub.s64 {address}, {address}, {far};");
            }
            _ => {
                put!(self, "mul.wide.u32 {offset}, {index}, {size};");
                put!(self, "add.s64 {address}, {base}, {offset};");
            }
        }
        format!("[{address}]")
    }

    /// An address of 32 bits in a window.
    fn narrow(&mut self, name: &str, size: u32, index: &str) -> String {
        let (base, address) = (self.r(), self.r());
        match self.rng.u32(..4) {
            // The index is the address.
            3 => format!("[{index}]"),
            0 => {
                let far = self.of(&["4096", "16777216", "64"]);
                put!(self, "mov.u32 {base}, {name};");
                put!(self, "sub.u32 {base}, {base}, {far};");
                put!(self, "mad.lo.u32 {address}, {index}, {size}, {base};");
                format!("[{address}+{far}]")
            }
            1 => {
                put!(self, "mul.lo.u32 {address}, {index}, {size};");
                put!(self, "mov.u32 {base}, {name};");
                put!(self, "add.u32 {address}, {base}, {address};");
                format!("[{address}]")
            }
            _ => {
                put!(self, "mov.u32 {base}, {name};");
                put!(self, "mad.lo.s32 {address}, {index}, {size}, {base};");
                format!("[{address}]")
            }
        }
    }

    /// The instruction of an access.
    fn instruction(
        &mut self,
        space: &'static str,
        address: &str,
        size: u32,
        index: &Guarded,
        is_read_only: bool,
    ) {
        let guard = index.prefix();
        let is_store = !is_read_only && !self.one_in(5);
        let is_global = space == ".global";
        let is_local = space == ".local";
        if !is_store {
            return self.load(space, address, size, &guard);
        }
        let value = self.r();
        put!(self, "mov.u32 {value}, 0xfeedf00d;");
        let wide = self.d();
        put!(self, "mov.b64 {wide}, {{{value}, {value}}};");
        let text = match (size, self.rng.u32(..12)) {
            (4, 0) if !is_local => format!("red{space}.add.u32 {address}, {value};"),
            (4, 1) if !is_local => {
                let old = self.r();
                let op = self.of(&["exch.b32", "add.u32", "max.u32", "xor.b32"]);
                let order = self.of(&["", ".relaxed.gpu", ".release.cta", ".acq_rel.sys"]);
                format!("atom{order}{space}.{op} {old}, {address}, {value};")
            }
            (4, 2) if !is_local => {
                let old = self.r();
                format!("atom{space}.cas.b32 {old}, {address}, {old}, {value};")
            }
            (4, 3) if is_global => {
                let cop = self.of(&["cg", "wb", "cs", "wt"]);
                format!("st.global.{cop}.u32 {address}, {value};")
            }
            (4, 4) if is_global => {
                let hint = self.of(&["L1::no_allocate", "L1::evict_last", "L1::evict_first"]);
                format!("st.global.{hint}.b32 {address}, {value};")
            }
            (4, 5) if is_global => {
                let order = self.of(&["relaxed.gpu", "release.gpu", "relaxed.cta", "volatile"]);
                format!("st.{order}.global.u32 {address}, {value};")
            }
            (4, 6) if is_global => {
                let policy = self.d();
                put!(
                    self,
                    "createpolicy.fractional.L2::evict_first.b64 {policy}, 0.5;"
                );
                format!("st.global.L2::cache_hint.u32 {address}, {value}, {policy};")
            }
            (4, _) => format!("st{space}.u32 {address}, {value};"),
            (1, _) => format!("st{space}.u8 {address}, {value};"),
            (2, _) => {
                let half = self.fresh('h');
                put!(self, "cvt.u16.u32 {half}, {value};");
                format!("st{space}.u16 {address}, {half};")
            }
            (8, 0) if !is_local => format!("red{space}.add.u64 {address}, {wide};"),
            (8, 1..=5) => format!("st{space}.v2.u32 {address}, {{{value}, {value}}};"),
            (8, _) => format!("st{space}.u64 {address}, {wide};"),
            (_, 0..=5) => format!("st{space}.v2.b64 {address}, {{{wide}, {wide}}};"),
            _ => format!("st{space}.v4.b32 {address}, {{{value}, {value}, {value}, {value}}};"),
        };
        put!(self, "{guard}{text}");
    }

    fn load(&mut self, space: &'static str, address: &str, size: u32, guard: &str) {
        let (value, wide) = (self.r(), self.d());
        if space == ".global" && size == 4 && self.one_in(6) {
            let hint = self.of(&["prefetch.global.L2", "prefetch.global.L1"]);
            put!(self, "{guard}{hint} {address};");
        }
        let text = match size {
            1 => format!("ld{space}.u8 {value}, {address};"),
            2 => format!("ld{space}.s16 {value}, {address};"),
            4 => format!("ld{space}.u32 {value}, {address};"),
            8 => format!("ld{space}.u64 {wide}, {address};"),
            _ => format!("ld{space}.v4.u32 {{_, {value}, _, _}}, {address};"),
        };
        put!(self, "mov.u32 {value}, 0;");
        put!(self, "mov.u64 {wide}, 0;");
        put!(self, "{guard}{text}");
        if size == 8 {
            put!(self, "cvt.u32.u64 {value}, {wide};");
        }
        put!(self, "st.global.u32 [%d1+4], {value};");
    }
}
