//! The liberties of NVIDIA's assembler: what it makes of a text need not be what the text says.
//!
//! For each liberty, `rows` has a kernel that needs a rule of the analysis, and one that satisfies
//! it. The assembler is the judge: the tests compare what the machine code does with what the rule
//! assumes, and with the verdict of the analysis.

mod attacks;
mod judge;
mod repeats;
mod rows;

use cuda_ptx::analysis::{Analysis, Verdict};

use crate::support::{analysis, int, launch, output};

/// A kernel with the parameters `x`, a buffer, and `n`, a number.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    /// The directives between the parameters and the body.
    pub(crate) directives: &'static str,
    pub(crate) body: String,
}

/// The instructions with which each kernel begins: `%d1` is `x`, and `%r1` is `n`.
const BEGIN: &str = "ld.param.u64 %d1, [x]; ld.param.u32 %r1, [n];";

/// Stores to `x[index]`, where `index` is a register. A proof needs `index < 37`.
pub(crate) fn store(index: &str) -> String {
    format!(
        "mul.wide.u32 %d2, {index}, 4; add.s64 %d3, %d1, %d2; mov.u32 %r2, 77; \
         st.global.u32 [%d3], %r2;"
    )
}

/// The text of a module with these kernels.
pub(crate) fn text<'k>(kernels: impl IntoIterator<Item = &'k Kernel>, arch: &str) -> String {
    // The version in which the architecture first appears.
    let version = match arch {
        "sm_80" | "sm_90" => "8.0",
        _ => "8.6",
    };
    let mut text = format!(".version {version}\n.target {arch}\n.address_size 64\n");
    for Kernel {
        name,
        directives,
        body,
    } in kernels
    {
        text += &format!(
            ".visible .entry {name}(.param .u64 x, .param .u32 n) {directives} {{\n\
             .reg .b64 %d<30>; .reg .b32 %r<40>; .reg .b32 %v<100>; .reg .pred %p<10>;\n\
             .reg .f32 %f<10>;\n{BEGIN}\n{body}\nret;\n}}\n"
        );
    }
    text
}

/// Analyses a kernel.
pub(crate) fn analysed(kernel: &Kernel) -> Analysis {
    let text = text([kernel], "sm_90");
    analysis(&text, &kernel.name)
}

/// The verdict on a launch of one thread in which `x` has 37 numbers.
pub(crate) fn verdict(kernel: &Kernel, n: i32) -> Verdict {
    let values = launch([1, 1, 1], [1, 1, 1], [output(4 * 37), int(n)]);
    analysed(kernel).evaluate(&values)
}
