//! One attack: its text, and how it is launched.

use cuda_driver::jit::JitOptions;

/// The first lines of a text.
pub(super) const HEAD: &str = ".version 8.3\n.target sm_90\n.address_size 64\n";

/// A kernel with registers, and with its parameters in `%d1` (`x`), `%r1` (`n`) and `%d2` (`m`).
pub(super) fn kernel(directives: &str, body: &str) -> String {
    format!(
        "{HEAD}.visible .entry k(.param .u64 x, .param .u32 n, .param .u64 m) {directives} {{\n \
         .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .pred %p<9>;\n ld.param.u64 %d1, [x]; \
         ld.param.u32 %r1, [n]; ld.param.u64 %d2, [m];\n {body}\n ret;\n}}\n"
    )
}

#[derive(Clone, Debug)]
pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) text: String,
    pub(super) n: u32,
    pub(super) m: u64,
    /// The number of words of `x`, their value, and one other value.
    pub(super) words: usize,
    pub(super) value: u32,
    pub(super) word: Option<(usize, u32)>,
    pub(super) grid: u32,
    pub(super) block: u32,
    pub(super) shared_bytes: u32,
    pub(super) options: JitOptions,
    pub(super) is_check_all: bool,
    /// A variable that is passed, and one that must not change.
    pub(super) variable: Option<&'static str>,
    pub(super) untouched: Option<&'static str>,
    /// A kernel that is launched before `k`.
    pub(super) before: Option<&'static str>,
    pub(super) repeat: u32,
}

impl Attack {
    pub(super) fn new(name: &'static str, text: String) -> Self {
        Self {
            name,
            text,
            n: 1,
            m: 7,
            words: 32,
            value: 7,
            word: None,
            grid: 1,
            block: 1,
            shared_bytes: 0,
            options: JitOptions::new(),
            is_check_all: false,
            variable: None,
            untouched: None,
            before: None,
            repeat: 1,
        }
    }

    pub(super) fn n(self, n: u32) -> Self {
        Self { n, ..self }
    }

    pub(super) fn m(self, m: u64) -> Self {
        Self { m, ..self }
    }

    pub(super) fn words(self, words: usize) -> Self {
        Self { words, ..self }
    }

    pub(super) fn all_words(self, value: u32) -> Self {
        Self { value, ..self }
    }

    pub(super) fn word(self, at: usize, value: u32) -> Self {
        Self {
            word: Some((at, value)),
            ..self
        }
    }

    pub(super) fn grid(self, grid: u32) -> Self {
        Self { grid, ..self }
    }

    pub(super) fn block(self, block: u32) -> Self {
        Self { block, ..self }
    }

    pub(super) fn shared_bytes(self, shared_bytes: u32) -> Self {
        Self {
            shared_bytes,
            ..self
        }
    }

    pub(super) fn debug(self) -> Self {
        Self {
            options: JitOptions::new().debug_info(true),
            ..self
        }
    }

    pub(super) fn check_all(self) -> Self {
        Self {
            is_check_all: true,
            ..self
        }
    }

    pub(super) fn variable(self, name: &'static str) -> Self {
        Self {
            variable: Some(name),
            ..self
        }
    }

    pub(super) fn untouched(self, name: &'static str) -> Self {
        Self {
            untouched: Some(name),
            ..self
        }
    }

    pub(super) fn before(self, name: &'static str) -> Self {
        Self {
            before: Some(name),
            ..self
        }
    }

    pub(super) fn repeat(self, repeat: u32) -> Self {
        Self { repeat, ..self }
    }
}
