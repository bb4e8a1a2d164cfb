//! A search for weak loads that the assembler repeats.
//!
//! The memory model of PTX permits it, and the analysis assumes that it does not happen: a weak
//! load from global, shared or generic memory has one value for its guard and for its use. Each
//! random kernel compares a loaded number, uses more registers than there are, and makes an address
//! from the number. `CUDA_FULL=1` assembles 12,000 kernels.

use std::env;
use std::fmt::Write;

use fastrand::Rng;
use test_assembler::Assembler;

use super::{Kernel, store, text};

/// A kind of load: its text, and how its machine code begins.
const LOADS: [(&str, &[&str]); 4] = [
    ("ld.global", &["LDG."]),
    ("ld.weak.global", &["LDG."]),
    ("ld", &["LD.", "LDG.", "LDS"]),
    ("ld.shared", &["LDS"]),
];

/// A load that the assembler does repeat.
const REPEATED: (&str, &[&str]) = ("ld.global.nc", &["LDG."]);

/// A kernel with one load that matters. All others are volatile.
fn random(rng: &mut Rng, number: usize, kind: (&str, &'static [&'static str])) -> Random {
    let (load, code) = kind;
    let live = rng.usize(34..70);
    // Volatile loads keep the registers busy.
    let is_global = matches!(load, "ld.global" | "ld.weak.global" | "ld.global.nc");
    let (other, base) = match is_global && rng.bool() {
        true => ("shared", "s"),
        false => ("global", "%d1"),
    };
    let mut body = String::from(".shared .align 16 .b8 s[1024];\n");
    // The address: that of the argument, of the thread, or one that follows from `n`.
    let own = match load {
        "ld.shared" => "mov.u64 %d10, s;",
        _ => "add.s64 %d10, %d1, 0;",
    };
    let index = [
        "mov.u32 %r10, %tid.x;",
        "and.b32 %r10, %r1, 63;",
        "mov.u32 %r10, 3;",
    ];
    let _ = writeln!(
        body,
        "{own} {} mul.wide.u32 %d11, %r10, 4; add.s64 %d12, %d10, %d11;",
        index[rng.usize(..3)]
    );
    let ty = ["u32", "b32", "s32", "u16", "u8"][rng.usize(..5)];
    let at = 4 * rng.usize(..16);
    let _ = match ty {
        "u16" => writeln!(
            body,
            ".reg .b16 %h; {load}.u16 %h, [%d12+{at}]; cvt.u32.u16 %r5, %h;"
        ),
        _ => writeln!(body, "{load}.{ty} %r5, [%d12+{at}];"),
    };
    // The index may be computed from the number.
    let computed = [
        "mov.b32 %r6, %r5;",
        "add.u32 %r6, %r5, 3;",
        "shr.u32 %r6, %r5, 2;",
        "xor.b32 %r6, %r5, 1;",
        "mad.lo.u32 %r6, %r5, 3, %r1;",
    ];
    let _ = writeln!(body, "{}", computed[rng.usize(..computed.len())]);
    let guarded = ["%r5", "%r6"][rng.usize(..2)];
    let early = rng.bool();
    let guard = format!("setp.ge.u32 %p1, {guarded}, 37; @%p1 ret;\n");
    if early {
        body += &guard;
    }
    for value in 0..live {
        let _ = writeln!(
            body,
            "ld.volatile.{other}.u32 %v{value}, [{base}+{}];",
            4 * value
        );
    }
    if !early {
        body += &guard;
    }
    // Something that may change the memory.
    body += [
        "st.global.u32 [%d1+16], %r1;\n",
        "membar.gl;\n",
        "bar.sync 0;\n",
        "st.shared.u32 [s+16], %r1; bar.sync 0;\n",
        "st.volatile.global.u32 [%d1+16], %r1; membar.gl;\n",
    ][rng.usize(..5)];
    let is_loop = rng.bool();
    if is_loop {
        body += "mov.u32 %r8, 0; L:\n";
    }
    let step = [1, 3, 7, 11][rng.usize(..4)];
    for value in 0..live {
        let from = (value * step) % live;
        let _ = writeln!(
            body,
            "st.volatile.{other}.u32 [{base}+{}], %v{from};",
            4 * value
        );
    }
    if is_loop {
        body += "add.u32 %r8, %r8, 1; setp.lt.u32 %p4, %r8, 5; @%p4 bra L;\n";
    }
    body += &store(["%r5", "%r6"][rng.usize(..2)]);
    let kernel = Kernel {
        name: format!("k{number}"),
        directives: "",
        body,
    };
    Random { kernel, code }
}

