//! The forms of `wmma.load` and `wmma.store`.

/// A form of the instruction: the matrix, its type, the shape, and the number of registers of a
/// thread.
pub(crate) type Form = (char, &'static str, [u32; 3], u32);

/// The multiplicands, with the registers of the tables in the PTX manual.
const MULTIPLICANDS: [Form; 34] = [
    ('a', "f16", [16, 16, 16], 8),
    ('b', "f16", [16, 16, 16], 8),
    ('a', "f16", [8, 32, 16], 8),
    ('b', "f16", [8, 32, 16], 8),
    ('a', "f16", [32, 8, 16], 8),
    ('b', "f16", [32, 8, 16], 8),
    ('a', "bf16", [16, 16, 16], 4),
    ('b', "bf16", [16, 16, 16], 4),
    ('a', "bf16", [8, 32, 16], 2),
    ('b', "bf16", [8, 32, 16], 8),
    ('a', "bf16", [32, 8, 16], 8),
    ('b', "bf16", [32, 8, 16], 2),
    ('a', "s8", [16, 16, 16], 2),
    ('b', "s8", [16, 16, 16], 2),
    ('a', "s8", [8, 32, 16], 1),
    ('b', "s8", [8, 32, 16], 4),
    ('a', "s8", [32, 8, 16], 4),
    ('b', "s8", [32, 8, 16], 1),
    ('a', "u8", [16, 16, 16], 2),
    ('b', "u8", [16, 16, 16], 2),
    ('a', "u8", [8, 32, 16], 1),
    ('b', "u8", [8, 32, 16], 4),
    ('a', "u8", [32, 8, 16], 4),
    ('b', "u8", [32, 8, 16], 1),
    ('a', "tf32", [16, 16, 8], 4),
    ('b', "tf32", [16, 16, 8], 4),
    ('a', "f64", [8, 8, 4], 1),
    ('b', "f64", [8, 8, 4], 1),
    ('a', "s4", [8, 8, 32], 1),
    ('b', "s4", [8, 8, 32], 1),
    ('a', "u4", [8, 8, 32], 1),
    ('b', "u4", [8, 8, 32], 1),
    ('a', "b1", [8, 8, 128], 1),
    ('b', "b1", [8, 8, 128], 1),
];

/// The sums, for `c` and `d`.
const SUMS: [(&str, [u32; 3], u32); 13] = [
    ("f16", [16, 16, 16], 4),
    ("f16", [8, 32, 16], 4),
    ("f16", [32, 8, 16], 4),
    ("f32", [16, 16, 16], 8),
    ("f32", [8, 32, 16], 8),
    ("f32", [32, 8, 16], 8),
    ("f32", [16, 16, 8], 8),
    ("s32", [16, 16, 16], 8),
    ("s32", [8, 32, 16], 8),
    ("s32", [32, 8, 16], 8),
    ("s32", [8, 8, 32], 2),
    ("s32", [8, 8, 128], 2),
    ("f64", [8, 8, 4], 2),
];

/// All forms.
pub(crate) fn forms() -> Vec<Form> {
    let sums = ['c', 'd'].into_iter().flat_map(|side| {
        let of_side = move |(ty, shape, registers)| (side, ty, shape, registers);
        SUMS.into_iter().map(of_side)
    });
    MULTIPLICANDS.into_iter().chain(sums).collect()
}

/// The bits of an element.
pub(crate) fn bits(ty: &str) -> u64 {
    let digits = ty.trim_start_matches(|c: char| !c.is_ascii_digit());
    match ty {
        "tf32" => 32,
        _ => digits.parse().expect("a type with its bits"),
    }
}

/// The layouts that a form can have.
pub(crate) fn layouts((side, ty, ..): Form) -> &'static [&'static str] {
    match (side, bits(ty) < 8) {
        ('a', true) => &["row"],
        ('b', true) => &["col"],
        _ => &["row", "col"],
    }
}

/// The rows and the columns of a matrix.
pub(crate) fn size((side, _, [m, n, k], _): Form) -> [u64; 2] {
    let [rows, columns] = match side {
        'a' => [m, k],
        'b' => [k, n],
        _ => [m, n],
    };
    [rows.into(), columns.into()]
}

/// The elements of a line.
pub(crate) fn elements(form: Form, layout: &str) -> u64 {
    let [rows, columns] = size(form);
    if layout == "row" { columns } else { rows }
}

/// The alignment in bytes: the registers of a thread, and 16 for lines of at least 16 bytes.
pub(crate) fn align(form: Form, layout: &str) -> u64 {
    let (_, ty, _, registers) = form;
    let fragment = u64::from(registers) * if ty == "f64" { 8 } else { 4 };
    let line = elements(form, layout) * bits(ty) / 8;
    fragment.max(if line < 16 { line } else { 16 })
}

/// The instruction with its operands.
pub(crate) fn instruction(
    form: Form,
    layout: &str,
    space: &str,
    address: &str,
    stride: &str,
) -> String {
    let (side, ty, [m, n, k], registers) = form;
    let file = if ty == "f64" { "f" } else { "v" };
    let names: Vec<String> = (0..registers).map(|i| format!("%{file}{i}")).collect();
    let names = format!("{{{}}}", names.join(", "));
    let (what, first, second) = match side {
        'd' => ("store", address.to_owned(), names),
        _ => ("load", names, address.to_owned()),
    };
    format!(
        "wmma.{what}.{side}.sync.aligned.{layout}.m{m}n{n}k{k}{space}.{ty} {first}, \
         {second}{stride};"
    )
}
