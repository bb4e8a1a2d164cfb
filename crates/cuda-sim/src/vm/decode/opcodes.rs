//! The table of PTX opcodes: each one with its decoder and with an example.
//!
//! cuda-sim registers an opcode here and nowhere else; cuda-ptx has a list of its own (see
//! CONTRIBUTING.md). Rows are sorted by name. To add an opcode, add a row, the decoder method that
//! the row names, and the semantics, which the decoder selects with `lanes!` or `memory_fn`. Then
//! remove the opcode from [`UNIMPLEMENTED`].

use super::Decoded;
use super::fields::Parts;
use super::form::Form;
use super::function::FunctionDecoder;
use super::operation::{FloatOp, IntegerOp, LogicOp};
use super::surface::SurfaceOp;

/// Decodes one instruction.
type Decoder = for<'a> fn(&mut FunctionDecoder<'a, '_>, &mut Form<'a>) -> Decoded;

/// One row of the table.
#[derive(Debug)]
pub(super) struct Opcode {
    /// The part of the mnemonic before the first dot.
    pub(super) name: &'static str,
    pub(super) decode: Decoder,
    /// An instruction with this opcode, which a test decodes.
    #[cfg(test)]
    pub(super) example: &'static str,
}

/// Returns the row of `name`, if the software device implements it.
pub(super) fn find(name: &str) -> Option<&'static Opcode> {
    let index = OPCODES.binary_search_by(|row| row.name.cmp(name)).ok()?;
    OPCODES.get(index)
}

/// Returns whether the PTX manual (9.1) has an instruction of this name.
pub(super) fn is_in_manual(name: &str) -> bool {
    find(name).is_some() || UNIMPLEMENTED.binary_search(&name).is_ok()
}

/// The opcodes of the PTX manual that are not in the table, sorted by name.
pub(super) static UNIMPLEMENTED: &[&str] = &[
    "alloca",
    "clusterlaunchcontrol",
    "discard",
    "istypep",
    "multimem",
    "stackrestore",
    "stacksave",
    "tcgen05",
    "vabsdiff",
    "vadd",
    "vadd2",
    "vadd4",
    "vavrg2",
    "vavrg4",
    "vmad",
    "vmax",
    "vmax2",
    "vmax4",
    "vmin",
    "vmin2",
    "vmin4",
    "vset",
    "vset2",
    "vset4",
    "vshl",
    "vshr",
    "vsub",
    "vsub2",
    "vsub4",
];

/// Declares the table. Each row has an opcode, the call of a method of [`FunctionDecoder`], which
/// also receives the instruction, and an example.
macro_rules! opcodes {
    ($($name:literal => $method:ident($($argument:expr),*), $example:literal;)*) => {
        /// All opcodes, sorted by name.
        pub(super) static OPCODES: &[Opcode] = &[$(Opcode {
            name: $name,
            decode: |decoder, form| decoder.$method(form $(, $argument)*),
            #[cfg(test)]
            example: $example,
        }),*];
    };
}

