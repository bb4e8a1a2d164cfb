//! The places of programs in a bundle.

use super::{place, read};

#[test]
fn programs_are_placed_by_kind() {
    let messages = r#"
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"dep"},"filenames":["/t/libdep.rlib"],"executable":null}
{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"cuda_sys"},"profile":{"test":true},"executable":"/t/cuda_sys-1"}
{"reason":"compiler-artifact","target":{"kind":["test"],"name":"it"},"profile":{"test":true},"executable":"/t/it-2"}
{"reason":"compiler-artifact","target":{"kind":["example"],"name":"saxpy"},"executable":"/t/saxpy"}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"x"},"profile":{"test":false},"executable":"/t/x"}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"x"},"profile":{"test":true},"executable":"/t/x-3"}
{"reason":"compiler-artifact","target":{"kind":["cdylib"],"name":"cuda_null_driver"},"filenames":["/t/libcuda_null_driver.so"],"executable":null}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"peers"},"executable":"/t/peers"}
{"reason":"build-finished","success":true}
"#;
    let found: Vec<_> = read(messages).iter().filter_map(place).collect();
    let expected = [
        ("tests", "unit-lib"),
        ("tests", "it"),
        ("examples", "saxpy"),
        ("tests", "unit-bin"),
        ("lib", "libcuda_null_driver.so"),
        ("benches", "peers"),
    ];
    assert_eq!(
        found,
        expected.map(|(folder, name)| (folder, name.to_owned()))
    );
}
