//! The cost of a hit of the disk cache: source text to image, without a GPU.

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use cuda_nvrtc::{Arch, Cache, Cubin, CudaHeaders, Nvrtc, Options, Program};

fn hits(criterion: &mut Criterion) {
    let nvrtc = match Nvrtc::load() {
        Ok(nvrtc) => nvrtc,
        Err(error) => {
            println!("skipped: {error}");
            return;
        }
    };
    let arch = nvrtc.supported_archs().unwrap().last().unwrap().to_real();
    let mut group = criterion.benchmark_group("cache_hit");
    for (name, program, options) in cases(&nvrtc, arch) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path().join("cache"));
        let first = cache.compile::<Cubin>(&program, &options).unwrap();
        let again = cache.compile::<Cubin>(&program, &options).unwrap();
        if !again.is_hit() {
            println!("{name}: never a hit, {:?}", first.outcome);
            continue;
        }
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let cached = cache.compile::<Cubin>(black_box(&program), &options);
                assert!(cached.unwrap().is_hit());
            });
        });
    }
    group.finish();
}

fn cases(nvrtc: &Nvrtc, arch: Arch) -> Vec<(&'static str, Program, Options)> {
    let options = Options::new().arch(arch);
    let small = "extern \"C\" __global__ void k(float *x) { x[threadIdx.x] *= 2.0f; }";
    let mut large = String::new();
    while large.len() < 100 << 10 {
        writeln!(
            large,
            "// {}: a line of a source that is 100 KiB long",
            large.len()
        )
        .unwrap();
    }
    large += small;
    let mut cases = vec![
        ("small", Program::new(nvrtc, small), options.clone()),
        (
            "source_100_KiB",
            Program::new(nvrtc, large),
            options.clone(),
        ),
    ];
    let Ok(headers) = CudaHeaders::find(nvrtc) else {
        println!("skipped those with CUDA's headers: there are none");
        return cases;
    };
    let options = options.cuda_headers(&headers);
    for (name, include) in [
        ("cuda_fp16", "cuda_fp16.h"),
        ("cooperative_groups", "cooperative_groups.h"),
        ("cuda_std_complex", "cuda/std/complex"),
        ("cub_block_reduce", "cub/block/block_reduce.cuh"),
    ] {
        let source = format!("#include <{include}>\n{small}");
        cases.push((name, Program::new(nvrtc, source), options.clone()));
    }
    cases
}

criterion_group!(benches, hits);
criterion_main!(benches);
