//! Launches for tests.

use cuda_ptx::analysis::{Analysis, Argument, Buffer, LaunchValues, Outcome, Reason, Verdict};

/// A buffer that the kernel may write.
pub(crate) fn output(bytes: u64) -> Argument {
    buffer(bytes, true)
}

/// A buffer that the kernel may only read.
pub(crate) fn input(bytes: u64) -> Argument {
    buffer(bytes, false)
}

fn buffer(bytes: u64, is_writable: bool) -> Argument {
    Argument::buffer(Buffer {
        bytes,
        align: 256,
        is_writable,
    })
}

pub(crate) fn int(value: i32) -> Argument {
    Argument::scalar(value.to_le_bytes())
}

pub(crate) fn launch(
    grid: [u32; 3],
    block: [u32; 3],
    arguments: impl IntoIterator<Item = Argument>,
) -> LaunchValues {
    LaunchValues {
        cluster: None,
        grid,
        block,
        dynamic_shared: 0,
        arguments: arguments.into_iter().collect(),
    }
}

/// Analyses the kernel `name` of `text`.
pub(crate) fn analysis(text: &str, name: &str) -> Analysis {
    let module = cuda_ptx::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let function = module
        .functions
        .iter()
        .find(|function| function.name == name);
    Analysis::of(
        &module,
        function.unwrap_or_else(|| panic!("no kernel {name}")),
    )
}

/// The reasons of the accesses that are not proven.
pub(crate) fn reasons(verdict: &Verdict) -> Vec<Reason> {
    let accesses = &verdict.contract().expect("not refused").accesses;
    let reasons = accesses.iter().filter_map(|access| match &access.outcome {
        Outcome::Checked { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    reasons.collect()
}
