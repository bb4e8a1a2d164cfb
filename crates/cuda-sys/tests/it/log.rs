//! Logs of the compilers, and images with signatures.

use cuda_sys::image::{Cubin, Signature};
use cuda_sys::log::Log;

#[test]
fn a_summary_has_the_messages_only() {
    let log = Log::new(b"k.cu(2): error: no such name\n\nk.cu(9): warning #20-D: unused\n");
    assert_eq!(log.summary(), "no such name; unused");
    let other = Log::new(b"  the text of an unknown tool \n");
    assert_eq!(other.summary(), "the text of an unknown tool");
}

#[test]
fn a_snippet_is_the_line_of_the_same_file() {
    let log = Log::new(b"k.cu(2): error: no such name\n");
    let source = b"first\n  second;  \nthird";
    for (file, expected) in [("k.cu", Some("  second;")), ("other.cu", None)] {
        let mut found = log.diagnostics();
        found[0].add_snippet(file, source);
        assert_eq!(found[0].snippet.as_deref(), expected);
        assert_eq!(found[0].to_string().contains("second"), expected.is_some());
    }
    let mut found = log.diagnostics();
    found[0].add_snippet("k.cu", b"only one line");
    assert_eq!(found[0].snippet, None);
}

#[test]
fn a_cubin_keeps_its_signatures() {
    let signature = Signature {
        kernel: "k".to_owned(),
        parameters: Vec::new(),
    };
    // SAFETY: the bytes must be a complete cubin if the driver loads them, which it does not here.
    let cubin = unsafe { Cubin::from_bytes(vec![1, 2]) };
    assert_eq!(cubin.signatures(), None);
    // SAFETY: the signatures must be those of the cubin if it is launched, which it is not here.
    let cubin = unsafe { cubin.with_signatures(Some(vec![signature.clone()])) };
    assert_eq!(cubin.signatures(), Some(&[signature][..]));
    assert_eq!(cubin.as_bytes(), [1, 2]);
}
