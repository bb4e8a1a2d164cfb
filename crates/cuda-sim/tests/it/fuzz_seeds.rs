//! The seeds of the fuzz targets that were written by hand: kernels with features that the output
//! of NVRTC hardly has.

use std::path::Path;
use std::{fs, ptr};

use cuda_sim::Builder;

use crate::support::{ok, test_device};

/// A seed reaches the code behind the parser only if it loads.
#[test]
fn written_fuzz_seeds_load_without_anything_unimplemented() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/written");
    let mut seeds = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let major = if text.contains("sm_100a") { 10 } else { 9 };
        let builder = Builder::new().compute_capability(major, 0).strict_ptx(true);
        let sim = test_device(builder);
        let module = sim.load(&text);
        let mut function = ptr::null_mut();
        unsafe { ok(sim.cuModuleEnumerateFunctions(&raw mut function, 1, module)) };
        assert!(!function.is_null(), "{}: no kernel", path.display());
        seeds += 1;
    }
    assert!(seeds >= 7, "{seeds}");
}
