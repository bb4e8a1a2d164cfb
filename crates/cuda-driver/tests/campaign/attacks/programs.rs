//! Kernels that an earlier version of the library launched as proven, or in a checked copy,
//! although they left their arguments or lost the device on a GPU.

use super::attack::{Attack, HEAD, kernel};

/// Stores a number that is easy to recognise at `index`, in words of `x`.
fn store(index: &str) -> String {
    format!(
        "mul.wide.u32 %d10, {index}, 4; add.s64 %d10, %d1, %d10; mov.u32 %r19, 0xfeedbeef; \
         st.global.u32 [%d10], %r19;"
    )
}

pub(super) fn programs() -> Vec<Attack> {
    let mut all = vec![
        Attack::new(
            "b01",
            kernel(
                "",
                &format!(
                    "{{ .reg .b32 %laneid; mov.u32 %laneid, 1000; {} }}",
                    store("%laneid")
                ),
            ),
        ),
        element_index(),
        Attack::new(
            "b03",
            kernel(
                "",
                &format!(
                    ".shared .align 8 .b32 tile[16]; mov.u64 %d4, tile+-4096; mov.u64 %d5, tile; \
                     sub.s64 %d6, %d4, %d5; add.s64 %d6, %d6, 4096; add.s64 %d1, %d1, %d6; {}",
                    store("0")
                ),
            ),
        ),
        Attack::new(
            "b04",
            kernel(
                "",
                &format!("mov.u32 %r2, 0; mov.u32 %r02, 1000; {}", store("%r2")),
            ),
        ),
        Attack::new(
            "b04 predicate",
            kernel(
                "",
                "mov.u32 %r2, 1000; setp.lt.u32 %p1, %r2, 32; setp.gt.u32 %p01, %r2, 5; \
                 mad.wide.u32 %d4, %r2, 4, %d1; @%p1 st.global.u32 [%d4], %r2;",
            ),
        ),
        Attack::new(
            "b05 index",
            kernel(
                ".reqnctapercluster 4",
                &format!(
                    ".shared .align 8 .b8 tile[64]; mov.u32 %r2, tile; shr.u32 %r2, %r2, 25; \
                     mul.lo.u32 %r2, %r2, 1000; {}",
                    store("%r2")
                ),
            ),
        )
        .grid(4),
        Attack::new(
            "b05 anywhere",
            kernel(
                ".reqnctapercluster 4",
                &format!(
                    ".shared .align 8 .b8 tile[64]; mov.u32 %r2, tile; setp.lt.u32 %p1, %r2, \
                     16777217; @%p1 ret; {}",
                    store("2000")
                ),
            ),
        )
        .grid(4),
        frames(),
        no_return(),
        Attack::new("b10", kernel("", &endless_guard())).n(1000),
        Attack::new("b10 all", kernel("", &endless_guard()))
            .n(1000)
            .check_all(),
        Attack::new(
            "b11",
            kernel(
                "",
                &format!(
                    ".local .align 8 .b8 slots[16]; mov.u64 %d4, slots; ld.local.u32 %r2, [%d4+4]; \
                     setp.ge.u32 %p1, %r2, 32; @%p1 ret; {}",
                    store("%r2")
                ),
            ),
        ),
        Attack::new(
            "b12",
            kernel(
                "",
                &format!(
                    "AGAIN: ld.global.u32 %r2, [%d1]; setp.ge.u32 %p1, %r2, 32; @%p1 bra AGAIN; {}",
                    store("%r2")
                ),
            ),
        )
        .word(0, 1000),
        loaded_again("b13", "ld.global.nc.u32"),
        loaded_again("b13 ldu", "ldu.global.u32"),
        loaded_again("b13 weak", "ld.global.u32"),
        unwritten_address(),
    ];
    all.extend(crashes());
    all
}

fn endless_guard() -> String {
    format!(
        "AGAIN: setp.ge.u32 %p1, %r1, 32; @%p1 bra AGAIN; {}",
        store("%r1")
    )
}

/// An element index that leaves its variable.
fn element_index() -> Attack {
    let text = format!(
        "{HEAD}.visible .global .align 8 .b64 small[1024];\n.visible .global .align 8 .b64 \
         victim[16384];\n.visible .entry k(.param .u64 x, .param .u32 n, .param .u64 m) {{\n .reg \
         .b64 %d<4>;\n mov.u64 %d1, small[8000];\n mov.u64 %d2, 77;\n st.global.u64 [%d1], %d2;\n \
         ret;\n}}\n"
    );
    Attack::new("b02", text)
        .variable("small")
        .untouched("victim")
}

