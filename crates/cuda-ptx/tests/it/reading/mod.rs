//! How PTX is read: this crate and NVIDIA's assembler accept and refuse the same texts, and read
//! the same values.
//!
//! The random texts follow the grammar of the PTX manual, not the parser. `CUDA_FULL=1` compares
//! their full number, and the variables of `fuzz` apply: for example, `CUDA_SEED=n` compares one.

mod cases;
mod differences;
mod grammar;

use std::sync::OnceLock;

use cuda_ptx::{Error, Init, Literal};
use fastrand::Rng;
use test_assembler::Assembler;

use crate::fuzz::count::{self, programs};

/// The number of random texts, and that with `CUDA_FULL=1`.
const TEXTS: u64 = 400;
const FULL_TEXTS: u64 = 1_000_000;

/// The architecture for which texts are assembled: all versions know it.
const ARCH: &str = "sm_75";

fn read(text: &str) -> Result<(), Error> {
    cuda_ptx::check(&cuda_ptx::parse(text)?)
}

/// Fails unless the assembler and this crate accept the text, or both refuse it.
fn expect(assembler: &Assembler, text: &str, is_valid: bool) {
    let judged = assembler.assemble(text, ARCH, &[]);
    assert_eq!(
        judged.is_ok(),
        is_valid,
        "{}: {judged:?}\n{text}",
        assembler.version
    );
    let read = read(text);
    assert_eq!(read.is_ok(), is_valid, "{read:?}\n{text}");
}

#[test]
fn assembler_agrees_on_listed_texts() {
    // Version 12.0 accepts a few more, such as a letter beyond ASCII in `.file`.
    let Some(assembler) = test_assembler::newest() else {
        return;
    };
    for case in cases::VALID {
        expect(&assembler, &cases::text(case), true);
    }
    for case in cases::INVALID {
        expect(&assembler, &cases::text(case), false);
    }
}

#[test]
fn listed_texts_are_read_without_an_assembler() {
    for case in cases::VALID {
        let text = cases::text(case);
        assert_eq!(read(&text), Ok(()), "{text}");
    }
    for case in cases::INVALID {
        let text = cases::text(case);
        assert!(read(&text).is_err(), "{text}");
    }
}

/// The bytes of the elements of a variable with 64-bit elements, as the parser reads them.
fn bytes_of(text: &str) -> Vec<u8> {
    let module = cuda_ptx::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let values = module.variables[0].init.iter().map(|init| match init {
        Init::Literal(Literal::Int(value) | Literal::F64(value)) => *value,
        other => panic!("{other:?}"),
    });
    values.flat_map(u64::to_le_bytes).collect()
}

#[test]
fn assembler_agrees_on_the_values_of_expressions() {
    let Some(assemblers) = test_assembler::assemblers() else {
        return;
    };
    for (ty, expressions) in [("s64", cases::INTEGERS), ("f64", cases::FLOATS)] {
        let length = expressions.len();
        let list = expressions.join(",\n");
        let module = format!(".visible .global .align 8 .{ty} v[{length}] = {{{list}}};\n");
        let text = cases::text(&cases::Case::Module(&module));
        let ours = bytes_of(&text);
        for assembler in &assemblers {
            let cubin = assembler.assemble(&text, ARCH, &[]);
            let cubin = cubin.unwrap_or_else(|refused| panic!("{}", refused.stderr));
            let [(_, theirs)] = &cubin.sections(".nv.global.init")[..] else {
                panic!("the values are in one section");
            };
            for (number, expression) in expressions.iter().enumerate() {
                let at = number * 8..number * 8 + 8;
                assert_eq!(ours[at.clone()], theirs[at], "{ty}: {expression}");
            }
        }
    }
}

#[test]
fn assembler_refuses_what_is_no_expression() {
    let Some(assembler) = test_assembler::newest() else {
        return;
    };
    for expression in cases::NO_EXPRESSIONS {
        let body = format!("mov.u64 %d1, {expression};");
        expect(&assembler, &cases::text(&cases::Case::Body(&body)), false);
        let module = format!(".global .u64 v = {expression};");
        expect(
            &assembler,
            &cases::text(&cases::Case::Module(&module)),
            false,
        );
    }
}

