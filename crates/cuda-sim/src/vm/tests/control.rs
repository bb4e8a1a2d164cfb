//! Divergence, barriers, warps, calls, faults.

use super::device::{Device, TARGET};
use crate::vm::{FaultKind, LoadError, TargetInfo};

/// A kernel with `%tid` in `%t` and the address of element `%t` of the output in `%at`.
fn kernel(before: &str, body: &str) -> String {
    format!(
        "{before} .visible .entry k(.param .u64 out) {{
            .reg .b32 %t, %x<10>; .reg .b64 %at, %y<10>; .reg .pred %p<5>;
            ld.param.u64 %at, [out]; mov.u32 %t, %tid.x;
            mul.wide.u32 %y0, %t, 4; add.u64 %at, %at, %y0;
            {body}
            st.global.u32 [%at], %x0; ret; }}"
    )
}

fn results(before: &str, body: &str, threads: u32) -> Vec<u32> {
    let device = Device::new(&kernel(before, body));
    let out = device.upload32(&vec![0; threads as usize]);
    device.run(1, threads, &[out]).unwrap();
    device.download32(out, threads as usize)
}

fn fault(before: &str, body: &str) -> crate::vm::Fault {
    let device = Device::new(&kernel(before, body));
    let out = device.upload32(&[0; 64]);
    device.run(1, 64, &[out]).unwrap_err()
}

#[test]
fn lanes_part_and_meet_again() {
    // The number of Collatz steps differs by lane; afterwards all 32 lanes converge again.
    let body = "add.u32 %x1, %t, 1; mov.u32 %x0, 0;
        $loop: setp.eq.u32 %p0, %x1, 1; @%p0 bra $end;
        and.b32 %x2, %x1, 1; setp.eq.u32 %p1, %x2, 0; @%p1 bra $even;
        mad.lo.u32 %x1, %x1, 3, 1; bra $next;
        $even: shr.u32 %x1, %x1, 1;
        $next: add.u32 %x0, %x0, 1; bra $loop;
        $end: activemask.b32 %x3; popc.b32 %x3, %x3; mad.lo.u32 %x0, %x3, 1000, %x0;";
    let expected: Vec<u32> = (1..=64u64)
        .map(|n| {
            let steps = std::iter::successors(Some(n), |&n| {
                (n != 1).then(|| if n % 2 == 0 { n / 2 } else { 3 * n + 1 })
            });
            32_000 + steps.count() as u32 - 1
        })
        .collect();
    assert_eq!(results("", body, 64), expected);
}

#[test]
fn barrier_counts_do_not_carry_over_to_next_block() {
    // In the first block, a warp arrives at a barrier for which no thread waits.
    let body = "mov.u32 %x1, %ctaid.x; setp.ne.u32 %p0, %x1, 0; @%p0 bra $second;
        setp.ge.u32 %p1, %t, 32; @%p1 bra $end; bar.arrive 1, 64; bra $end;
        $second: setp.eq.u32 %p2, %x1, 1; bar.red.and.pred %p3, 1, 64, %p2; selp.u32 %x0, 1, 0, %p3;
        st.global.u32 [%at], %x0;
        $end: ret;";
    let device = Device::new(&kernel("", body));
    let out = device.upload32(&[7; 64]);
    device
        .run_with(2, 64, &[out], |params| params.threads = 1)
        .unwrap();
    assert_eq!(device.download32(out, 64), [1; 64]);
}

#[test]
fn clocks_do_not_run_backwards() {
    // The loop runs past the end of a warp's turn, which lasts some 16,000 instructions when blocks
    // take turns.
    let body = "mov.u64 %y1, %clock64; mov.u32 %x1, 0; mov.u32 %x0, 0;
        $loop: mov.u64 %y2, %clock64; setp.lt.u64 %p0, %y2, %y1; selp.u32 %x2, 1, 0, %p0; add.u32 %x0, %x0, %x2;
        mov.u64 %y1, %y2; add.u32 %x1, %x1, 1; setp.lt.u32 %p1, %x1, 20000; @%p1 bra $loop;";
    let device = Device::new(&kernel("", body));
    let out = device.upload32(&[7; 32]);
    device
        .run_with(1, 32, &[out], |params| params.cooperative = true)
        .unwrap();
    assert_eq!(device.download32(out, 32), [0; 32]);
}

