//! The speed of kernels on the software device, on one thread and on two.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use cuda_sim::memory::Arena;
use cuda_sim::vm::{Image, LaunchParams, LaunchStats, Program, TargetInfo, launch};

const KERNELS: &str = r#"
.version 8.0
.target sm_75
.address_size 64
.visible .entry nothing() { ret; }
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 n)
{
    .reg .pred %p<2>; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %rd<11>;
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c]; ld.param.u32 %r2, [n];
    mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;
    mad.lo.s32 %r1, %r3, %r4, %r5;
    setp.ge.s32 %p1, %r1, %r2;
    @%p1 bra $end;
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
$end:
    ret;
}
// Gravity among n bodies of four floats each, in tiles of 256.
.visible .entry bodies(.param .u64 in, .param .u64 out, .param .u64 n)
{
    .reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %rd<8>;
    .reg .f32 %x, %y, %z, %w, %ax, %ay, %az, %dx, %dy, %dz, %d, %s, %qx, %qy, %qz, %qw;
    .shared .align 16 .b8 tile[4096];
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r4, %r3, 256, %r2;
    mul.wide.u32 %rd3, %r4, 16; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
    ld.global.v4.f32 {%x, %y, %z, %w}, [%rd4];
    mov.f32 %ax, 0f00000000; mov.f32 %ay, %ax; mov.f32 %az, %ax;
    shl.b32 %r5, %r2, 4; mov.u32 %r6, tile; add.u32 %r5, %r5, %r6;
    mul.wide.u32 %rd6, %r2, 16; add.u64 %rd6, %rd6, %rd1;
    mov.u32 %r7, 0;
$tiles:
    ld.global.v4.f32 {%qx, %qy, %qz, %qw}, [%rd6];
    st.shared.v4.f32 [%r5], {%qx, %qy, %qz, %qw};
    bar.sync 0;
    mov.u32 %r8, %r6; add.u32 %r9, %r6, 4096;
$inner:
    ld.shared.v4.f32 {%qx, %qy, %qz, %qw}, [%r8];
    sub.f32 %dx, %qx, %x; sub.f32 %dy, %qy, %y; sub.f32 %dz, %qz, %z;
    mul.f32 %d, %dx, %dx; fma.rn.f32 %d, %dy, %dy, %d; fma.rn.f32 %d, %dz, %dz, %d;
    add.f32 %d, %d, 0f3C23D70A;
    rsqrt.approx.f32 %s, %d;
    mul.f32 %d, %s, %s; mul.f32 %s, %s, %d; mul.f32 %s, %s, %qw;
    fma.rn.f32 %ax, %dx, %s, %ax; fma.rn.f32 %ay, %dy, %s, %ay; fma.rn.f32 %az, %dz, %s, %az;
    add.u32 %r8, %r8, 16; setp.lt.u32 %p1, %r8, %r9; @%p1 bra $inner;
    bar.sync 0;
    add.u64 %rd6, %rd6, 4096; add.u32 %r7, %r7, 256; setp.lt.u32 %p2, %r7, %r1; @%p2 bra $tiles;
    st.global.v4.f32 [%rd5], {%ax, %ay, %az, %w};
    ret;
}
"#;

struct Device {
    arena: Arena,
    image: Image,
}

impl Device {
    fn new() -> Self {
        let target = TargetInfo {
            compute_capability: (9, 0),
            max_ptx: (9, 0),
            strict: true,
            max_registers: None,
            checked: false,
        };
        let module = cuda_ptx::parse(KERNELS).expect("the kernels parse");
        let program = Program::load(&[module], &target).expect("the kernels load");
        let arena = Arena::new(256 << 20).expect("an arena");
        let image = Image::new(&Arc::new(program), &arena).expect("an image");
        Self { arena, image }
    }

    fn zeros(&self, len: usize) -> u64 {
        let addr = self.arena.alloc(len as u64, 256).expect("memory");
        self.arena
            .map()
            .fill(addr, &[0], len as u64)
            .expect("live memory");
        addr
    }

    fn run(
        &self,
        kernel: &str,
        grid: u32,
        block: u32,
        params: &[u64],
        threads: usize,
    ) -> LaunchStats {
        let params: Vec<u8> = params
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        let map = self.arena.map();
        let mut launch_params = LaunchParams::new([grid, 1, 1], [block, 1, 1], &params, &map);
        launch_params.threads = threads;
        let kernel = self.image.program().kernel(kernel).expect("the kernel");
        launch(&self.image, kernel, &launch_params).expect("a launch")
    }
}

fn kernels(c: &mut Criterion) {
    let device = Device::new();
    let mut group = c.benchmark_group("interpreter");
    group.sample_size(20);
    group.bench_function("launch of one block", |b| {
        b.iter(|| black_box(device.run("nothing", 1, 32, &[], 1)));
    });
    let n = 1 << 20;
    let vectors = [
        device.zeros(n * 4),
        device.zeros(n * 4),
        device.zeros(n * 4),
        n as u64,
    ];
    let bodies = [device.zeros(2048 * 16), device.zeros(2048 * 16), 2048];
    for threads in [1, 2] {
        let stats = device.run("add", 4096, 256, &vectors, threads);
        group.throughput(Throughput::Elements(stats.lane_instructions));
        group.bench_function(BenchmarkId::new("add of 1M floats", threads), |b| {
            b.iter(|| device.run("add", 4096, 256, &vectors, threads));
        });
        let stats = device.run("bodies", 8, 256, &bodies, threads);
        group.throughput(Throughput::Elements(stats.lane_instructions));
        group.bench_function(BenchmarkId::new("2048 bodies", threads), |b| {
            b.iter(|| device.run("bodies", 8, 256, &bodies, threads));
        });
    }
    group.finish();
}

criterion_group!(benches, kernels);
criterion_main!(benches);
