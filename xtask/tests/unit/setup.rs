//! The pinned packages of `cargo xtask setup`, and the places of their files.

use super::*;

#[test]
fn files_are_installed_in_their_folders() {
    let placed = |inside: &str, set| {
        let place = place(Path::new(inside), set)?;
        Some(place.to_string_lossy().replace('\\', "/"))
    };
    for (inside, to) in [
        ("nvidia/cu13/include/crt/mma.h", "include/crt/mma.h"),
        (
            "nvidia/cu13/include/cccl/cuda/std/array",
            "include/cuda/std/array",
        ),
        ("nvidia/cu13/lib/libnvrtc.so.13", "lib/libnvrtc.so.13"),
        (
            "nvidia/cu13/lib/libnvrtc-builtins.so.13.5",
            "lib/libnvrtc-builtins.so.13.5",
        ),
        (
            "nvidia/cu13/bin/x86_64/nvrtc64_130_0.dll",
            "lib/nvrtc64_130_0.dll",
        ),
        ("clang/native/libclang.so", "lib/libclang.so"),
    ] {
        assert_eq!(placed(inside, "toolkit").as_deref(), Some(to));
    }
    for other in [
        "lib/libnvrtc.alt.so.13",
        "lib/libcudart.so.13",
        "x/License.txt",
    ] {
        assert_eq!(placed(other, "toolkit"), None, "{other}");
    }
    let program = format!("nvidia/cu13/bin/{}", ASSEMBLERS[0]);
    assert_eq!(
        placed(&program, "assembler-13.5").as_deref(),
        Some(ASSEMBLERS[0])
    );
    assert_eq!(
        placed("nvidia/cu13/bin/nvlink", "assembler-13.5"),
        None,
        "the assembler only"
    );
    assert_eq!(placed(MDBOOK, "mdbook-0.5.4").as_deref(), Some(MDBOOK));
    let header = placed("nvidia/cuda_runtime/include/cuda.h", "headers-12.9");
    assert_eq!(header.as_deref(), Some("cuda.h"));
    assert_eq!(
        placed("nvidia/cuda_runtime/include/cuda_fp16.h", "headers-12.9"),
        None
    );
    let header = placed("nvidia/cu13/include/cupti.h", "cupti-13.5");
    assert_eq!(header.as_deref(), Some("cupti.h"));
    for other in [
        "nvidia/cu13/include/Openmp/omp-tools.h",
        "nvidia/cu13/lib/libcupti.so.13",
    ] {
        assert_eq!(placed(other, "cupti-13.5"), None, "{other}");
    }
}

#[test]
fn each_wheel_is_pinned_by_its_hashes() {
    let files = files_below(&requirements(&Workspace::locate().unwrap()), &["txt"]).unwrap();
    assert_eq!(files.len(), 30);
    for text in files.iter().map(|file| fs::read_to_string(file).unwrap()) {
        let text = text.replace("\\\n", "");
        for wheel in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, hashes) = wheel.split_once(' ').unwrap();
            assert!(name.contains("=="), "{wheel}");
            let hashes = hashes.split_whitespace();
            let hashes = hashes.map(|it| it.strip_prefix("--hash=sha256:").unwrap());
            assert!(hashes.clone().all(|it| it.len() == 64), "{wheel}");
            assert!(hashes.count() <= 4, "{wheel}");
        }
    }
}
