//! Names, elements and literals that the assembler reads in a way of its own. The tests of cuda-ptx
//! compare this with the assembler.

use super::device::Device;

/// The results of statements that set `%r1`, a word per statement.
fn results(module: &str, statements: &[&str]) -> Vec<u32> {
    let body: Vec<String> = statements
        .iter()
        .enumerate()
        .map(|(number, statement)| {
            format!(
                "{{ .reg .b32 %r1; {statement} st.global.u32 [%out+{}], %r1; }}\n",
                number * 4
            )
        })
        .collect();
    let text = format!(
        "{module}\n.visible .entry k(.param .u64 out, .param .u32 list[4]) {{\n\
         .reg .b64 %out, %d; ld.param.u64 %out, [out];\n{}ret;\n}}\n",
        body.concat()
    );
    let device = Device::new(&text);
    let out = device.upload32(&vec![99; statements.len()]);
    let list = [5 | 6 << 32, 7 | 8 << 32];
    device.run(1, 32, &[out, list[0], list[1]]).unwrap();
    device.download32(out, statements.len())
}

#[test]
fn an_index_counts_elements() {
    let module = ".global .u32 g[8] = {10, 11, 12, 13, 14, 15, 16, 17};\n\
                  .global .u16 s[4] = {20, 21, 22, 23};\n\
                  .global .u32 m[2][2] = {{30, 31}, {32, 33}};";
    let found = results(
        module,
        &[
            "ld.global.u32 %r1, g[3];",
            "mov.u64 %d, g[3]; ld.global.u32 %r1, [%d];",
            "ld.global.u16 %r1, s[3];",
            "ld.global.u32 %r1, m[2];",
            "st.global.u32 g[4], 44; ld.global.u32 %r1, [g+16];",
            "ld.param.u32 %r1, list[2];",
            "mov.u64 %d, g[0x40000005]; ld.global.u32 %r1, [%d];",
        ],
    );
    assert_eq!(found, [13, 13, 23, 32, 44, 7, 15]);
}

#[test]
fn names_are_those_of_the_assembler() {
    let found = results(
        "",
        &[
            ".reg .b32 %z<4>; mov.b32 %z2, 1; mov.b32 %z02, 3; mov.b32 %r1, %z2;",
            ".reg .b32 %z<4>; mov.b32 %z2, 1; mov.b32 %z4294967298, 4; mov.b32 %r1, %z2;",
            ".reg .b32 %z<20>; .reg .b64 %z1<20>; mov.b32 %z15, 5; mov.b32 %r1, %z15;",
            ".reg .b32 %warpid; mov.b32 %warpid, 6; mov.b32 %r1, %warpid;",
            ".reg .b32 %warpid; mov.b32 %warpid, 6; add.u32 %r1, %warpid, 1;",
            ".reg .v4 .b32 %tid; mov.b32 %tid.x, 8; mov.b32 %r1, %tid.x;",
            "mov.u32 %r1, WARP_SZ-1;",
        ],
    );
    assert_eq!(found, [3, 4, 5, 6, 7, 8, 31]);
}

#[test]
fn a_float_in_hexadecimal_is_the_low_half_of_a_double() {
    let found = results(
        ".global .f64 v = 0f3F800000;",
        &[
            "mov.f64 %d, 0f3F800000; mov.b64 {%r1, _}, %d;",
            "mov.f64 %d, 0f3F800000; mov.b64 {_, %r1}, %d;",
            "ld.global.u32 %r1, [v];",
            "ld.global.u32 %r1, [v+4];",
        ],
    );
    assert_eq!(found, [0x3f80_0000, 0, 0x3f80_0000, 0]);
}
