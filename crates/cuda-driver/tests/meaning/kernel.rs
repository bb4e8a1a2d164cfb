//! The kernels that execute one instruction each.
//!
//! Each thread reads a record: a word that is not 0 if it executes the instruction, and the values
//! of the sources. It writes the values of the results to another record. A kernel for an
//! instruction that accesses memory has an area of [`AREA`] bytes per thread in global, shared and
//! local memory, with given contents, and writes the contents of the last two afterwards.

use std::fmt::Write;

use crate::claim::{self, REGISTERS};
use crate::item::{Item, Place, Plan, Register, Run};

/// The bytes of memory of each thread in each space.
pub(crate) const AREA: usize = 256;
/// Where the access begins in the area of a thread.
pub(crate) const AT: usize = 128;
/// The bytes of all constants.
pub(crate) const CONSTANTS: usize = 65536;
/// The bytes of constants of each thread, and where the access begins in them.
pub(crate) const CONST_AREA: usize = 64;
pub(crate) const CONST_AT: usize = 16;
/// Where a matrix begins in the areas of a warp, one behind the other.
pub(crate) const MATRIX_AT: usize = 1024;
/// The value of each byte of a result that was not set.
pub(crate) const UNSET: u8 = 0x5a;
/// The value that a control instruction leaves if it does what it says.
pub(crate) const REACHED: u64 = 0x1234_5678;

/// The words of a record of sources, and of results.
pub(crate) fn record(registers: &[Register]) -> usize {
    registers.iter().map(Register::slots).sum()
}

/// The PTX version of a kernel with the instruction for `sm_90`, which has 7.8.
pub(crate) fn version(item: &Item) -> &'static str {
    // Versions have one digit before the point, and one behind it.
    item.version.max("7.8")
}

/// The beginning of a module.
pub(crate) fn module(version: &str, has_constants: bool) -> String {
    let constants = match has_constants {
        true => &format!(".const .align 256 .b8 zconst[{CONSTANTS}];\n"),
        false => "",
    };
    format!(".version {version}\n.target sm_90\n.address_size 64\n{constants}")
}

/// The kernel of a run. Its parameters are the same for all runs.
pub(crate) fn kernel(name: &str, item: &Item, run: Run) -> String {
    let mut text = format!(
        ".visible .entry {name}(.param .u64 zin, .param .u64 zout, .param .u64 zpad, .param .u64 \
         zfill, .param .u64 zdump, .param .u64 zat, .param .align 16 .b8 zbefore[64], .param .align \
         16 .b8 n[64], .param .align 16 .b8 zafter[64]) {{\n{REGISTERS}\n.reg .b64 %z<20>; .reg .b32 \
         %y<9>; .reg .pred %w<5>;\n"
    );
    let is_memory = item.plan == Plan::Memory;
    if is_memory || uses_cluster_address(item) {
        let _ = writeln!(text, ".shared .align 256 .b8 zsh[{}];", 32 * AREA);
    }
    if is_memory {
        let _ = writeln!(text, ".local .align 32 .b8 zlo[{AREA}];");
    }
    if item.text.contains("%q") {
        text += ".reg .b128 %q<100>;\n";
    }
    if item.opcode == "brx" {
        text += "T: .branchtargets L;\n";
    }
    let (sources, results) = (record(&item.sources), record(&item.results));
    let _ = write!(
        text,
        "mov.u32 %y0, %ctaid.x; mov.u32 %y1, %tid.x; mad.lo.u32 %y2, %y0, 32, %y1;\n\
         cvt.u64.u32 %z0, %y2; ld.param.u64 %z1, [zat]; add.u64 %z0, %z0, %z1;\n\
         ld.param.u64 %z1, [zin]; mad.lo.u64 %z1, %z0, {}, %z1;\n\
         ld.param.u64 %z2, [zout]; mad.lo.u64 %z2, %z0, {}, %z2;\n\
         ld.global.u32 %y3, [%z1];\n",
        8 * (1 + sources),
        8 * results.max(1)
    );
    text += claim::setup(item);
    if is_memory {
        fill(&mut text);
    }
    let mut slot = 1;
    for source in &item.sources {
        load(&mut text, source, 8 * slot);
        slot += source.slots();
    }
    if let Some(handle) = &item.handle {
        let _ = writeln!(text, "ld.param.u64 {}, [n];", handle.name);
    }
    for result in &item.results {
        unset(&mut text, result);
    }
    for (number, address) in item.addresses.iter().enumerate() {
        let place = address.space.or(run.place).unwrap_or(Place::Global);
        let is_generic = address.space.is_none();
        set_address(&mut text, item, number, place, is_generic);
    }
    execute(&mut text, item);
    slot = 0;
    for result in &item.results {
        store(&mut text, result, 8 * slot);
        slot += result.slots();
    }
    if is_memory {
        dump(&mut text);
    }
    text + "ret; }\n"
}

