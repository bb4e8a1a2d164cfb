//! The machine code of rewritten kernels: a load that a checked address depends on is not repeated,
//! and the access uses the address that was compared.

use std::collections::{BTreeMap, BTreeSet};

use cuda_ptx::analysis::{Analysis, Root};
use cuda_ptx::instrument::{Check, instrument};

use crate::tiles::forms;

/// `out[i] = in[index[i]]` and `out[i] += in[index[i] ^ 1]`, with an index that other threads may
/// change.
const GATHER: &str = ".version 7.0
.target sm_80
.address_size 64
.visible .entry gather(.param .u64 out, .param .u64 in, .param .u64 index) {
    .reg .b32 %r<6>; .reg .b64 %d<9>;
    ld.param.u64 %d1, [out];
    ld.param.u64 %d2, [in];
    ld.param.u64 %d3, [index];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d4, %r1, 4;
    add.s64 %d5, %d3, %d4;
    ld.global.u32 %r2, [%d5];
    mul.wide.u32 %d6, %r2, 4;
    add.s64 %d6, %d2, %d6;
    ld.global.u32 %r3, [%d6];
    xor.b32 %r2, %r2, 1;
    mul.wide.u32 %d7, %r2, 4;
    add.s64 %d7, %d2, %d7;
    ld.global.u32 %r4, [%d7];
    add.s32 %r3, %r3, %r4;
    add.s64 %d8, %d1, %d4;
    st.global.u32 [%d8], %r3;
    ret;
}
";

/// The instructions of a kernel, or `None` if the machine has no assembler.
fn machine_code(text: &str, arch: &str) -> Option<Vec<String>> {
    let assembler = test_assembler::newest()?;
    let cubin = assembler
        .assemble(text, arch, &["-O3"])
        .unwrap_or_else(|refused| panic!("{}\n{text}", refused.stderr));
    let functions = assembler.disassemble(&cubin).into_iter();
    Some(functions.flat_map(|it| it.instructions).collect())
}

#[test]
fn the_assembler_keeps_a_checked_load() {
    let module = cuda_ptx::parse(GATHER).unwrap();
    let function = &module.functions[0];
    let analysis = Analysis::of(&module, function);
    let root = |parameter| Root::Buffer {
        parameter,
        offset: 0,
    };
    let check = |access| Check {
        access,
        root: Some(root(1)),
        is_aligned: false,
    };
    let memories = [0, 1, 2].map(|parameter| Some(root(parameter)));
    let checks = [check(1), check(2)];
    let new = instrument(GATHER, &module, function, &analysis, &checks, &memories).unwrap();
    for arch in ["sm_80", "sm_90", "sm_100"] {
        let Some(code) = machine_code(&new.text, arch) else {
            return;
        };
        expect_checked(&code, arch);
    }
}

/// The register that holds the address of a load, and whether the instruction is one.
fn address(instruction: &str) -> Option<&str> {
    if !instruction.contains("LDG.E") {
        return None;
    }
    let (_, address) = instruction.rsplit_once('[')?;
    address.split('.').next()
}

/// The first operand of an instruction: the register that it sets.
fn target(instruction: &str) -> Option<&str> {
    let words = instruction.split([' ', ',']);
    words
        .filter(|word| !word.is_empty() && !word.starts_with('@'))
        .nth(1)
}

/// Fails unless the index is loaded once, and each checked load uses a register from which the
/// beginning of the buffer was subtracted after it had been set last. The load is under a
/// predicate, or behind a branch that follows the subtraction.
fn expect_checked(code: &[String], arch: &str) {
    let text = code.join("\n");
    let loads: Vec<usize> = (0..code.len())
        .filter(|&at| address(&code[at]).is_some())
        .collect();
    let (strong, weak): (Vec<usize>, Vec<usize>) = loads
        .into_iter()
        .partition(|&at| code[at].contains("STRONG.SYS"));
    // Two loads with a common check, and again with a check for each.
    assert_eq!((strong.len(), weak.len()), (1, 4), "{arch}\n{text}");
    for load in weak {
        let register = address(&code[load]).unwrap();
        let before = &code[..load];
        let set = before
            .iter()
            .rposition(|it| target(it) == Some(register))
            .unwrap();
        let subtracts = |instruction: &String| {
            let is_sum = ["IADD", "IMAD.IADD", "VIADD"]
                .iter()
                .any(|name| instruction.starts_with(name));
            let sources = instruction.split([' ', ',']).skip(2);
            let mut sources = sources.map(|word| word.trim_end_matches(".reuse"));
            is_sum && sources.any(|word| word == register)
        };
        let compared = before[set..].iter().position(subtracts);
        let Some(compared) = compared else {
            panic!("{arch}: {register} is not compared\n{text}");
        };
        let is_conditional = |it: &String| it.starts_with('@') && it.contains("BRA");
        let is_guarded =
            code[load].starts_with('@') || before[set + compared..].iter().any(is_conditional);
        assert!(is_guarded, "{arch}: {}\n{text}", code[load]);
    }
}