#[test]
fn the_frame_of_a_function_is_aligned_as_it_asks() {
    let before = ".func (.reg .b32 %r) f(.reg .b32 %n) {
            .local .align 64 .b8 room[64]; .reg .b64 %a;
            mov.u64 %a, room; cvt.u32.u64 %r, %a; and.b32 %r, %r, 63; add.u32 %r, %r, %n; ret; }";
    let body = ".local .align 4 .b8 own[20]; st.local.u32 [own], %t; call (%x0), f, (%t);";
    let expected: Vec<u32> = (0..32).collect();
    assert_eq!(results(before, body, 32), expected);
}

#[test]
fn the_parameters_of_a_kernel_lie_in_the_global_window() {
    let body = "mov.b64 %y1, out; cvta.param.u64 %y2, %y1; isspacep.global %p0, %y2; isspacep.param %p1, %y2;
        isspacep.local %p2, %y2; selp.u32 %x0, 1, 0, %p0; @%p1 add.u32 %x0, %x0, 2; @%p2 add.u32 %x0, %x0, 4;";
    assert_eq!(results("", body, 1), [3]);
}

#[test]
fn a_shuffle_waits_for_its_members() {
    // Odd and even lanes reach different shuffles of one mask on different paths.
    let body = "and.b32 %x1, %t, 1; setp.eq.u32 %p0, %x1, 0; @%p0 bra $even;
        shfl.sync.bfly.b32 %x0, %t, 1, 31, -1; add.u32 %x0, %x0, 100; bra $end;
        $even: mov.u32 %x2, 0;
        shfl.sync.bfly.b32 %x0, %t, 1, 31, -1;
        $end:";
    let expected: Vec<u32> = (0..32)
        .map(|t| if t % 2 == 0 { t + 1 } else { t - 1 + 100 })
        .collect();
    assert_eq!(results("", body, 32), expected);
}

#[test]
fn votes_matches_and_reductions() {
    let body = "setp.lt.u32 %p0, %t, 20; vote.sync.ballot.b32 %x0, %p0, -1;
        and.b32 %x1, %t, 3; match.any.sync.b32 %x2, %x1, -1; xor.b32 %x0, %x0, %x2;
        redux.sync.add.u32 %x3, %t, -1; add.u32 %x0, %x0, %x3;";
    let expected: Vec<u32> = (0..32)
        .map(|t| (0xf_ffff ^ 0x1111_1111u32 << (t & 3)) + 496)
        .collect();
    assert_eq!(results("", body, 32), expected);
}

#[test]
fn barriers_with_counts_and_reductions() {
    let shared = ".shared .align 4 .b8 s[512];";
    // The first two warps wait for each other at barrier 3 while the others run on.
    let body = "mov.u32 %x1, s; shl.b32 %x2, %t, 2; add.u32 %x1, %x1, %x2; st.shared.u32 [%x1], %t;
        mov.u32 %x0, 5; setp.ge.u32 %p0, %t, 64; @%p0 bra $rest;
        bar.sync 3, 64; xor.b32 %x2, %x2, 128; mov.u32 %x3, s; add.u32 %x3, %x3, %x2;
        ld.shared.u32 %x0, [%x3];
        $rest: setp.lt.u32 %p1, %t, 10; bar.red.popc.u32 %x4, 1, %p1; mad.lo.u32 %x0, %x4, 1000, %x0;";
    let expected: Vec<u32> = (0..128)
        .map(|t| 10_000 + if t < 64 { t ^ 32 } else { 5 })
        .collect();
    assert_eq!(results(shared, body, 128), expected);
}

#[test]
fn calls_recursion_and_pointers() {
    let functions = "
        .func (.param .b32 r) fact(.param .b32 n) {
            .reg .b32 %a, %b; .reg .pred %p;
            ld.param.b32 %a, [n]; setp.gt.u32 %p, %a, 1; @%p bra $more;
            st.param.b32 [r], 1; ret;
            $more: sub.u32 %b, %a, 1;
            { .param .b32 p0; .param .b32 r0; st.param.b32 [p0], %b; call (r0), fact, (p0);
              ld.param.b32 %b, [r0]; }
            mul.lo.u32 %a, %a, %b; st.param.b32 [r], %a; ret; }
        .func (.reg .b32 r) twice(.reg .b32 n) { add.u32 r, n, n; ret; }
        .func (.reg .b32 r) negative(.reg .b32 n) { neg.s32 r, n; ret; }
        .global .align 8 .u64 table[2] = { twice, negative };";
    let body = "and.b32 %x1, %t, 7;
        { .param .b32 p0; .param .b32 r0; st.param.b32 [p0], %x1; call.uni (r0), fact, (p0); ld.param.b32 %x2, [r0]; }
        and.b32 %x3, %t, 1; mul.wide.u32 %y1, %x3, 8; mov.u64 %y2, table; add.u64 %y2, %y2, %y1;
        ld.global.u64 %y3, [%y2];
        proto: .callprototype (.reg .b32 _) _ (.reg .b32 _);
        call (%x0), %y3, (%x2), proto;";
    let expected: Vec<u32> = (0..64u32)
        .map(|t| {
            let factorial: u32 = (1..=t & 7).product();
            if t % 2 == 0 {
                factorial * 2
            } else {
                factorial.wrapping_neg()
            }
        })
        .collect();
    assert_eq!(results(functions, body, 64), expected);
}

