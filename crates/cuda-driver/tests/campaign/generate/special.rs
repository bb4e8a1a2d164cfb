//! Fragments that read PTX differently than a reader expects: names of special registers, element
//! indices, addresses in windows of 32 bits, functions that do not return, frames that are gone,
//! clusters, and objects that the hardware checks.

use super::writer::{BASES, M, N, TID, Writer, put};

impl Writer<'_> {
    /// One fragment of this file.
    pub(super) fn special(&mut self) {
        match self.rng.u32(..24) {
            0..=3 => self.special_name(),
            4..=6 => self.element_index(),
            7..=10 => self.window(),
            11 | 12 => self.no_return(),
            13..=16 => self.frames(),
            17..=20 if self.is_hopper => self.in_cluster(),
            21 => self.passed_array(),
            22 => self.object(),
            _ => self.parameter_twice(),
        }
    }

    /// Stores to the first buffer at an index that the other fragments have not guarded.
    fn store_at(&mut self, index: &str) {
        let (offset, value, base) = (self.d(), self.r(), BASES[0]);
        put!(self, "mul.wide.u32 {offset}, {index}, 4;");
        put!(self, "add.s64 {offset}, {base}, {offset};");
        put!(self, "mov.u32 {value}, 0xfeed0001;");
        put!(self, "st.global.u32 [{offset}], {value};");
    }

    /// A register with the name of a special register.
    fn special_name(&mut self) {
        let name = self.of(&["%laneid", "%warpid", "%smid", "%clock", "%tid", "%ctaid"]);
        let number = self.of(&["1000", "70000", "5", N]);
        let index = self.r();
        self.line("{");
        match name {
            "%tid" | "%ctaid" => {
                put!(self, ".reg .v4 .b32 {name};");
                put!(self, "mov.u32 {index}, {number};");
                put!(
                    self,
                    "mov.v4.b32 {name}, {{{index}, {index}, {index}, {index}}};"
                );
                put!(self, "mov.u32 {index}, {name}.x;");
            }
            _ => {
                put!(self, ".reg .b32 {name};");
                put!(self, "mov.u32 {name}, {number};");
                put!(self, "mov.u32 {index}, {name};");
            }
        }
        let last = self.words(0) - 1;
        let limited = self.r();
        match self.rng.u32(..3) {
            0 => put!(self, "min.u32 {limited}, {index}, {last};"),
            1 => put!(self, "and.b32 {limited}, {index}, 31;"),
            _ => put!(self, "mov.u32 {limited}, {index};"),
        }
        self.store_at(&limited);
        self.line("}");
    }

    /// The address of a variable with an element index in brackets.
    fn element_index(&mut self) {
        let address = self.d();
        if self.one_in(2) {
            self.uses_variables = true;
            let at = self.of(&["10", "255", "1000", "1023", "4092", "4088"]);
            put!(self, "mov.u64 {address}, table[{at}];");
            put!(self, "st.global.u32 [{address}], {TID};");
            return;
        }
        let name = self.unique("el");
        let ty = self.of(&["b32", "b64", "u16"]);
        self.inside += &format!(" .shared .align 16 .{ty} {name}[64];\n");
        let at = self.of(&["1", "15", "31", "60", "63"]);
        put!(self, "mov.u64 {address}, {name}[{at}];");
        let value = self.r();
        put!(self, "st.shared.u16 [{address}], {};", "%h0");
        put!(self, "mov.u64 {address}, {name};");
        put!(self, "ld.shared.u32 {value}, [{address}];");
        self.store_at(TID_BELOW);
    }

    /// Differences and comparisons of addresses in a window, whose numbers have 32 bits.
    fn window(&mut self) {
        let name = self.unique("win");
        let space = self.of(&[".shared", ".shared", ".local"]);
        self.inside += &format!(" {space} .align 8 .b8 {name}[64];\n");
        let (far, near, index) = (self.d(), self.d(), self.d());
        match self.rng.u32(..5) {
            0 | 1 => {
                let offset = self.of(&["-4096", "-16", "4294967296", "-1048576"]);
                let back = offset.strip_prefix('-').map_or_else(
                    || format!("sub.s64 {index}, {index}, {offset};"),
                    |number| format!("add.s64 {index}, {index}, {number};"),
                );
                put!(self, "mov.u64 {far}, {name}+{offset};");
                put!(self, "mov.u64 {near}, {name};");
                put!(self, "sub.s64 {index}, {far}, {near};");
                put!(self, "{back}");
                put!(self, "add.s64 {index}, %d1, {index};");
                put!(self, "st.global.u32 [{index}], {TID};");
            }
            2 => {
                let (low, value) = (self.r(), self.r());
                let shift = self.of(&["23", "24", "25", "16"]);
                put!(self, "mov.u32 {low}, {name};");
                put!(self, "shr.u32 {value}, {low}, {shift};");
                self.store_at(&value);
            }
            3 => {
                let (low, p) = (self.r(), self.p());
                let limit = self.of(&["16777216", "16777217", "65536"]);
                put!(self, "mov.u32 {low}, {name};");
                put!(self, "setp.ge.u32 {p}, {low}, {limit};");
                put!(self, "mul.wide.u32 {index}, {M}, 4;");
                put!(self, "add.s64 {index}, %d1, {index};");
                put!(self, "@{p} st.global.u32 [{index}], {TID};");
            }
            _ => {
                // Arithmetic of 32 bits that wraps below the variable.
                let (low, value) = (self.r(), self.r());
                put!(self, "mov.u32 {low}, {name};");
                put!(self, "sub.u32 {low}, {low}, 2048;");
                put!(self, "add.u32 {low}, {low}, 2048;");
                put!(self, "mov.u32 {value}, 7;");
                put!(self, "st{space}.u32 [{low}+4], {value};");
            }
        }
    }

    /// A function that is declared not to return, and perhaps returns.
    fn no_return(&mut self) {
        let name = self.unique("stop");
        let body = self.of(&["ret;", "exit;", "ret;"]);
        self.outside += &format!(".func {name}() .noreturn {{ {body} }}\n");
        let (p, over, index) = (self.p(), self.label(), self.r());
        let count = self.words(0);
        let source = self.of(&[N, M]);
        put!(self, "mov.u32 {index}, {source};");
        put!(self, "setp.lt.u32 {p}, {index}, {count};");
        put!(self, "@{p} bra {over};");
        put!(self, "call.uni {name}, ();");
        self.line("ret;");
        put!(self, "{over}:");
        self.store_at(&index);
    }

    /// A function returns the address of its local array, whose place another frame takes.
    fn frames(&mut self) {
        let [give, write, keep] = ["give", "write", "keep"].map(|prefix| self.unique(prefix));
        let bytes = [16, 64, 256][self.rng.usize(..3)];
        let at = 4 * self.rng.u32(..bytes / 4);
        let number = self.of(&["1000", "5000", "0x00200000"]);
        let mask = (self.words(0) / 2 + 1).next_power_of_two() - 1;
        self.outside += &format!(
            ".func (.param .b64 r) {give}() {{ .local .align 8 .b8 a[{bytes}]; .reg .b64 %a; \
             mov.u64 %a, a; st.param.b64 [r], %a; ret; }}\n\
             .func {write}(.param .b64 p) {{ .reg .b64 %a; .reg .b32 %v; ld.param.b64 %a, [p]; \
             mov.u32 %v, {number}; st.local.u32 [%a+{at}], %v; ret; }}\n\
             .func {keep}(.param .b64 p, .param .b64 x, .param .b32 i) {{ .reg .b64 %a<4>; .reg \
             .b32 %v<3>; ld.param.b64 %a0, [p]; ld.param.b64 %a1, [x]; ld.param.b32 %v0, [i]; \
             and.b32 %v0, %v0, {mask}; {{ .param .b64 q; st.param.b64 [q], %a0; call.uni {write}, \
             (q); }} mul.wide.u32 %a2, %v0, 4; add.s64 %a3, %a1, %a2; mov.u32 %v1, 5; \
             st.global.u32 [%a3], %v1; ret; }}\n"
        );
        let (pointer, index) = (self.d(), self.r());
        put!(self, "and.b32 {index}, {N}, {mask};");
        put!(
            self,
            "{{ .param .b64 r0; call.uni (r0), {give}, (); ld.param.b64 {pointer}, [r0]; }}"
        );
        put!(
            self,
            "{{ .param .b64 p0; .param .b64 p1; .param .b32 p2; st.param.b64 [p0], {pointer}; \
             st.param.b64 [p1], %d1; st.param.b32 [p2], {index}; call.uni {keep}, (p0, p1, p2); }}"
        );
        self.store_at(&index);
    }

    /// A function gets an array by value, and reads an element that the caller may not have set.
    fn passed_array(&mut self) {
        let name = self.unique("sum");
        let at = 4 * self.rng.u32(..4);
        self.outside += &format!(
            ".func (.param .b32 r) {name}(.param .align 8 .b8 p[16]) {{ .reg .b32 %v<3>; \
             ld.param.b32 %v0, [p+{at}]; ld.param.b32 %v1, [p+4]; add.u32 %v2, %v0, %v1; \
             st.param.b32 [r], %v2; ret; }}\n"
        );
        let (sum, p, over) = (self.r(), self.p(), self.label());
        let missing = self.rng.usize(..4);
        let mut stores = String::new();
        for word in (0..4).filter(|word| *word != missing) {
            stores += &format!("st.param.b32 [a0+{}], {TID}; ", 4 * word);
        }
        put!(
            self,
            "{{ .param .align 8 .b8 a0[16]; .param .b32 r0; {stores}call (r0), {name}, (a0); \
             ld.param.b32 {sum}, [r0]; }}"
        );
        let count = self.words(0);
        put!(self, "setp.ge.u32 {p}, {sum}, {count};");
        put!(self, "@{p} bra {over};");
        self.store_at(&sum);
        put!(self, "{over}:");
    }

    /// Addresses and identifiers of clusters.
    fn in_cluster(&mut self) {
        if self.cluster == 0 {
            self.cluster = [1, 2, 4][self.rng.usize(..3)];
            self.directives += &format!(" .reqnctapercluster {}", self.cluster);
        }
        let name = self.unique("clu");
        self.inside += &format!(" .shared .align 8 .b8 {name}[64];\n");
        let (at, value) = (self.r(), self.r());
        put!(self, "mov.u32 {at}, {name};");
        match self.rng.u32(..6) {
            0 => {
                let shift = self.of(&["24", "25"]);
                put!(self, "shr.u32 {value}, {at}, {shift};");
                put!(self, "mul.lo.u32 {value}, {value}, 1000;");
                self.store_at(&value);
            }
            1 => {
                let p = self.p();
                put!(self, "setp.lt.u32 {p}, {at}, 16777217;");
                put!(self, "@{p} ret;");
                self.store_at(M);
            }
            2 => {
                put!(self, "mov.u32 {value}, %cluster_ctarank;");
                self.store_at(&value);
            }
            3 => {
                put!(self, "st.shared.u32 [{at}], {TID};");
                self.line("barrier.cluster.arrive;");
                self.line("barrier.cluster.wait;");
            }
            4 => {
                put!(self, "mapa.shared::cluster.u32 {value}, {at}, 0;");
                put!(self, "getctarank.shared::cluster.u32 {value}, {value};");
                self.store_at(&value);
            }
            _ => {
                put!(self, "mapa.shared::cluster.u32 {value}, {at}, 0;");
                put!(self, "st.shared::cluster.u32 [{value}], {TID};");
                self.line("barrier.cluster.arrive;");
                self.line("barrier.cluster.wait;");
            }
        }
    }

    /// Objects that the hardware checks: barriers in memory, policies, and numbers of threads.
    fn object(&mut self) {
        let (at, state, name) = (self.r(), self.d(), self.unique("obj"));
        match self.rng.u32(..6) {
            0 => {
                self.inside += &format!(" .shared .align 8 .b8 {name}[8];\n");
                put!(self, "mov.u32 {at}, {name};");
                if self.one_in(2) {
                    put!(self, "mbarrier.init.shared.b64 [{at}], 1024;");
                }
                put!(self, "mbarrier.arrive.shared.b64 {state}, [{at}];");
            }
            1 => put!(self, "mbarrier.init.b64 [%d1], 1;"),
            2 => {
                let policy = "%d4";
                put!(self, "ld.global.L2::cache_hint.u32 {at}, [%d1], {policy};");
                self.store_at(TID_BELOW);
            }
            3 => put!(self, "bar.sync 1, {N};"),
            4 => put!(self, "discard.global.L2 [%d1], 128;"),
            _ => {
                let at = self.d();
                put!(self, "add.s64 {at}, %d1, 128;");
                put!(self, "applypriority.global.L2::evict_normal [{at}], 128;");
            }
        }
    }

    /// A parameter is loaded for the guard, and again for the use.
    fn parameter_twice(&mut self) {
        let (a, b, p, over) = (self.r(), self.r(), self.p(), self.label());
        let count = self.words(0);
        put!(self, "ld.param.u32 {a}, [n];");
        put!(self, "setp.ge.u32 {p}, {a}, {count};");
        put!(self, "@{p} bra {over};");
        put!(self, "ld.param.u32 {b}, [n];");
        self.store_at(&b);
        put!(self, "{over}:");
    }
}

/// A register that is below the size of every buffer.
const TID_BELOW: &str = "%r5";