#[test]
fn a_repeated_load_is_detected() {
    let code = |lines: &[&str]| lines.iter().map(ToString::to_string).collect::<Vec<_>>();
    let good = [
        "LDG.E.STRONG.SYS R6, [R6.64]",
        "IMAD.WIDE.U32 R2, R6, R13, c[0x0][0x168]",
        "IADD3 R12, P0, R2.reuse, -c[0x0][0x178], RZ",
        "@P1 LDG.E R8, [R2.64]",
        "@P0 LDG.E R9, desc[UR6][R2.64]",
        "@!P0 BRA `(.L_x_1)",
        "LDG.E R8, [R2.64]",
        "LDG.E R9, desc[UR6][R2.64]",
    ];
    expect_checked(&code(&good), "good");
    let mut repeated = good.to_vec();
    repeated.insert(3, "LDG.E.STRONG.SYS R6, [R6.64]");
    let mut changed = good.to_vec();
    changed.insert(3, "IMAD.WIDE.U32 R2, R6, R13, c[0x0][0x168]");
    let mut unguarded = good.to_vec();
    unguarded[3] = "LDG.E R8, [R2.64]";
    let mut unconditional = good.to_vec();
    unconditional[5] = "BRA `(.L_x_1)";
    for bad in [repeated, changed, unguarded, unconditional] {
        let bad = code(&bad);
        assert!(std::panic::catch_unwind(|| expect_checked(&bad, "bad")).is_err());
    }
}

/// Loads an element of a surface and stores it to another, at coordinates from memory.
fn surface_copy(geometry: &str, place: &str) -> String {
    // Reductions have no layers.
    let last = if geometry.starts_with('a') {
        format!("sust.b.{geometry}.b64.trap [%o, {place}], %d;")
    } else {
        format!("sured.b.add.{geometry}.u64.trap [%o, {place}], %d;")
    };
    format!(
        ".version 7.0\n.target sm_75\n.address_size 64\n\
         .visible .entry copy(.param .u64 from, .param .u64 to, .param .u64 at) {{\n\
         .reg .b32 %x, %y, %z, %v, %w; .reg .b64 %s, %o, %d;\n\
         ld.param.u64 %s, [from]; ld.param.u64 %o, [to]; ld.param.u64 %d, [at];\n\
         ld.global.u32 %x, [%d]; ld.global.u32 %y, [%d+4]; mov.u32 %z, %tid.z;\n\
         suld.b.{geometry}.v2.b32.trap {{%v, %w}}, [%s, {place}];\n\
         sust.b.{geometry}.v2.b32.trap [%o, {place}], {{%v, %w}};\n\
         {last}\n\
         ret;\n}}\n"
    )
}

/// The instructions that access surfaces.
fn surface_accesses(code: &[String]) -> Vec<&str> {
    let names = ["SULD", "SUST", "SURED", "SUATOM"];
    let code = code.iter().map(String::as_str);
    code.filter(|line| names.iter().any(|name| line.contains(name)))
        .collect()
}

#[test]
fn checked_surface_accesses_are_no_faults() {
    for (geometry, place) in [
        ("1d", "{%x}"),
        ("2d", "{%x, %y}"),
        ("3d", "{%x, %y, %z, %z}"),
        ("a1d", "{%z, %x}"),
        ("a2d", "{%z, %x, %y, %y}"),
    ] {
        let text = surface_copy(geometry, place);
        let module = cuda_ptx::parse(&text).unwrap();
        let function = &module.functions[0];
        let analysis = Analysis::of(&module, function);
        // The accesses after the two loads.
        let checks = [(2, 0), (3, 1), (4, 1)].map(|(access, parameter)| Check {
            access,
            root: Some(Root::Object { parameter }),
            is_aligned: false,
        });
        let new = instrument(&text, &module, function, &analysis, &checks, &[]).unwrap();
        let Some(original) = machine_code(&text, "sm_90") else {
            return;
        };
        let original = surface_accesses(&original);
        let has_trap = |access: &&&str| access.contains(".TRAP");
        assert_eq!(original.iter().filter(has_trap).count(), 3, "{original:?}");
        for arch in ["sm_75", "sm_80", "sm_90", "sm_100"] {
            let Some(code) = machine_code(&new.text, arch) else {
                return;
            };
            let accesses = surface_accesses(&code);
            let text = accesses.join("\n");
            assert_eq!(accesses.len(), 3, "{geometry}, {arch}:\n{text}");
            for access in &accesses {
                assert!(
                    access.starts_with("@P") || access.starts_with("@!P"),
                    "{text}"
                );
                assert!(!access.contains(".TRAP"), "{text}");
            }
        }
    }
}