/// Whether the operands must be an address in shared memory and the rank of a block.
fn uses_cluster_address(item: &Item) -> bool {
    matches!(item.opcode.as_str(), "mapa" | "getctarank")
}

/// The instruction with what it needs before and behind it.
fn execute(text: &mut String, item: &Item) {
    let is_aligned = item.is_aligned();
    if !is_aligned {
        *text += "setp.eq.u32 %w0, %y3, 0;\n@%w0 bra ZSKIP;\n";
    }
    if uses_cluster_address(item) {
        let address = &item.sources[0];
        let name = &address.name;
        let is_generic = !item.has("shared::cluster");
        let _ = match (address.bits, is_generic) {
            (32, _) => writeln!(text, "mov.u32 {name}, zsh;"),
            (_, false) => writeln!(text, "mov.u64 {name}, zsh;"),
            (_, true) => writeln!(text, "mov.u64 {name}, zsh; cvta.shared.u64 {name}, {name};"),
        };
        if let Some(rank) = item.sources.get(1) {
            let _ = writeln!(text, "mov.u32 {}, 0;", rank.name);
        }
    }
    match item.opcode.as_str() {
        // The carry is set if the control word is above 1.
        "addc" | "subc" | "madc" => *text += "add.cc.u32 %y4, %y3, -2;\n",
        "barrier" if item.has("wait") => *text += "barrier.cluster.arrive.aligned;\n",
        _ => {}
    }
    if item.plan == Plan::Control {
        let _ = write!(
            text,
            "st.global.u64 [%z2], {REACHED};\n{}\nst.global.u64 [%z2], 1;\n",
            item.text
        );
        if item.opcode.starts_with("br") {
            *text += "L:\n";
        }
    } else {
        *text += &item.text;
        text.push('\n');
    }
    if item.opcode == "barrier" && item.has("cluster") && item.has("arrive") {
        *text += "barrier.cluster.wait.aligned;\n";
    }
    if item.opcode == "cp" {
        *text += "cp.async.wait_all;\n";
    }
    if !is_aligned {
        *text += "ZSKIP:\n";
    }
}

fn load(text: &mut String, source: &Register, at: usize) {
    let (name, ty) = (&source.name, source.bits_type());
    let _ = match source.bits {
        1 => writeln!(
            text,
            "ld.global.u32 %y4, [%z1+{at}]; setp.ne.u32 {name}, %y4, 0;"
        ),
        128 => writeln!(
            text,
            "ld.global.b64 %z3, [%z1+{at}]; ld.global.b64 %z4, [%z1+{}]; mov.b128 {name}, {{%z3, \
             %z4}};",
            at + 8
        ),
        _ => writeln!(text, "ld.global.{ty} {name}, [%z1+{at}];"),
    };
}

fn unset(text: &mut String, result: &Register) {
    let name = &result.name;
    let _ = match (result.bits, result.is_float()) {
        (1, _) => writeln!(text, "setp.eq.u32 {name}, 0, 0;"),
        (8, _) => writeln!(text, "mov.u32 %y4, 0x5a; cvt.u8.u32 {name}, %y4;"),
        (16, _) => writeln!(text, "mov.b16 {name}, 0x5a5a;"),
        (32, true) => writeln!(text, "mov.f32 {name}, 0f5A5A5A5A;"),
        (32, _) => writeln!(text, "mov.b32 {name}, 0x5a5a5a5a;"),
        (64, true) => writeln!(text, "mov.f64 {name}, 0d5A5A5A5A5A5A5A5A;"),
        (64, _) => writeln!(text, "mov.b64 {name}, 0x5a5a5a5a5a5a5a5a;"),
        _ => writeln!(
            text,
            "mov.b64 %z3, 0x5a5a5a5a5a5a5a5a; mov.b128 {name}, {{%z3, %z3}};"
        ),
    };
}

