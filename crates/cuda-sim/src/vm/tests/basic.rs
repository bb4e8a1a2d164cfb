//! Whole kernels.

use super::device::{Device, Numbers};
use crate::vm::FaultKind;

const ADD: &str = r#"
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %p<2>; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %rd<11>;
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c]; ld.param.u32 %r2, [n];
    mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;
    mad.lo.s32 %r1, %r3, %r4, %r5;
    setp.ge.s32 %p1, %r1, %r2;
    @%p1 bra $L__BB0_2;
    cvta.to.global.u64 %rd4, %rd1;
    mul.wide.s32 %rd5, %r1, 4;
    add.s64 %rd6, %rd4, %rd5;
    cvta.to.global.u64 %rd7, %rd2;
    add.s64 %rd8, %rd7, %rd5;
    ld.global.f32 %f1, [%rd8];
    ld.global.f32 %f2, [%rd6];
    add.f32 %f3, %f2, %f1;
    cvta.to.global.u64 %rd9, %rd3;
    add.s64 %rd10, %rd9, %rd5;
    st.global.f32 [%rd10], %f3;
$L__BB0_2:
    ret;
}
"#;

#[test]
fn adding_vectors() {
    let device = Device::new(ADD);
    let n = 100_003;
    let mut numbers = Numbers(1);
    let a: Vec<u32> = (0..n)
        .map(|_| (numbers.next() as i32 as f32).to_bits())
        .collect();
    let b: Vec<u32> = (0..n)
        .map(|_| (numbers.next() as i32 as f32).to_bits())
        .collect();
    let (da, db, dc) = (
        device.upload32(&a),
        device.upload32(&b),
        device.upload32(&vec![7; n]),
    );
    device
        .run(n.div_ceil(256) as u32, 256, &[da, db, dc, n as u64])
        .unwrap();
    let c = device.download32(dc, n);
    for i in 0..n {
        assert_eq!(
            f32::from_bits(c[i]),
            f32::from_bits(a[i]) + f32::from_bits(b[i])
        );
    }
}

#[test]
fn an_access_past_the_end_has_a_location() {
    let device = Device::new(ADD);
    let (a, b, c) = (
        device.upload(&[0; 4096]),
        device.upload(&[0; 4096]),
        device.upload(&[0; 400]),
    );
    let fault = device.run(8, 128, &[a, b, c, 1024]).unwrap_err();
    assert_eq!(fault.kind, FaultKind::IllegalAddress);
    assert_eq!((fault.kernel.as_str(), fault.at.ptx_line), ("add", 23));
    let thread = fault.at.block[0] * 128 + fault.at.thread[0];
    assert!(thread >= 100, "{fault}");
    device.arena.free(c, "a test").unwrap();
    let fault = device.run(1, 32, &[a, b, c, 32]).unwrap_err();
    assert!(fault.message.contains("freed"), "{fault}");
}

const REDUCE: &str = r#"
.visible .entry reduce(.param .u64 in, .param .u64 out)
{
    .reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %rd<8>;
    .shared .align 4 .b8 sums[1024];
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
    mad.lo.s32 %r4, %r2, %r3, %r1;
    mul.wide.u32 %rd3, %r4, 4; add.s64 %rd4, %rd1, %rd3;
    ld.global.u32 %r5, [%rd4];
    shl.b32 %r6, %r1, 2; mov.u32 %r7, sums; add.s32 %r8, %r7, %r6;
    st.shared.u32 [%r8], %r5;
    bar.sync 0;
    shr.u32 %r9, %r3, 1;
$again:
    setp.eq.s32 %p1, %r9, 0;
    @%p1 bra $done;
    setp.ge.u32 %p2, %r1, %r9;
    @%p2 bra $skip;
    shl.b32 %r10, %r9, 2; add.s32 %r10, %r8, %r10;
    ld.shared.u32 %r11, [%r10]; ld.shared.u32 %r5, [%r8];
    add.s32 %r5, %r5, %r11; st.shared.u32 [%r8], %r5;
$skip:
    bar.sync 0;
    shr.u32 %r9, %r9, 1;
    bra $again;
$done:
    setp.ne.s32 %p1, %r1, 0;
    @%p1 ret;
    ld.shared.u32 %r5, [sums];
    atom.global.add.u32 %r6, [%rd2], %r5;
    ret;
}
"#;

#[test]
fn a_sum_through_shared_memory() {
    let device = Device::new(REDUCE);
    let n = 256 * 64;
    let mut numbers = Numbers(2);
    let values: Vec<u32> = (0..n).map(|_| numbers.next() as u32).collect();
    let (input, output) = (device.upload32(&values), device.upload32(&[0]));
    device.run(64, 256, &[input, output]).unwrap();
    let sum = values
        .iter()
        .fold(0u32, |sum, value| sum.wrapping_add(*value));
    assert_eq!(device.download32(output, 1), [sum]);
}