// The examples use the registers `%h` (16 bits), `%r` (32), `%d` (64) and `%p` (predicates), the
// shared variable `tile`, the global variable `data`, the label `$next` and the branch targets
// `$list`.
opcodes! {
    "abs" => by_type(Some(IntegerOp::Abs), Some(FloatOp::Abs)), "abs.s32 %r1, %r2;";
    "activemask" => active_mask(), "activemask.b32 %r1;";
    "add" => by_type(Some(IntegerOp::Add), Some(FloatOp::Add)), "add.f32 %r1, %r2, %r3;";
    "addc" => integer(IntegerOp::AddCarry), "addc.u32 %r1, %r2, %r3;";
    "and" => logic(LogicOp::And), "and.b32 %r1, %r2, %r3;";
    "applypriority" => cache_hint(), "applypriority.global.L2::evict_normal [%d1], 128;";
    "atom" => atomic(false), "atom.global.add.u32 %r1, [%d1], %r2;";
    "bar" => barrier(true), "bar.sync 0;";
    "barrier" => barrier(false), "barrier.cta.sync 0;";
    "bfe" => extract_field(), "bfe.u32 %r1, %r2, %r3, %r4;";
    "bfi" => insert_field(), "bfi.b32 %r1, %r2, %r3, %r4, %r5;";
    "bfind" => find_leading_bit(), "bfind.u32 %r1, %r2;";
    "bmsk" => make_mask(), "bmsk.clamp.b32 %r1, %r2, %r3;";
    "bra" => branch(), "bra.uni $next;";
    "brev" => logic(LogicOp::ReverseBits), "brev.b32 %r1, %r2;";
    "brkpt" => trap(), "brkpt;";
    "brx" => branch_table(), "brx.idx %r1, $list;";
    "call" => call(), "call.uni helper;";
    "clz" => logic(LogicOp::LeadingZeros), "clz.b32 %r1, %r2;";
    "cnot" => logic(LogicOp::IsZero), "cnot.b32 %r1, %r2;";
    "copysign" => by_type(None, Some(FloatOp::CopySign)), "copysign.f32 %r1, %r2, %r3;";
    "cos" => by_type(None, Some(FloatOp::Cos)), "cos.approx.f32 %r1, %r2;";
    "cp" => copy(), "cp.async.ca.shared.global [tile], [%d1], 16;";
    "createpolicy" => create_policy(), "createpolicy.fractional.L2::evict_last.b64 %d1;";
    "cvt" => conversion(), "cvt.rn.f32.s32 %r1, %r2;";
    "cvta" => cvta(), "cvta.to.global.u64 %d1, %d2;";
    "div" => by_type(Some(IntegerOp::Div), Some(FloatOp::Div)), "div.rn.f32 %r1, %r2, %r3;";
    "dp2a" => dot(Parts::Two), "dp2a.lo.s32.s32 %r1, %r2, %r3, %r4;";
    "dp4a" => dot(Parts::Four), "dp4a.u32.u32 %r1, %r2, %r3, %r4;";
    "elect" => elect(), "elect.sync _|%p1, 0xffffffff;";
    "ex2" => by_type(None, Some(FloatOp::Exp2)), "ex2.approx.f32 %r1, %r2;";
    "exit" => exit(), "exit;";
    "fence" => memory_fence(), "fence.acq_rel.gpu;";
    "fma" => by_type(None, Some(FloatOp::Fma)), "fma.rn.f32 %r1, %r2, %r3, %r4;";
    "fns" => find_nth_bit(), "fns.b32 %r1, %r2, %r3, %r4;";
    "getctarank" => rank_of_address(), "getctarank.shared::cluster.u32 %r1, %r2;";
    "griddepcontrol" => no_effect(&["wait", "launch_dependents"]), "griddepcontrol.wait;";
    "isspacep" => isspacep(), "isspacep.global %p1, %d1;";
    "ld" => load(), "ld.global.u32 %r1, [%d1];";
    "ldmatrix" => load_rows(), "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [tile];";
    "ldu" => load(), "ldu.global.u32 %r1, [%d1];";
    "lg2" => by_type(None, Some(FloatOp::Log2)), "lg2.approx.f32 %r1, %r2;";
    "lop3" => lop3(), "lop3.b32 %r1, %r2, %r3, %r4, 0x80;";
    "mad" => by_type(Some(IntegerOp::Mad), Some(FloatOp::Mad)), "mad.lo.u32 %r1, %r2, %r3, %r4;";
    "mad24" => integer(IntegerOp::Mad24), "mad24.lo.u32 %r1, %r2, %r3, %r4;";
    "madc" => integer(IntegerOp::MadCarry), "madc.lo.u32 %r1, %r2, %r3, %r4;";
    "mapa" => map_address(), "mapa.shared::cluster.u32 %r1, %r2, %r3;";
    "match" => match_values(), "match.any.sync.b32 %r1, %r2, 0xffffffff;";
    "max" => by_type(Some(IntegerOp::Max), Some(FloatOp::Max)), "max.f32 %r1, %r2, %r3;";
    "mbarrier" => mbarrier(), "mbarrier.init.shared.b64 [tile], 1;";
    "membar" => memory_fence(), "membar.gl;";
    "min" => by_type(Some(IntegerOp::Min), Some(FloatOp::Min)), "min.s32 %r1, %r2, %r3;";
    "mma" => mma(),
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d1, %d2}, {%d3}, {%d4}, {%d1, %d2};";
    "mov" => mov(), "mov.u32 %r1, %tid.x;";
    "movmatrix" => transpose_rows(), "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;";
    "mul" => by_type(Some(IntegerOp::Mul), Some(FloatOp::Mul)), "mul.wide.u32 %d1, %r2, %r3;";
    "mul24" => integer(IntegerOp::Mul24), "mul24.lo.u32 %r1, %r2, %r3;";
    "nanosleep" => nanosleep(), "nanosleep.u32 20;";
    "neg" => by_type(Some(IntegerOp::Neg), Some(FloatOp::Neg)), "neg.s32 %r1, %r2;";
    "not" => logic(LogicOp::Not), "not.pred %p1, %p2;";
    "or" => logic(LogicOp::Or), "or.b32 %r1, %r2, %r3;";
    "pmevent" => no_effect(&["mask"]), "pmevent 1;";
    "popc" => logic(LogicOp::CountOnes), "popc.b32 %r1, %r2;";
    "prefetch" => cache_hint(), "prefetch.global.L2 [%d1];";
    "prefetchu" => cache_hint(), "prefetchu.L1 [%d1];";
    "prmt" => permute(), "prmt.b32 %r1, %r2, %r3, %r4;";
    "rcp" => by_type(None, Some(FloatOp::Reciprocal)), "rcp.rn.f32 %r1, %r2;";
    "red" => atomic(true), "red.global.add.u32 [%d1], %r2;";
    "redux" => reduce_values(), "redux.sync.add.u32 %r1, %r2, 0xffffffff;";
    "rem" => integer(IntegerOp::Rem), "rem.s32 %r1, %r2, %r3;";
    "ret" => ret(), "ret;";
    "rsqrt" => by_type(None, Some(FloatOp::ReciprocalSqrt)), "rsqrt.approx.f32 %r1, %r2;";
    "sad" => integer(IntegerOp::Sad), "sad.u32 %r1, %r2, %r3, %r4;";
    "selp" => selp(), "selp.b32 %r1, %r2, %r3, %p1;";
    "set" => set(), "set.eq.u32.s32 %r1, %r2, %r3;";
    "setmaxnreg" => no_effect(&["inc", "dec", "sync", "aligned", "u32"]),
        "setmaxnreg.dec.sync.aligned.u32 40;";
    "setp" => setp(), "setp.lt.s32 %p1, %r1, %r2;";
    "shf" => funnel_shift(), "shf.l.wrap.b32 %r1, %r2, %r3, %r4;";
    "shfl" => shuffle(), "shfl.sync.idx.b32 %r1|%p1, %r2, %r3, 31, 0xffffffff;";
    "shl" => shift(true), "shl.b32 %r1, %r2, 3;";
    "shr" => shift(false), "shr.s32 %r1, %r2, 3;";
    "sin" => by_type(None, Some(FloatOp::Sin)), "sin.approx.f32 %r1, %r2;";
    "slct" => slct(), "slct.b32.s32 %r1, %r2, %r3, %r4;";
    "sqrt" => by_type(None, Some(FloatOp::Sqrt)), "sqrt.rn.f64 %d1, %d2;";
    "st" => store(), "st.global.u32 [%d1], %r1;";
    "stmatrix" => store_rows(), "stmatrix.sync.aligned.m8n8.x1.shared.b16 [tile], {%r1};";
    "sub" => by_type(Some(IntegerOp::Sub), Some(FloatOp::Sub)), "sub.s32 %r1, %r2, %r3;";
    "subc" => integer(IntegerOp::SubCarry), "subc.u32 %r1, %r2, %r3;";
    "suld" => surface(SurfaceOp::Load), "suld.b.1d.b32.trap {%r1}, [%d1, {%r2}];";
    "suq" => object_query(true), "suq.width.b32 %r1, [%d1];";
    "sured" => surface(SurfaceOp::Reduce), "sured.b.add.1d.u32.trap [%d1, {%r2}], %r3;";
    "sust" => surface(SurfaceOp::Store), "sust.b.1d.b32.trap [%d1, {%r2}], {%r1};";
    "szext" => sign_extend(), "szext.clamp.s32 %r1, %r2, %r3;";
    "tanh" => by_type(None, Some(FloatOp::Tanh)), "tanh.approx.f32 %r1, %r2;";
    "tensormap" => tensor_map(),
        "tensormap.replace.tile.rank.shared::cta.b1024.b32 [tile], 1;";
    "testp" => testp(), "testp.finite.f32 %p1, %r1;";
    "tex" => texture(), "tex.1d.v4.f32.s32 {%r1, %r2, %r3, %r4}, [%d1, {%r5}];";
    "tld4" => gather(), "tld4.r.2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%d1, {%r5, %r6}];";
    "trap" => trap(), "trap;";
    "txq" => object_query(false), "txq.width.b32 %r1, [%d1];";
    "vabsdiff2" => differences(Parts::Two), "vabsdiff2.u32.u32.u32 %r1, %r2, %r3, %r4;";
    "vabsdiff4" => differences(Parts::Four), "vabsdiff4.u32.u32.u32.add %r1, %r2, %r3, %r4;";
    "vote" => vote(), "vote.sync.ballot.b32 %r1, %p1, 0xffffffff;";
    "wgmma" => group_matrix(),
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r1, %r2, %r3, %r4}, %d1, %d2, 1;";
    "wmma" => wmma(),
        "wmma.load.c.sync.aligned.row.m16n16k16.shared.f16 {%r1, %r2, %r3, %r4}, [tile];";
    "xor" => logic(LogicOp::Xor), "xor.b32 %r1, %r2, %r3;";
}
