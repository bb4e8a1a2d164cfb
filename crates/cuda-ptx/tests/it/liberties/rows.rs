//! The rows: pairs of kernels.

use super::{Kernel, store};

/// A liberty of the assembler.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// A kernel in which the assembler takes the liberty.
    pub(crate) needed: Kernel,
    /// A similar kernel in which it does not.
    pub(crate) satisfied: Kernel,
    /// Whether machine code does what a proof relies on. `None` if that cannot be seen in it.
    pub(crate) holds: fn(&[String]) -> Option<bool>,
    /// The lowest architecture.
    pub(crate) arch: u32,
}

impl Row {
    fn new(
        name: &'static str,
        holds: fn(&[String]) -> Option<bool>,
        needed: String,
        satisfied: String,
    ) -> Self {
        let kernel = |kind: &str, body| Kernel {
            name: format!("{name}_{kind}"),
            directives: "",
            body,
        };
        Self {
            name,
            needed: kernel("needed", needed),
            satisfied: kernel("satisfied", satisfied),
            holds,
            arch: 80,
        }
    }

    /// Whether the row is about a limit of registers.
    pub(crate) fn is_limited(&self) -> bool {
        self.needed.body.contains("%v59")
    }

    fn since(self, arch: u32) -> Self {
        Self { arch, ..self }
    }
}

fn count(code: &[String], what: &str) -> usize {
    code.iter().filter(|line| line.contains(what)).count()
}

/// Whether something is compared with 37.
fn is_guarded(code: &[String]) -> Option<bool> {
    let is_guard = |line: &String| line.contains("ISETP") && line.contains("0x25");
    Some(code.iter().any(is_guard))
}

/// Whether the index, or the offset, is masked.
fn masks_the_index(code: &[String]) -> Option<bool> {
    let is_mask = |line: &String| {
        line.contains("LOP3") && [" 0xf,", " 0x3c,"].iter().any(|mask| line.contains(mask))
    };
    Some(code.iter().any(is_mask))
}

fn loads_once(code: &[String]) -> Option<bool> {
    Some(count(code, "LDG") + count(code, "LDC.CONSTANT") == 1)
}

fn votes_once(code: &[String]) -> Option<bool> {
    let all = ["VOTE", "MATCH", "ELECT", "SHFL", "REDUX"];
    Some(all.iter().map(|what| count(code, what)).sum::<usize>() <= 1)
}

