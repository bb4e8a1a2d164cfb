//! Instructions in addition to the examples of the list: other numbers as operands, and the special
//! registers.

use cuda_ptx::forms::{self, Example, ExampleOperand, OperandRole};

/// Numbers for positions, lengths and amounts: at, below and above each width.
const NUMBERS: [u32; 12] = [0, 1, 7, 8, 15, 16, 31, 32, 33, 63, 64, 200];
/// Bits of numbers of the type `f32`: limits of the comparisons that the analysis models.
const FLOATS: [&str; 8] = [
    "0f00000000",
    "0f00800000",
    "0f7F800000",
    "0fBF800000",
    "0f4F000000",
    "0f7FC00000",
    "0f00000001",
    "0f47CE4780",
];
const DOUBLES: [&str; 5] = [
    "0d0010000000000000",
    "0d3FF0000000000000",
    "0d7FF0000000000000",
    "0d41E0000000000000",
    "0dBFF0000000000000",
];

/// Replaces the operands of an example that are `from` by one number each in turn.
fn replaced(example: &Example, from: &[&str], numbers: &[String]) -> Vec<Example> {
    let mut all = Vec::new();
    let places: Vec<usize> = (0..example.operands.len())
        .filter(|at| from.contains(&example.operands[*at].text.as_str()))
        .collect();
    if places.is_empty() {
        return all;
    }
    for (turn, number) in numbers.iter().enumerate() {
        let mut operands = example.operands.clone();
        for (shift, at) in places.iter().enumerate() {
            // The second number runs through the list at another pace.
            let other = &numbers[(turn * (2 * shift + 1) + shift) % numbers.len()];
            operands[*at]
                .text
                .clone_from(if shift == 0 { number } else { other });
        }
        all.push(with_operands(example, operands));
    }
    all
}

fn with_operands(example: &Example, operands: Vec<ExampleOperand>) -> Example {
    let head = example.text.split(' ').next().unwrap_or("");
    let texts: Vec<&str> = operands.iter().map(|it| it.text.as_str()).collect();
    Example {
        text: format!("{head} {};", texts.join(", ")),
        operands,
        version: example.version,
        target: example.target,
    }
}

/// The letter of the registers of the type that an instruction ends with.
fn letter(example: &Example) -> Option<char> {
    let head = example.text.split(' ').next()?;
    // The last type of a selection by a number is that of the number.
    let behind = usize::from(head.starts_with("slct"));
    Some(match head.rsplit('.').nth(behind)? {
        "b8" | "u8" | "s8" => 'b',
        "b16" | "u16" | "s16" | "f16" | "bf16" => 'h',
        "b32" | "u32" | "s32" | "f16x2" | "bf16x2" => 'r',
        "b64" | "u64" | "s64" => 'd',
        "f32" => 'f',
        "f64" => 'g',
        _ => return None,
    })
}

/// Replaces the numbers among the sources of an example by registers. The first example of the row
/// has registers only, and shows which operands have the type of the instruction.
fn with_registers(example: &Example, first: &Example) -> Option<Example> {
    let (own, of_first) = (letter(example)?, letter(first)?);
    let is_field = example.text.starts_with("bfe.") || example.text.starts_with("bfi.");
    let mut operands = example.operands.clone();
    for (at, operand) in operands.iter_mut().enumerate() {
        let is_number = operand
            .text
            .starts_with(|letter: char| letter.is_ascii_digit());
        if operand.role != OperandRole::Source || !is_number {
            continue;
        }
        let registers = &first.operands.get(at)?.text;
        let kind = registers.trim_start_matches(['!', '%']).chars().next()?;
        let count = example.operands.len();
        let is_amount = is_field && at + 2 >= count;
        let kind = if kind == of_first && !is_amount {
            own
        } else {
            kind
        };
        operand.text = format!("%{kind}{}", 50 + at);
    }
    let more = with_operands(example, operands);
    (more.text != example.text).then_some(more)
}

/// More instructions of a row.
pub(crate) fn of_row(row: &str, examples: &[Example]) -> Vec<Example> {
    let opcode = row.split([' ', '.', '?']).next().unwrap_or("");
    let small = || NUMBERS.iter().map(u32::to_string).collect::<Vec<_>>();
    let list = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let (from, numbers): (&[&str], Vec<String>) = match opcode {
        "bfi" | "bfe" => (&["255", "3"], small()),
        "shl" | "shr" | "shf" => (&["3"], small()),
        "div" | "rem" if row.contains("@int") => (&["3"], list(&["1", "2", "7", "8", "255", "-1"])),
        "and" | "or" | "xor" if row.contains("@bits") => {
            (&["3"], list(&["0", "1", "-1", "255", "96", "-8", "0x5a5a"]))
        }
        "setp" if row.ends_with("f32, f32") => (&["0f3F800000"], list(&FLOATS)),
        "setp" if row.ends_with("f64, f64") => (&["0f3F800000"], list(&DOUBLES)),
        "setp" if row.contains("pred_, T, T") && !row.ends_with("pred") => {
            (&["3"], list(&["0", "-1", "1", "0x7fff"]))
        }
        "lop3" => (
            &["0", "255"],
            list(&["0xc0", "0x1e", "0xe8", "0x80", "0xfe", "0x33"]),
        ),
        _ => (&[], Vec::new()),
    };
    let mut all: Vec<Example> = Vec::new();
    for example in examples {
        let more = with_registers(example, &examples[0]);
        if let Some(more) = more.filter(|it| !examples.contains(it) && !all.contains(it)) {
            all.push(more);
        }
    }
    for example in examples {
        for more in replaced(example, from, &numbers) {
            if !examples.contains(&more) && !all.contains(&more) {
                all.push(more);
            }
        }
    }
    all
}

/// A read of each special register.
pub(crate) fn special_registers() -> Vec<Example> {
    let mut all = Vec::new();
    let mut add = |name: &str| {
        let (ty, register) = match name {
            "%is_explicit_cluster" => ("pred", "%p0"),
            "%clock64" | "%globaltimer" | "%current_graph_exec" | "%gridid" => ("u64", "%d0"),
            _ => ("u32", "%r0"),
        };
        let operand = |text: &str, role| ExampleOperand {
            text: text.to_owned(),
            role,
        };
        all.push(Example {
            text: format!("mov.{ty} {register}, {name};"),
            operands: vec![
                operand(register, OperandRole::Result),
                operand(name, OperandRole::Source),
            ],
            version: "8.1",
            target: "sm_90",
        });
    };
    for name in forms::special_registers() {
        let has_axes = matches!(
            name,
            "%tid"
                | "%ntid"
                | "%ctaid"
                | "%nctaid"
                | "%clusterid"
                | "%nclusterid"
                | "%cluster_ctaid"
                | "%cluster_nctaid"
        );
        if has_axes {
            for axis in ["x", "y", "z"] {
                add(&format!("{name}.{axis}"));
            }
        } else {
            add(name);
        }
    }
    for name in ["%envreg0", "%pm0", "WARP_SZ"] {
        add(name);
    }
    all
}