#[test]
fn many_blocks_add_to_one_place() {
    let device = Device::new(
        ".visible .entry k(.param .u64 out) { .reg .b64 %a; .reg .b32 %r; .reg .f32 %f;
         ld.param.u64 %a, [out]; red.global.add.u32 [%a], 1; atom.global.max.s32 %r, [%a+4], -5;
         atom.global.inc.u32 %r, [%a+8], 6; atom.global.add.f32 %f, [%a+12], 0f3F000000;
         atom.global.cas.b32 %r, [%a+16], 0, 9; ret; }",
    );
    let out = device.upload32(&[0, 0x8000_0000, 0, 0, 0]);
    device.run(100, 96, &[out]).unwrap();
    let half: f32 = 4800.0;
    let expected = [9600, (-5i32) as u32, 9600 % 7, half.to_bits(), 9];
    assert_eq!(device.download32(out, 5), expected);
}

#[test]
fn a_lock_is_passed_within_a_warp() {
    let device = Device::new(
        ".visible .entry k(.param .u64 out) { .reg .b64 %a; .reg .b32 %r; .reg .pred %p;
         ld.param.u64 %a, [out];
         $spin: atom.global.cas.b32 %r, [%a], 0, 1; setp.ne.u32 %p, %r, 0; @%p bra $spin;
         ld.global.u32 %r, [%a+4]; add.u32 %r, %r, 1; st.global.u32 [%a+4], %r;
         atom.global.exch.b32 %r, [%a], 0; ret; }",
    );
    let out = device.upload32(&[0, 0]);
    device.run(3, 64, &[out]).unwrap();
    assert_eq!(device.download32(out, 2), [0, 192]);
}

#[test]
fn faults_have_their_kind_and_line() {
    let cases = [
        ("trap;", FaultKind::LaunchFailed),
        (
            "mov.u64 %y1, 0; st.global.u32 [%y1], %t;",
            FaultKind::IllegalAddress,
        ),
        ("st.global.u32 [%at+2], %t;", FaultKind::MisalignedAddress),
        ("mov.u64 %y1, 77; call %y1, ();", FaultKind::InvalidPc),
        (
            "bar.warp.sync 3; setp.eq.u32 %p0, %t, 0; @%p0 bar.sync 1, 64;",
            FaultKind::Timeout,
        ),
        ("ld.shared.u32 %x1, [4096];", FaultKind::IllegalAddress),
    ];
    for (body, kind) in cases {
        let fault = fault("", body);
        assert_eq!(fault.kind, kind, "{fault}");
        // The body is on line 4 of the kernel, which starts on line 4 of the text.
        if kind != FaultKind::Timeout {
            assert_eq!(fault.at.ptx_line, 8, "{fault}");
        }
    }
    let endless = ".func f(.reg .b32 n) { .local .align 4 .b8 l[64]; call f, (n); ret; }";
    assert_eq!(
        fault(endless, "call f, (%t);").kind,
        FaultKind::HardwareStack
    );
}

#[test]
fn unknown_instructions_fail_by_name_when_executed() {
    let target = TargetInfo {
        strict: false,
        ..TARGET
    };
    let text = kernel("", "setp.eq.u32 %p0, %t, 0; @%p0 wgmma.b32 %x0, %t;");
    let device = Device::load(&text, &target).unwrap();
    let out = device.upload32(&[0; 32]);
    let fault = device.run(1, 32, &[out]).unwrap_err();
    assert_eq!(fault.kind, FaultKind::IllegalInstruction);
    assert!(fault.message.contains("`wgmma.b32`"), "{fault}");
    assert!(matches!(
        Device::load(&text, &TARGET),
        Err(LoadError::InvalidPtx(_))
    ));
}

