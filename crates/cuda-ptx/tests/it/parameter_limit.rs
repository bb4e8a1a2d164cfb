//! The parameters of a checked copy fit, or the copy is refused before the assembler gets it.

use cuda_ptx::analysis::{Analysis, Root};
use cuda_ptx::instrument::{Check, instrument};

/// Makes the checked copy of a kernel with a pointer and `bytes` more bytes of parameters.
fn copy(header: &str, bytes: u32) -> Result<String, String> {
    let text = format!(
        "{header}
.address_size 64
.visible .entry k(.param .u64 x, .param .align 4 .b8 big[{bytes}]) {{
    .reg .b64 %d<3>; .reg .b32 %r<3>;
    ld.param.u64 %d1, [x];
    ld.param.u32 %r1, [big];
    cvt.u64.u32 %d2, %r1;
    add.u64 %d1, %d1, %d2;
    st.global.u32 [%d1], %r1;
    ret;
}}
"
    );
    let module = cuda_ptx::parse(&text).unwrap();
    let analysis = Analysis::of(&module, &module.functions[0]);
    let x = Root::Buffer {
        parameter: 0,
        offset: 0,
    };
    let check = Check {
        access: 0,
        root: Some(x.clone()),
        is_aligned: false,
    };
    let function = &module.functions[0];
    let copy = instrument(&text, &module, function, &analysis, &[check], &[Some(x)]);
    copy.map(|copy| copy.text)
        .map_err(|refusal| refusal.to_string())
}

const OLD: &str = ".version 8.0\n.target sm_80";
const NEW: &str = ".version 8.1\n.target sm_80";

/// The largest `bytes` that have room: the copy has three more parameters of 8 bytes.
fn largest(limit: u32) -> u32 {
    (limit - 24) / 8 * 8 - 8
}

#[test]
fn a_copy_with_too_many_parameter_bytes_names_the_limit() {
    for (header, limit) in [(OLD, 4352), (NEW, 32_764)] {
        assert!(copy(header, largest(limit)).is_ok());
        let error = copy(header, largest(limit) + 4).unwrap_err();
        let own = format!("{} of its own, and 24 for", 8 + largest(limit) + 4);
        let (allowed, name) = (format!("the limit is {limit} bytes"), "k: PTX line 4");
        for part in [own.as_str(), &allowed, name, "pass a pointer to a buffer"] {
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(error.contains("PTX 8.1 or newer"), header == OLD, "{error}");
    }
}

/// The limits are those of the assembler.
#[test]
fn assembler_accepts_the_largest_copy() {
    let Some(assembler) = test_assembler::newest() else {
        return;
    };
    for (header, limit) in [(OLD, 4352), (NEW, 32_764)] {
        let text = copy(header, largest(limit)).unwrap();
        // One parameter more than the copy has room for.
        let more = text.replacen(".entry k(", ".entry k(.param .u64 more, ", 1);
        for (text, is_accepted) in [(&text, true), (&more, false)] {
            let result = assembler.assemble(text, "sm_80", &[]);
            assert_eq!(result.is_ok(), is_accepted, "{limit}: {text}");
        }
    }
}