struct Random {
    kernel: Kernel,
    /// How the machine code of the load begins.
    code: &'static [&'static str],
}

/// The kernels in which the load that matters appears more than once, with their machine code.
fn repeated<'k>(
    assembler: &Assembler,
    arch: &str,
    options: &[&str],
    kernels: &'k [Random],
) -> Vec<(&'k Kernel, String)> {
    let text = text(kernels.iter().map(|random| &random.kernel), arch);
    let cubin = assembler.assemble(&text, arch, options);
    let cubin = cubin.unwrap_or_else(|refused| panic!("{}\n{text}", refused.stderr));
    let listings = assembler.disassemble(&cubin);
    assert_eq!(listings.len(), kernels.len());
    let mut found = Vec::new();
    for Random { kernel, code } in kernels {
        let mut own = listings.iter();
        let own = own.find(|listing| listing.function == kernel.name);
        let instructions = &own.expect("its machine code").instructions;
        let is_load = |line: &&String| {
            let opcode = line.split(' ').find(|word| !word.starts_with('@'));
            let opcode = opcode.unwrap_or_default();
            let is_kind = code.iter().any(|code| opcode.starts_with(code));
            is_kind && !opcode.contains("STRONG.SYS")
        };
        if instructions.iter().filter(is_load).count() > 1 {
            found.push((kernel, instructions.join("\n")));
        }
    }
    found
}

#[test]
fn assembler_repeats_no_weak_load() {
    let Some(mut assemblers) = test_assembler::assemblers() else {
        return;
    };
    let full = env::var("CUDA_FULL").is_ok_and(|value| value == "1");
    let (count, each) = if full { (12_000, 100) } else { (120, 60) };
    if !full {
        // The oldest and the newest.
        let end = assemblers.len().saturating_sub(1).max(1);
        assemblers.drain(1..end);
    }
    let seed = env::var("CUDA_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let mut rng = Rng::with_seed(seed.unwrap_or(1));
    let all: [&[&str]; 4] = [
        &["-O3", "--maxrregcount=24"],
        &["-O3", "--maxrregcount=32"],
        &["-O1", "--maxrregcount=24"],
        &["-O2", "--maxrregcount=28"],
    ];
    let newest = &assemblers[assemblers.len() - 1];
    let control: Vec<_> = (0..40)
        .map(|number| random(&mut rng, number, REPEATED))
        .collect();
    let found = repeated(newest, "sm_90", all[0], &control);
    assert!(
        !found.is_empty(),
        "the search finds no load that is known to be repeated"
    );
    for part in 0..count / each {
        let one = |number| {
            let kind = LOADS[rng.usize(..LOADS.len())];
            random(&mut rng, number, kind)
        };
        let kernels: Vec<_> = (0..each).map(one).collect();
        let assembler = &assemblers[part % assemblers.len()];
        let known = ["sm_80", "sm_90", "sm_100"].into_iter();
        let known: Vec<&str> = known.filter(|arch| assembler.knows(arch)).collect();
        let arch = known[part / assemblers.len() % known.len()];
        let options = all[part % all.len()];
        let found = repeated(assembler, arch, options, &kernels);
        if let Some((kernel, code)) = found.first() {
            let count = found.len();
            panic!(
                "{} {arch} {options:?}: {count} of {each}\n{}\n{code}",
                assembler.version, kernel.body
            );
        }
    }
    println!("{count} kernels");
}
