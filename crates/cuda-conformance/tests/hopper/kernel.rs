//! Generates the PTX of a kernel with one `wgmma`.

use std::fmt::Write;

use crate::case::Case;
use crate::types::Ty;

/// Generates a kernel of 128 threads for `case`. It copies an image of `bytes` bytes to shared
/// memory, and loads and stores the registers of each thread.
pub(crate) fn text(case: &Case, bytes: usize) -> String {
    let sums = case.sum_registers();
    let list = |name: &str, count: usize| {
        let names: Vec<String> = (0..count).map(|i| format!("%{name}{i}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    let mut body = String::new();
    for i in 0..sums {
        writeln!(body, "ld.global.b32 %d{i}, [%c+{}];", 4 * i).unwrap();
    }
    for i in 0..4 {
        writeln!(body, "ld.global.b32 %a{i}, [%regs+{}];", 4 * i).unwrap();
    }
    let a = if case.a_in_registers {
        list("a", 4)
    } else {
        "%da".to_owned()
    };
    let sparse = if case.sparse {
        format!(", %m, {}", case.selector)
    } else {
        String::new()
    };
    let mut immediates = String::new();
    if case.a.is_float() {
        let [a, b] = case.scales;
        write!(immediates, ", {a}, {b}").unwrap();
    }
    if case.a.has_transposes() {
        if !case.a_in_registers {
            write!(immediates, ", {}", u8::from(case.a_layout.transposed)).unwrap();
        }
        write!(immediates, ", {}", u8::from(case.b_layout.transposed)).unwrap();
    }
    let sp = if case.sparse { ".sp" } else { "" };
    let saturates = if case.saturates { ".satfinite" } else { "" };
    let bits = if case.a == Ty::B1 { ".and.popc" } else { "" };
    let shape = format!("m64n{}k{}", case.n, case.a.shape_depth(case.sparse));
    let (d_ty, a_ty, b_ty) = (case.d.name(), case.a.name(), case.b.name());
    writeln!(
        body,
        "wgmma.fence.sync.aligned;
wgmma.mma_async{sp}.sync.aligned.{shape}{saturates}.{d_ty}.{a_ty}.{b_ty}{bits} \
         {}, {a}, %db{sparse}, %adds{immediates};
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;",
        list("d", sums),
    )
    .unwrap();
    for i in 0..sums {
        writeln!(body, "st.global.b32 [%out+{}], %d{i};", 4 * i).unwrap();
    }
    let loops = bytes.div_ceil(16 * 128);
    format!(
        "
.version 8.4
.target sm_90a
.address_size 64
.visible .entry product(.param .u64 image, .param .u64 c, .param .u64 regs, .param .u64 meta,
    .param .u64 out, .param .u64 desc_a, .param .u64 desc_b, .param .u64 adds) {{
.reg .pred %adds, %more;
.reg .b64 %from, %c, %regs, %meta, %out, %da, %db, %at, %base, %n;
.reg .b32 %t, %s, %k, %m, %x, %y, %z, %w, %a<4>, %d<{sums}>;
.shared .align 1024 .b8 tile[{size}];
ld.param.b64 %from, [image];
ld.param.b64 %c, [c];
ld.param.b64 %regs, [regs];
ld.param.b64 %meta, [meta];
ld.param.b64 %out, [out];
ld.param.b64 %da, [desc_a];
ld.param.b64 %db, [desc_b];
ld.param.b64 %n, [adds];
setp.ne.b64 %adds, %n, 0;
mov.u32 %t, %tid.x;
mov.u32 %s, tile;
shr.u32 %x, %s, 4;
cvt.u64.u32 %base, %x;
add.s64 %da, %da, %base;
add.s64 %db, %db, %base;
mul.wide.u32 %at, %t, 16;
add.s64 %from, %from, %at;
add.s64 %regs, %regs, %at;
mad.lo.u32 %s, %t, 16, %s;
mul.wide.u32 %at, %t, {row};
add.s64 %c, %c, %at;
add.s64 %out, %out, %at;
mul.wide.u32 %at, %t, 4;
add.s64 %meta, %meta, %at;
ld.global.b32 %m, [%meta];
mov.u32 %k, 0;
again:
ld.global.v4.b32 {{%x, %y, %z, %w}}, [%from];
st.shared.v4.b32 [%s], {{%x, %y, %z, %w}};
add.s64 %from, %from, 2048;
add.u32 %s, %s, 2048;
add.u32 %k, %k, 1;
setp.lt.u32 %more, %k, {loops};
@%more bra again;
fence.proxy.async;
bar.sync 0;
{body}ret;
}}
",
        size = loops * 2048,
        row = 4 * sums,
    )
}