/// The registers that an instruction names.
fn registers(line: &str) -> Vec<&str> {
    let words = line.split([' ', ',', '.']);
    let is_register = |word: &&str| {
        let number = word.strip_prefix('R').unwrap_or("");
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    words.filter(is_register).collect()
}

/// Whether the register that is compared with 37 is the one from which the address is made. At
/// `-O0`, there are copies between them.
fn compares_the_index(code: &[String]) -> Option<bool> {
    let guard = code
        .iter()
        .find(|line| line.contains("ISETP") && line.contains("0x25"));
    let index = code
        .iter()
        .find(|line| line.contains("IMAD.WIDE") && line.contains("0x4"));
    let (Some(guard), Some(index)) = (guard, index) else {
        return None;
    };
    let is_copied = code
        .iter()
        .any(|line| line.starts_with("MOV R") && line.contains(", R"));
    let (guard, index) = (registers(guard), registers(index));
    let same = guard
        .first()
        .is_some_and(|register| index.iter().skip(1).any(|it| it == register));
    (!is_copied || same).then_some(same)
}

/// A loop that repeats while `n` is at least 37, with an instruction in it.
fn repeated(effect: &str) -> String {
    let store = store("%r1");
    format!(
        ".shared .align 8 .b32 s[4]; .local .align 8 .b32 l[4];\n\
         L: {effect} setp.ge.u32 %p1, %r1, 37; @%p1 bra L; {store}"
    )
}

/// Makes an index, compares it with 37, uses more registers than there are, and uses the index.
fn under_pressure(index: &str) -> String {
    let mut body =
        format!(".shared .align 8 .b32 s[64];\n{index} setp.ge.u32 %p1, %r5, 37; @%p1 ret;\n");
    for number in 0..60 {
        body += &format!("ld.volatile.shared.u32 %v{number}, [s+{}];\n", 4 * number);
    }
    body += "mov.u32 %r3, 1000; st.volatile.shared.u32 [s], %r3; membar.gl;\n";
    for number in 0..60 {
        body += &format!(
            "st.volatile.shared.u32 [s+{}], %v{number};\n",
            4 * ((number * 7) % 60)
        );
    }
    body + &store("%r5")
}

fn guarded(index: &str) -> String {
    format!(
        "{index} setp.ge.u32 %p1, %r5, 37; @%p1 ret; {}",
        store("%r5")
    )
}

/// Instructions that do not keep a loop, and those that do.
pub(crate) const EFFECTS: [(&str, &str, &str); 8] = [
    ("loop_empty", "", "st.global.u32 [%d1], %r1;"),
    (
        "loop_load",
        "ld.global.u32 %r9, [%d1];",
        "ld.volatile.global.u32 %r9, [%d1];",
    ),
    (
        "loop_relaxed_load",
        "ld.relaxed.gpu.global.u32 %r9, [%d1];",
        "atom.global.add.u32 %r9, [%d1], 1;",
    ),
    (
        "loop_vote",
        "vote.sync.ballot.b32 %r9, %p1, -1;",
        "bar.sync 0;",
    ),
    ("loop_active", "activemask.b32 %r9;", "membar.gl;"),
    (
        "loop_shuffle",
        "shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1;",
        "red.global.add.u32 [%d1], 1;",
    ),
    ("loop_clock", "mov.u32 %r9, %clock;", "fence.acq_rel.gpu;"),
    (
        "loop_local",
        "st.local.u32 [l], %r1;",
        "st.shared.u32 [s], %r1;",
    ),
];

/// All rows.
pub(crate) fn rows() -> Vec<Row> {
    let effects = EFFECTS
        .map(|(name, none, effect)| Row::new(name, is_guarded, repeated(none), repeated(effect)));
    let mut rows = Vec::from(effects);
    // The condition of a loop on data, which an assembler loads once.
    let spin = |load: &str| {
        format!(
            "L: {load} %r5, [%d1]; setp.ge.u32 %p1, %r5, 37; @%p1 bra L; {}",
            store("%r5")
        )
    };
    rows.push(Row::new(
        "spin",
        is_guarded,
        spin("ld.global.u32"),
        spin("ld.volatile.global.u32"),
    ));
    // The condition of the exit is tested again behind the loop.
    rows.push(Row::new(
        "behind",
        is_guarded,
        repeated(""),
        repeated("").replace("bra L;", "bra L; setp.ge.u32 %p4, %r1, 37; @%p4 ret;"),
    ));
    // A loop without an exit is kept.
    rows.push(Row::new(
        "no_exit",
        is_guarded,
        format!(
            "L: setp.ge.u32 %p1, %r1, 37; @%p1 bra C; bra E; C: bra L; E: {}",
            store("%r1")
        ),
        format!(
            "setp.ge.u32 %p1, %r1, 37; @%p1 bra L; bra E; L: bra L; E: {}",
            store("%r1")
        ),
    ));
    // A store in a loop, of which the other side has no effect.
    let side = |effect: &str| {
        format!(
            "L: {effect} setp.ge.u32 %p1, %r1, 37; @%p1 bra C; {} ld.global.u32 %r6, [%d1+4]; \
             setp.eq.u32 %p3, %r6, 0; @%p3 bra E; C: bra L; E:",
            store("%r1")
        )
    };
    rows.push(Row::new("side", is_guarded, side(""), side("bar.sync 0;")));
    // The same with an index that contains a number which changes, twice.
    let cancelled = |effect: &str| {
        format!(
            "mov.u32 %r7, 0; L: {effect} and.b32 %r3, %r7, %r7; add.u32 %r4, %r1, %r7; \
             sub.u32 %r5, %r4, %r3; setp.ge.u32 %p1, %r5, 37; @%p1 bra C; {} \
             ld.global.u32 %r6, [%d1+4]; setp.eq.u32 %p3, %r6, 0; @%p3 bra E; \
             C: add.u32 %r7, %r7, 1; bra L; E:",
            store("%r5")
        )
    };
    rows.push(Row::new(
        "cancelled",
        is_guarded,
        cancelled(""),
        cancelled("bar.sync 0;"),
    ));
    // The condition is tested again behind an effect.
    let again = |effect: &str| {
        format!(
            "L: {effect} setp.ge.u32 %p1, %r1, 37; @%p1 bra C; ld.volatile.global.u32 %r9, [%d1]; \
             @%p1 bra E; {} ld.global.u32 %r6, [%d1+4]; setp.eq.u32 %p3, %r6, 0; @%p3 bra E; \
             C: bra L; E:",
            store("%r1")
        )
    };
    rows.push(Row::new(
        "again",
        is_guarded,
        again(""),
        again("bar.sync 0;"),
    ));
    rows.push(Row::new(
        "read_only",
        loads_once,
        under_pressure("ld.global.nc.u32 %r5, [%d1];"),
        under_pressure("ld.volatile.global.u32 %r5, [%d1];"),
    ));
    // Between the load and the guard are an instruction that is not modelled, and local memory.
    for (name, way) in [
        ("read_only_opaque", "slct.b32.s32 %r5, %r4, %r4, 1;"),
        (
            "read_only_stored",
            "st.local.u32 [l], %r4; ld.local.u32 %r5, [l];",
        ),
    ] {
        let load = |load: &str| {
            let index = format!(".local .align 8 .b32 l[4];\n{load} %r4, [%d1]; {way}");
            under_pressure(&index)
        };
        rows.push(Row::new(
            name,
            loads_once,
            load("ld.global.nc.u32"),
            load("ld.volatile.global.u32"),
        ));
    }
    rows.push(Row::new(
        "vote",
        votes_once,
        under_pressure("setp.gt.u32 %p4, %r1, 3; vote.sync.ballot.b32 %r5, %p4, -1;"),
        under_pressure("ld.global.u32 %r5, [%d1];"),
    ));
    rows.push(Row::new(
        "active",
        votes_once,
        under_pressure("activemask.b32 %r5;"),
        under_pressure("activemask.b32 %r5; and.b32 %r5, %r5, 31;").replace("%p1 ret", "%p9 ret"),
    ));
    rows.push(Row::new(
        "match",
        votes_once,
        under_pressure("match.any.sync.b32 %r5, %r1, -1;"),
        under_pressure("ld.relaxed.gpu.global.u32 %r5, [%d1];"),
    ));
    rows.push(Row::new(
        "shuffle",
        votes_once,
        under_pressure("mov.u32 %r20, %tid.x; shfl.sync.idx.b32 %r5, %r20, 0, 31, -1;"),
        under_pressure("ld.volatile.global.u32 %r5, [%d1];"),
    ));
    rows.push(Row::new(
        "reduction",
        votes_once,
        under_pressure("redux.sync.add.u32 %r5, %r1, -1;"),
        under_pressure("ld.volatile.global.u32 %r5, [%d1+4];"),
    ));
    rows.push(
        Row::new(
            "elect",
            votes_once,
            under_pressure("elect.sync %r5|%p5, -1;"),
            under_pressure("ld.global.u32 %r5, [%d1];"),
        )
        .since(90),
    );
    rows.push(Row::new(
        "unset_local",
        compares_the_index,
        format!(
            ".local .align 8 .b32 l[4];\n{}",
            guarded("ld.local.u32 %r5, [l+4];")
        ),
        format!(
            ".local .align 8 .b32 l[4];\n{}",
            guarded("ld.global.u32 %r5, [%d1]; st.local.u32 [l+4], %r5; ld.local.u32 %r5, [l+4];")
        ),
    ));
    let masked = |before: &str| {
        format!(
            "{before} ld.global.u32 %r6, [%d1]; setp.eq.u32 %p1, %r6, 0; @%p1 bra M; \
             shr.u32 %r5, %r6, 28; st.global.u32 [%d1], %r1; M: and.b32 %r7, %r5, 15; {}",
            store("%r7")
        )
    };
    rows.push(Row::new(
        "unset_register",
        masks_the_index,
        masked(""),
        masked("mov.u32 %r5, %r1;"),
    ));
    rows
}