#[test]
fn targets_and_versions_are_checked() {
    let text = kernel("", "mov.u32 %x0, 1;");
    let old = TargetInfo {
        max_ptx: (7, 8),
        ..TARGET
    };
    assert!(matches!(
        Device::load(&text, &old),
        Err(LoadError::UnsupportedVersion {
            found: (8, 0),
            supported: (7, 8)
        })
    ));
    let small = TargetInfo {
        compute_capability: (7, 0),
        ..TARGET
    };
    assert!(matches!(
        Device::load(&text, &small),
        Err(LoadError::OtherTarget { .. })
    ));
}

#[test]
fn a_variable_beyond_the_device_memory_is_named() {
    // The bytes between two allocations.
    const GAP: u64 = 256;
    let (first, second) = (40_u64 << 20, 30_u64 << 20);
    let text = format!(".global .b8 first[{first}]; .global .b8 second[{second}];");
    let error = Device::load(&kernel(&text, ""), &TARGET).err().unwrap();
    let total = 64_u64 << 20;
    assert_eq!(
        error.to_string(),
        format!(
            "cannot allocate {second} bytes for the variable second; the device has {} free of \
             {total} bytes",
            total - first - GAP
        )
    );
}

#[test]
fn printing() {
    let before = ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
        .global .align 1 .b8 text[12] = {37, 100, 32, 37, 46, 50, 102, 32, 37, 120, 10, 0};";
    let body = ".local .align 8 .b8 args[24]; setp.ne.u32 %p0, %t, 3; @%p0 bra $end;
        mov.u64 %y1, args; st.local.s32 [%y1], -7; mov.b64 %y2, 0d3FF8000000000000;
        st.local.b64 [%y1+8], %y2; st.local.u32 [%y1+16], 255; cvta.local.u64 %y1, %y1;
        mov.u64 %y3, text;
        { .param .b64 p0; .param .b64 p1; .param .b32 r0; st.param.b64 [p0], %y3; st.param.b64 [p1], %y1;
          call.uni (r0), vprintf, (p0, p1); ld.param.b32 %x0, [r0]; }
        $end:";
    let device = Device::new(&kernel(before, body));
    let out = device.upload32(&[0; 32]);
    device.run(1, 32, &[out]).unwrap();
    assert_eq!(*device.output.lock().unwrap(), "-7 1.50 ff\n");
    assert_eq!(device.download32(out, 4)[3], 3);
}

#[test]
fn strings_in_every_memory_are_printed() {
    let before = ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
        .global .align 1 .b8 text[7] = {37, 115, 32, 37, 115, 10, 0};
        .shared .align 8 .b8 word[8];";
    let print = |first: &str| {
        format!(
            ".local .align 8 .b8 args[16]; .local .align 8 .b8 own[8];
            setp.ne.u32 %p0, %t, 3; @%p0 bra $end;
            mov.u32 %x1, 26984; st.shared.u32 [word], %x1; st.local.u32 [own], %x1;
            mov.u64 %y1, {first}; mov.u64 %y2, own; cvta.local.u64 %y2, %y2;
            mov.u64 %y3, args; st.local.b64 [%y3], %y1; st.local.b64 [%y3+8], %y2;
            cvta.local.u64 %y3, %y3; mov.u64 %y4, text;
            {{ .param .b64 p0; .param .b64 p1; .param .b32 r0;
              st.param.b64 [p0], %y4; st.param.b64 [p1], %y3;
              call.uni (r0), vprintf, (p0, p1); ld.param.b32 %x0, [r0]; }}
            $end:"
        )
    };
    let shared = print("word; cvta.shared.u64 %y1, %y1");
    for (body, expected) in [(shared, "hi hi\n"), (print("0"), "(null) hi\n")] {
        let device = Device::new(&kernel(before, &body));
        let out = device.upload32(&[0; 32]);
        device.run(1, 32, &[out]).unwrap();
        assert_eq!(*device.output.lock().unwrap(), expected);
    }
    let wild = fault(before, &print("4096"));
    assert_eq!(wild.kind, FaultKind::IllegalAddress);
}