#[test]
fn assembler_counts_elements_of_variables() {
    let Some(assemblers) = test_assembler::assemblers() else {
        return;
    };
    for assembler in &assemblers {
        for (declaration, index, access) in [
            (".global .u32 g[8]", 3, "ld.global.u32 %r1, g[3]"),
            (".global .u16 g[8]", 8000, "mov.u64 %d2, g[8000]"),
            (".global .f64 g[4]", -1, "mov.u64 %d2, g[-1]"),
            (".global .align 16 .v4 .f32 g[4]", 3, "mov.u64 %d2, g[3]"),
            (".global .u32 g[4][4]", 3, "ld.global.u32 %r1, g[3]"),
            (".global .u8 g[2][3][5]", 1, "mov.u64 %d2, g[1]"),
            (
                ".global .u32 g[8]",
                0x4000_0001,
                "mov.u64 %d2, g[0x40000001]",
            ),
            (
                ".global .u32 g[8]",
                0x2000_0000,
                "mov.u64 %d2, g[0x20000000]",
            ),
        ] {
            let module = format!("{declaration};");
            let body = |access: &str| {
                let body = format!(
                    "ld.param.u64 %d1, [p]; {access}; st.global.u32 [%d1], %r1; \
                     st.global.u64 [%d1], %d2;"
                );
                cases::text(&cases::Case::Both(&module, &body))
            };
            let text = body(access);
            let module = cuda_ptx::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            let offset = module.variables[0].element_offset(index).unwrap();
            // The same access with an offset in bytes.
            let (before, _) = access.split_once("g[").unwrap();
            let place = if before.contains("ld") {
                format!("[g+{offset}]")
            } else {
                format!("g+{offset}")
            };
            let code = |text: &str| {
                let cubin = assembler.assemble(text, ARCH, &[]);
                cubin
                    .unwrap_or_else(|refused| panic!("{}\n{text}", refused.stderr))
                    .code()
            };
            let bytes = body(&format!("{before}{place}"));
            assert_eq!(code(&text), code(&bytes), "{}: {access}", assembler.version);
            let other = body(&format!(
                "{before}{}",
                place.replace(&offset.to_string(), "20")
            ));
            assert_ne!(code(&text), code(&other), "{}: {access}", assembler.version);
        }
    }
}

count::counts! {
    /// Statistics of all random texts.
    struct Counts {
        programs,
        accepted,
        refused,
        /// Texts that only the assembler refuses, for a listed reason.
        refused_by_the_assembler,
        /// Texts that only this crate refuses, for a listed reason.
        refused_here,
        /// Texts on which the assembler crashes.
        crashes,
        /// Texts that only one of the two accepts, for no listed reason.
        differences,
    }
}

/// The newest assembler, for all threads.
fn judge() -> &'static Assembler {
    static JUDGE: OnceLock<Assembler> = OnceLock::new();
    JUDGE.get_or_init(|| test_assembler::newest().unwrap())
}

#[test]
fn assembler_agrees_on_random_texts() {
    if test_assembler::newest().is_none() {
        return;
    }
    let (texts, first) = programs(TEXTS, FULL_TEXTS);
    let counts: Counts = count::run(first, texts, compare);
    println!("{}", count::text(counts));
    assert_eq!(counts.differences, 0, "their texts are above");
    if texts > 100 {
        // About a half of the texts is invalid.
        assert!(counts.accepted * 5 > counts.programs, "{counts:?}");
        assert!(counts.refused * 5 > counts.programs, "{counts:?}");
        let listed = counts.refused_by_the_assembler + counts.refused_here;
        assert!(listed * 5 < counts.programs, "{counts:?}");
    }
}

fn compare(seed: u64, counts: &mut Counts) {
    let text = grammar::text(&mut Rng::with_seed(seed));
    let read = read(&text);
    match (judge().assemble(&text, ARCH, &[]), read) {
        (Ok(_), Ok(())) => counts.accepted += 1,
        (Err(refused), Err(_)) if refused.is_orderly() => counts.refused += 1,
        (Err(refused), _) if !refused.is_orderly() => counts.crashes += 1,
        (Ok(_), Err(error)) => match differences::is_refused_here(&error.message) {
            true => counts.refused_here += 1,
            false => {
                println!("only ptxas accepts CUDA_SEED={seed}: {error}\n{text}");
                counts.differences += 1;
            }
        },
        (Err(refused), _) => {
            let messages = refused.stderr.as_str();
            match differences::is_beyond_the_grammar(messages) {
                true => counts.refused_by_the_assembler += 1,
                false => {
                    println!("only cuda-ptx accepts CUDA_SEED={seed}: {messages}\n{text}");
                    counts.differences += 1;
                }
            }
        }
    }
}