/// The inner loop of a matrix product, with four steps in each iteration.
const PRODUCT: &str = ".version 7.0
.target sm_80
.address_size 64
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) {
    .reg .pred %p<2>; .reg .f32 %f<14>; .reg .b32 %r<5>; .reg .b64 %d<14>;
    ld.param.u64 %d1, [a];
    ld.param.u64 %d2, [b];
    ld.param.u64 %d3, [c];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %d4, %r2, 4;
    add.s64 %d5, %d2, %d4;
    mul.wide.s32 %d6, %r1, 4;
    mov.f32 %f9, 0f00000000;
LOOP:
    ld.global.f32 %f1, [%d5];
    ld.global.f32 %f2, [%d1];
    fma.rn.f32 %f9, %f1, %f2, %f9;
    add.s64 %d7, %d5, %d6;
    ld.global.f32 %f3, [%d7];
    ld.global.f32 %f4, [%d1+4];
    fma.rn.f32 %f9, %f3, %f4, %f9;
    add.s64 %d8, %d7, %d6;
    ld.global.f32 %f5, [%d8];
    ld.global.f32 %f6, [%d1+8];
    fma.rn.f32 %f9, %f5, %f6, %f9;
    add.s64 %d9, %d8, %d6;
    ld.global.f32 %f7, [%d9];
    ld.global.f32 %f8, [%d1+12];
    fma.rn.f32 %f9, %f7, %f8, %f9;
    add.s64 %d5, %d9, %d6;
    add.s64 %d1, %d1, 16;
    add.s32 %r1, %r1, -4;
    setp.gt.s32 %p1, %r1, 0;
    @%p1 bra LOOP;
    add.s64 %d10, %d3, %d4;
    st.global.f32 [%d10], %f9;
    ret;
}
";

/// The number of loads with one predicate, or none, that follow each other without an instruction
/// that uses a loaded register. The greatest such number in the code.
fn loads_in_flight(code: &[String]) -> usize {
    let guard = |it: &str| {
        it.strip_prefix('@')
            .and_then(|it| it.split(' ').next().map(str::to_owned))
    };
    let mut most = 0;
    for (first, start) in code.iter().enumerate() {
        if address(start).is_none() {
            continue;
        }
        let (mut loaded, mut count) = (Vec::new(), 0);
        for instruction in &code[first..] {
            let words = instruction.split(|it: char| !it.is_ascii_alphanumeric());
            let is_use = words.clone().any(|word| loaded.contains(&word));
            if is_use || instruction.contains("BRA") {
                break;
            }
            if address(instruction).is_some() && guard(instruction) == guard(start) {
                loaded.extend(target(instruction));
                count += 1;
            }
        }
        most = most.max(count);
    }
    most
}

#[test]
fn checked_loads_do_not_wait_for_each_other() {
    let module = cuda_ptx::parse(PRODUCT).unwrap();
    let function = &module.functions[0];
    let analysis = Analysis::of(&module, function);
    let root = |parameter| Root::Buffer {
        parameter,
        offset: 0,
    };
    // The loads of b and a take turns, and the store is the last access.
    let checks = (0..9).map(|access| Check {
        access,
        root: Some(root(if access == 8 {
            2
        } else {
            (access as u32 + 1) % 2
        })),
        is_aligned: true,
    });
    let checks: Vec<Check> = checks.collect();
    let memories = [0, 1, 2].map(|parameter| Some(root(parameter)));
    let new = instrument(PRODUCT, &module, function, &analysis, &checks, &memories).unwrap();
    for arch in ["sm_80", "sm_90"] {
        let Some(code) = machine_code(&new.text, arch) else {
            return;
        };
        assert_eq!(loads_in_flight(&code), 8, "{arch}\n{}", code.join("\n"));
    }
}

