//! `ldmatrix`, `stmatrix` and `movmatrix`, compared with host arrays.

use super::device::{Device, Numbers};

/// 32 rows of 8 halves, all of which differ.
fn halves() -> Vec<u16> {
    (0..256).map(|i| (i * 257 + 3) as u16).collect()
}

fn words(halves: &[u16]) -> Vec<u32> {
    let pairs = halves.chunks(2);
    pairs
        .map(|pair| u32::from(pair[1]) << 16 | u32::from(pair[0]))
        .collect()
}

/// A kernel that writes 32 rows to shared memory, where the row of lane `i` is at `order(i)`, runs
/// `text`, and writes `%r` to memory.
fn kernel(text: &str) -> String {
    format!(
        ".visible .entry op(.param .u64 in, .param .u64 out) {{
            .reg .b32 %r<4>; .reg .b32 %t, %s, %row; .reg .b64 %in, %out, %at;
            .shared .align 16 .b8 space[512];
            ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x;
            mul.wide.u32 %at, %t, 16; add.u64 %in, %in, %at; add.u64 %out, %out, %at;
            mov.u32 %s, space; mad.lo.u32 %row, %t, 16, %s;
            ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%in];
            {text}
            st.global.v4.b32 [%out], {{%r0, %r1, %r2, %r3}};
            ret; }}"
    )
}

fn run(text: &str, input: &[u32]) -> Vec<u32> {
    let device = Device::new(&kernel(text));
    let (from, to) = (device.upload32(input), device.upload32(&[0; 128]));
    device.run(1, 32, &[from, to]).unwrap();
    device.download32(to, 128)
}

const FILL: &str = "st.shared.v4.b32 [%row], {%r0, %r1, %r2, %r3}; bar.warp.sync 0xffffffff;
    mov.b32 %r0, 0; mov.b32 %r1, 0; mov.b32 %r2, 0; mov.b32 %r3, 0;";

#[test]
fn ldmatrix_loads_a_pair_of_each_matrix_per_lane() {
    let halves = halves();
    for (count, list) in [(1, "{%r0}"), (2, "{%r0, %r1}"), (4, "{%r0, %r1, %r2, %r3}")] {
        for trans in ["", ".trans"] {
            let text = format!(
                "{FILL} xor.b32 %row, %row, 16;
                 ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {list}, [%row];"
            );
            let output = run(&text, &words(&halves));
            for lane in 0..32 {
                for matrix in 0..4 {
                    let element = |e: usize| {
                        let (row, column) = match trans {
                            "" => (lane / 4, lane % 4 * 2 + e),
                            _ => (lane % 4 * 2 + e, lane / 4),
                        };
                        // Each address was that of the neighbouring row.
                        u32::from(halves[((8 * matrix + row) ^ 1) * 8 + column])
                    };
                    let expected = match matrix < count {
                        true => element(1) << 16 | element(0),
                        false => 0,
                    };
                    assert_eq!(output[lane * 4 + matrix], expected, "x{count}{trans}");
                }
            }
        }
    }
}

#[test]
fn stmatrix_undoes_ldmatrix_and_transposes_on_demand() {
    let halves = halves();
    for trans in ["", ".trans"] {
        let text = format!(
            "stmatrix.sync.aligned.m8n8.x4{trans}.shared::cta.b16 [%row], {{%r0, %r1, %r2, %r3}};
             bar.warp.sync 0xffffffff; ld.shared.v4.b32 {{%r0, %r1, %r2, %r3}}, [%row];"
        );
        let output = run(&text, &words(&halves));
        let mut expected = vec![0u16; 256];
        for lane in 0..32 {
            for matrix in 0..4 {
                for e in 0..2 {
                    let (row, column) = match trans {
                        "" => (lane / 4, lane % 4 * 2 + e),
                        _ => (lane % 4 * 2 + e, lane / 4),
                    };
                    expected[(8 * matrix + row) * 8 + column] = halves[lane * 8 + matrix * 2 + e];
                }
            }
        }
        assert_eq!(output, words(&expected), "{trans}");
    }
}

#[test]
fn movmatrix_transposes() {
    let mut numbers = Numbers(3);
    let input: Vec<u32> = (0..128).map(|_| numbers.next() as u32).collect();
    let text = "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;";
    let output = run(text, &input);
    let half = |words: &[u32], register: usize, row: usize, column: usize| {
        words[(row * 4 + column / 2) * 4 + register] >> (column % 2 * 16) & 0xffff
    };
    for row in 0..8 {
        for column in 0..8 {
            assert_eq!(half(&output, 1, row, column), half(&input, 0, column, row));
        }
    }
}

#[test]
fn diverged_lanes_wait_for_each_other() {
    let mut numbers = Numbers(4);
    let input: Vec<u32> = (0..128).map(|_| numbers.next() as u32).collect();
    let text = "{ .reg .pred %p; .reg .b32 %i; mov.u32 %i, %t;
        $again: setp.eq.u32 %p, %i, 0; @%p bra $done; sub.u32 %i, %i, 1; bra $again; $done:
        movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0; }";
    let straight = run("movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;", &input);
    assert_eq!(run(text, &input), straight);
}

#[test]
fn rows_that_do_not_start_at_a_multiple_of_16_are_a_fault() {
    let text = "add.u32 %row, %row, 8;
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%row];";
    let device = Device::new(&kernel(text));
    let (from, to) = (device.upload32(&[0; 128]), device.upload32(&[0; 128]));
    let fault = device.run(1, 32, &[from, to]).unwrap_err();
    assert_eq!(fault.kind.code(), 716);
}

#[test]
fn a_missing_lane_is_a_fault() {
    let text = "{ .reg .pred %p; setp.eq.u32 %p, %t, 5;
        @%p bar.sync 1, 64;
        movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0; }";
    let device = Device::new(&kernel(text));
    let (from, to) = (device.upload32(&[0; 128]), device.upload32(&[0; 128]));
    let fault = device.run(1, 32, &[from, to]).unwrap_err();
    assert_eq!(fault.kind.code(), 702);
}