fn store(text: &mut String, result: &Register, at: usize) {
    let (name, ty) = (&result.name, result.bits_type());
    let _ = match result.bits {
        1 => writeln!(
            text,
            "selp.u64 %z3, 1, 0, {name}; st.global.u64 [%z2+{at}], %z3;"
        ),
        128 => writeln!(
            text,
            "mov.b128 {{%z3, %z4}}, {name}; st.global.b64 [%z2+{at}], %z3; st.global.b64 \
             [%z2+{}], %z4;",
            at + 8
        ),
        // The other bytes of the word keep the value that the host has written.
        _ => writeln!(text, "st.global.{ty} [%z2+{at}], {name};"),
    };
}

/// Fills the areas in shared and local memory.
///
/// `%z5` is the area in global memory, `%z6` that in shared and `%z7` that in local memory; `%z8`
/// is the record with the contents of both.
fn fill(text: &mut String) {
    let _ = write!(
        text,
        "ld.param.u64 %z5, [zpad]; mad.lo.u64 %z5, %z0, {AREA}, %z5;\n\
         ld.param.u64 %z8, [zfill]; mad.lo.u64 %z8, %z0, {both}, %z8;\n\
         ld.param.u64 %z9, [zdump]; mad.lo.u64 %z9, %z0, {both}, %z9;\n\
         mov.u64 %z6, zsh; cvt.u64.u32 %z3, %y1; mad.lo.u64 %z6, %z3, {AREA}, %z6;\n\
         mov.u64 %z7, zlo;\n\
         mov.u64 %z10, %z6; mov.u64 %z11, %z7; mov.u32 %y5, 0;\n\
         ZFILL:\n\
         ld.global.b64 %z12, [%z8]; st.shared.b64 [%z10], %z12;\n\
         ld.global.b64 %z12, [%z8+{AREA}]; st.local.b64 [%z11], %z12;\n\
         add.u64 %z8, %z8, 8; add.u64 %z10, %z10, 8; add.u64 %z11, %z11, 8;\n\
         add.u32 %y5, %y5, 8; setp.lt.u32 %w1, %y5, {AREA}; @%w1 bra ZFILL;\n\
         bar.sync 0;\n",
        both = 2 * AREA
    );
}

/// Writes the contents of the areas in shared and local memory.
fn dump(text: &mut String) {
    let _ = write!(
        text,
        "bar.sync 0;\n\
         mov.u64 %z10, %z6; mov.u64 %z11, %z7; mov.u32 %y5, 0;\n\
         ZDUMP:\n\
         ld.shared.b64 %z12, [%z10]; st.global.b64 [%z9], %z12;\n\
         ld.local.b64 %z12, [%z11]; st.global.b64 [%z9+{AREA}], %z12;\n\
         add.u64 %z9, %z9, 8; add.u64 %z10, %z10, 8; add.u64 %z11, %z11, 8;\n\
         add.u32 %y5, %y5, 8; setp.lt.u32 %w1, %y5, {AREA}; @%w1 bra ZDUMP;\n"
    );
}

/// Sets the register of an address.
fn set_address(text: &mut String, item: &Item, number: usize, place: Place, is_generic: bool) {
    let address = &item.addresses[number];
    let name = &address.register.name;
    let is_matrix = address.bytes.is_none();
    let at = match (place, is_matrix) {
        (Place::Const, _) => CONST_AT,
        (_, true) => MATRIX_AT,
        _ => AT,
    };
    // A matrix has one address for the warp.
    let base = match (place, is_matrix) {
        (Place::Global, false) => "mov.u64 %z13, %z5;\n".to_owned(),
        (Place::Shared, false) => "mov.u64 %z13, %z6;\n".to_owned(),
        (Place::Shared, true) => "mov.u64 %z13, zsh;\n".to_owned(),
        (Place::Local, _) => "mov.u64 %z13, %z7;\n".to_owned(),
        (Place::Global, true) => format!(
            "cvt.u64.u32 %z13, %y1; mul.lo.u64 %z13, %z13, {AREA}; sub.u64 %z13, %z5, %z13;\n"
        ),
        (Place::Const, _) => {
            format!("mov.u64 %z13, zconst; mad.lo.u64 %z13, %z0, {CONST_AREA}, %z13;\n")
        }
    };
    *text += &base;
    if is_generic && place != Place::Global {
        let _ = writeln!(text, "cvta.{}.u64 %z13, %z13;", place.name());
    }
    let _ = writeln!(text, "add.u64 %z13, %z13, {};", at as i64 - address.offset);
    let _ = match address.register.bits {
        32 => writeln!(text, "cvt.u32.u64 {name}, %z13;"),
        _ => writeln!(text, "mov.u64 {name}, %z13;"),
    };
}