/// A function returns the address of its local array; another frame takes its place.
fn frames() -> Attack {
    let functions = ".func (.param .b64 place) lend() { .local .align 8 .b8 room[256]; .reg .b64 \
                     %a; mov.u64 %a, room; st.param.b64 [place], %a; ret; }
.func spoil(.param .b64 at) { .reg .b64 %a; .reg .b32 %v; ld.param.b64 %a, [at]; mov.u32 %v, 1000; \
                     st.local.u32 [%a+224], %v; ret; }
.func work(.param .b64 at, .param .b64 out, .param .b32 which) { .reg .b64 %a<5>; .reg .b32 %v<4>; \
                     ld.param.b64 %a1, [at]; ld.param.b64 %a2, [out]; ld.param.b32 %v1, [which]; \
                     and.b32 %v1, %v1, 7; { .param .b64 q; st.param.b64 [q], %a1; call.uni spoil, \
                     (q); } mad.wide.u32 %a3, %v1, 4, %a2; mov.u32 %v2, 5; st.global.u32 [%a3], \
                     %v2; ret; }
";
    let body = format!(
        "and.b32 %r2, %r1, 7; {{ .param .b64 r; call.uni (r), lend, (); ld.param.b64 %d3, [r]; }} \
         {{ .param .b64 a; .param .b64 b; .param .b32 c; st.param.b64 [a], %d3; st.param.b64 [b], \
         %d1; st.param.b32 [c], %r2; call.uni work, (a, b, c); }} {}",
        store("%r2")
    );
    let text =
        kernel("", &body).replacen(".visible .entry", &format!("{functions}.visible .entry"), 1);
    Attack::new("b07", text).n(3).debug()
}

/// A function that is declared not to return, and returns.
fn no_return() -> Attack {
    let body = format!(
        "ld.volatile.global.u32 %r3, [%d1]; setp.lt.u32 %p1, %r1, 32; @%p1 bra GOOD; call.uni \
         stop, (); ret; GOOD: st.global.u32 [%d1+4000], %r3; st.global.u32 [%d1], %r3; {}",
        store("0")
    );
    let functions = ".func stop() .noreturn { ret; }\n.visible .entry";
    Attack::new(
        "b09",
        kernel("", &body).replacen(".visible .entry", functions, 1),
    )
    .n(1000)
}

/// An index is loaded, guarded, and used under register pressure, and its word changes in between.
fn loaded_again(name: &'static str, load: &str) -> Attack {
    let mut body = format!("{load} %r2, [%d1]; setp.ge.u32 %p1, %r2, 64; @%p1 ret;\n");
    for word in 1..61 {
        body += &format!(" ld.volatile.global.u32 %v{word}, [%d1+{}];\n", 4 * word);
    }
    body += " mov.u32 %r3, 1000; st.volatile.global.u32 [%d1], %r3; membar.gl;\n";
    for word in 1..61 {
        let other = 1 + word * 7 % 60;
        body += &format!(" st.volatile.global.u32 [%d1+{}], %v{other};\n", 4 * word);
    }
    body += &store("%r2");
    let text = kernel(".maxnreg 32", &format!(".reg .b32 %v<61>;\n {body}"));
    Attack::new(name, text).words(64)
}

/// An address in shared memory comes from a local array that nothing has written. A first kernel
/// leaves a number in the registers that passes the check.
fn unwritten_address() -> Attack {
    let mut spray = String::from(".reg .b32 %v<56>;\n");
    for word in 0..56 {
        spray += &format!(" ld.volatile.global.u32 %v{word}, [%d1+{}];\n", 4 * word);
    }
    for word in 0..56 {
        let other = word * 7 % 56;
        spray += &format!(" st.volatile.global.u32 [%d1+{}], %v{other};\n", 4 * word);
    }
    let body = ".shared .align 8 .b8 tile[1024]; .local .align 8 .b8 slots[16]; \
                mov.u64 %d4, slots; ld.local.u32 %r2, [%d4+4]; mov.u32 %r3, 0xfeedbeef; \
                st.shared.u32 [%r2], %r3; ld.shared.u32 %r4, [tile]; st.global.u32 [%d1], %r4;";
    let first = kernel("", &spray).replacen(" k(", " first(", 1);
    let second = kernel("", body).replacen(HEAD, "", 1);
    Attack::new("b14", first + &second)
        .before("first")
        .words(64)
        .all_words(0x400)
        .grid(1000)
        .block(64)
        .repeat(10)
}

/// Texts that end the process in the driver's compiler.
fn crashes() -> [Attack; 2] {
    let early = format!(
        "{HEAD}.func f(.param .b32 a) {{ ret; }}\n.visible .entry k(.param .u64 x, .param .u32 n, \
         .param .u64 m) {{ .reg .b32 %r<3>; mov.u32 %r1, 5; {{ .param .b32 q; st.param.b32 \
         [q+-64], %r1; call.uni f, (q); }} ret; }}\n"
    );
    let name = format!("{HEAD}.visible .entry %laneid() {{ ret; }}\n");
    [Attack::new("b15", early), Attack::new("b15 name", name)]
}