#[test]
fn dependent_loads_are_not_in_flight() {
    let code = |lines: &[&str]| lines.iter().map(ToString::to_string).collect::<Vec<_>>();
    let good = [
        "@P1 LDG.E R8, [R2.64]",
        "IADD3 R12, P0, R2, 0x8, RZ",
        "@P1 LDG.E R9, desc[UR6][R2.64+0x4]",
    ];
    assert_eq!(loads_in_flight(&code(&good)), 2);
    for between in ["FADD R10, R8, R8", "@!P1 MOV R8, RZ", "BRA `(.L_x_1)"] {
        let mut bad = good.to_vec();
        bad[1] = between;
        assert_eq!(loads_in_flight(&code(&bad)), 1, "{between}");
    }
    let mut bad = good.to_vec();
    bad[2] = "@P0 LDG.E R9, desc[UR6][R2.64+0x4]";
    assert_eq!(loads_in_flight(&code(&bad)), 1);
}

/// The alignment in bytes that an instruction of the machine code needs, if it accesses memory.
fn needed_alignment(instruction: &str) -> Option<u64> {
    let mut words = instruction.split_whitespace();
    let opcode = words.find(|word| !word.starts_with('@'))?;
    let (name, rest) = opcode.split_once('.').unwrap_or((opcode, ""));
    let has = |part| rest.split('.').any(|other| other == part);
    match name {
        // Rows of matrices.
        "LDSM" | "STSM" => Some(16),
        "LD" | "LDG" | "LDS" | "ST" | "STG" | "STS" => Some(match () {
            () if has("128") => 16,
            () if has("64") => 8,
            () if has("U8") || has("S8") => 1,
            () if has("U16") || has("S16") => 2,
            () => 4,
        }),
        _ => None,
    }
}

#[test]
fn matrices_need_no_larger_alignment_than_is_proven() {
    // One text for each alignment: each form in each space, with and without a stride.
    let mut texts: BTreeMap<u64, String> = BTreeMap::new();
    for (number, form) in forms::forms().into_iter().enumerate() {
        for &layout in forms::layouts(form) {
            let align = forms::align(form, layout);
            let text = texts
                .entry(align)
                .or_insert_with(|| ".version 7.0\n.target sm_80\n.address_size 64\n".to_owned());
            let (file, ty) = match form.1 {
                "f64" => ("f", "f64"),
                _ => ("v", "b32"),
            };
            let all = |write: &dyn Fn(u32) -> String| (0..form.3).map(write).collect::<String>();
            // Values from the argument, and uses of the result, so that no instruction is dropped.
            let set = all(&|i| format!("ld.volatile.global.{ty} %{file}{i}, [%y];\n"));
            let used = all(&|i| format!("st.volatile.global.{ty} [%y], %{file}{i};\n"));
            for space in [".global", ".shared", ""] {
                for (index, stride) in [", %s", ""].into_iter().enumerate() {
                    let address = if space == ".shared" { "[%q]" } else { "[%x]" };
                    let code = forms::instruction(form, layout, space, address, stride);
                    let name = format!("k{number}{layout}{}{index}", space.trim_matches('.'));
                    *text += &format!(
                        ".visible .entry {name}(.param .u64 x, .param .u64 y, .param .u32 q,\n\
                         .param .u32 s) {{\n\
                         .reg .b32 %v<8>, %q, %s; .reg .f64 %f<8>; .reg .b64 %x, %y;\n\
                         ld.param.u64 %x, [x]; ld.param.u64 %y, [y];\n\
                         ld.param.u32 %q, [q]; ld.param.u32 %s, [s];\n\
                         {set}{code}\n{used}ret; }}\n"
                    );
                }
            }
        }
    }
    assert!(texts.len() > 2, "{:?}", texts.keys());
    for arch in ["sm_80", "sm_90", "sm_100"] {
        for (align, text) in &texts {
            let Some(code) = machine_code(text, arch) else {
                return;
            };
            // The volatile accesses are strong.
            let of_matrices = code.iter().filter(|line| !line.contains(".STRONG"));
            let needed: BTreeSet<u64> = of_matrices
                .filter_map(|line| needed_alignment(line))
                .collect();
            let largest = needed.last().copied().unwrap_or(0);
            assert!(
                (1..=*align).contains(&largest),
                "{arch}: {align}: {needed:?}"
            );
        }
    }
}