#[test]
fn guard_among_two_results_is_read_before_written() {
    let two = "setp.lt.u32 %p1, %t, 16; setp.ge.u32 %p2, %t, 64;
        @%p1 setp.lt.u32 %p1|%p2, %t, 8;
        selp.u32 %x0, 1, 0, %p1; @%p2 add.u32 %x0, %x0, 2;";
    let expected: Vec<u32> = (0..32)
        .map(|t| match t {
            0..8 => 1,
            8..16 => 2,
            _ => 0,
        })
        .collect();
    assert_eq!(results("", two, 32), expected);
    let negated = "setp.ge.u32 %p1, %t, 16; setp.ge.u32 %p2, %t, 64;
        @!%p1 setp.lt.u32 %p2|%p1, %t, 8;
        selp.u32 %x0, 2, 0, %p1; @%p2 add.u32 %x0, %x0, 1;";
    let expected: Vec<u32> = (0..32)
        .map(|t| match t {
            0..8 => 1,
            _ => 2,
        })
        .collect();
    assert_eq!(results("", negated, 32), expected);
}

#[test]
fn an_address_in_one_memory_is_in_no_other() {
    let variables = ".local .align 8 .b8 own[8]; .shared .align 8 .b8 all[8];";
    for access in [
        "mov.u64 %y1, own; cvta.local.u64 %y1, %y1; st.shared.u32 [%y1], %t;",
        "mov.u64 %y1, own; cvta.local.u64 %y1, %y1; ld.shared.u32 %x0, [%y1];",
        "mov.u64 %y1, all; cvta.shared.u64 %y1, %y1; st.local.u32 [%y1], %t;",
        "mov.u64 %y1, all; cvta.shared.u64 %y1, %y1; ld.local.u32 %x0, [%y1];",
    ] {
        let fault = fault("", &format!("{variables} {access}"));
        assert_eq!(fault.kind, FaultKind::IllegalAddress, "{access}");
    }
}

#[test]
fn vector_atomics_return_values_before_all_additions() {
    let body = "cvt.rn.f32.u32 %f1, %t; add.f32 %f2, %f1, 0f42C80000;
        mul.wide.u32 %y1, %t, 4; add.u64 %y1, %at, %y1;
        atom.global.v2.f32.add {%f1, %f2}, [%y1], {%f2, %f1};
        cvt.rzi.u32.f32 %x0, %f1; bra $done; $done:";
    let text = format!(
        ".visible .entry k(.param .u64 out) {{
            .reg .b32 %t, %x<4>; .reg .b64 %at, %y<4>; .reg .f32 %f<4>;
            ld.param.u64 %at, [out]; mov.u32 %t, %tid.x;
            mul.wide.u32 %y0, %t, 4; add.u64 %at, %at, %y0; {body} ret; }}"
    );
    let device = Device::new(&text);
    let out = device.upload32(&[0; 64]);
    device.run(1, 32, &[out]).unwrap();
    let sums: Vec<f32> = device
        .download32(out, 64)
        .into_iter()
        .map(f32::from_bits)
        .collect();
    let expected: Vec<f32> = (0..32_u8)
        .flat_map(|t| [f32::from(t) + 100., f32::from(t)])
        .collect();
    assert_eq!(sums, expected);
}

#[test]
fn vector_load_may_overwrite_its_address() {
    let body = "mov.u64 %y1, table; add.u64 %y1, %y1, 0;
        ld.global.v2.u32 {%y1, %y2}, [%y1]; add.u64 %y1, %y1, %y2; cvt.u32.u64 %x0, %y1;";
    let table = ".global .align 8 .b32 table[2] = {5, 70};";
    assert_eq!(results(table, body, 32), [75; 32]);
}

#[test]
fn lanes_of_a_warp_wait_at_barriers_of_their_own() {
    // Half of each warp is at barrier 1, half at barrier 2: threads that are 32 apart meet.
    let body = "and.b32 %x1, %t, 16; shr.u32 %x1, %x1, 4; add.u32 %x1, %x1, 1;
        mov.u32 %x2, all; shl.b32 %x3, %t, 2; add.u32 %x3, %x2, %x3; st.shared.u32 [%x3], %t;
        barrier.sync %x1, 32;
        xor.b32 %x4, %t, 32; shl.b32 %x4, %x4, 2; add.u32 %x4, %x2, %x4; ld.shared.u32 %x0, [%x4];";
    let shared = ".shared .align 4 .b8 all[256];";
    let expected: Vec<u32> = (0..64).map(|t| t ^ 32).collect();
    assert_eq!(results(shared, body, 64), expected);
}

#[test]
fn a_kernel_without_a_register_has_a_barrier() {
    Device::new(".visible .entry k() { bar.sync 0; ret; }")
        .run(2, 64, &[])
        .unwrap();
}
