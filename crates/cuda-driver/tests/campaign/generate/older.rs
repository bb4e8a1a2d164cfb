//! Kernels of the random tests of cuda-ptx, which have more arithmetic and control flow.

#[path = "../../../../cuda-ptx/tests/it/fuzz/access.rs"]
mod access;
#[path = "../../../../cuda-ptx/tests/it/fuzz/arithmetic.rs"]
mod arithmetic;
#[path = "../../../../cuda-ptx/tests/it/fuzz/calls.rs"]
mod calls;
#[path = "../../../../cuda-ptx/tests/it/fuzz/control.rs"]
mod control;
#[path = "../../../../cuda-ptx/tests/it/fuzz/generate.rs"]
mod generate;

use std::collections::HashSet;

use fastrand::Rng;

use super::{Hang, Kernel};

/// Writes such a kernel for a module with others: its second buffer is `z`, and its functions and
/// variables have names of their own. The constant bank is that of the module.
pub(super) fn kernel(seed: u64, rng: Rng) -> Kernel {
    let name = format!("k{seed}");
    let text = generate::kernel(rng);
    let text = text.replace(
        "(.param .u64 x, .param .u64 y, .param .u32 n",
        "(.param .u64 x, .param .u64 unused, .param .u64 y, .param .u32 n",
    );
    let is_head = |line: &&str| {
        [".version", ".target", ".address_size", ".const"]
            .iter()
            .any(|directive| line.starts_with(directive))
    };
    let lines: Vec<String> = text
        .lines()
        .filter(|line| !is_head(line))
        .map(|line| with_names(without_guard(line), &name))
        .collect();
    let text = lines.join("\n") + "\n";
    Kernel {
        seed,
        hang: if has_loop(&lines) {
            Hang::Likely
        } else {
            Hang::Never
        },
        uses_variables: text.contains("bank"),
        cluster: 0,
        text,
        name,
    }
}

/// Removes the predicate of a store to an argument of a call, which the assembler refuses.
fn without_guard(line: &str) -> &str {
    match line.split_once(' ') {
        Some((guard, rest))
            if guard.starts_with('@')
                && rest.starts_with("st.param")
                && rest.contains("[param") =>
        {
            rest
        }
        _ => line,
    }
}

/// Replaces the names that are not those of one function.
fn with_names(line: &str, kernel: &str) -> String {
    let mut result = String::new();
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_%$.".contains(letter);
    let mut rest = line;
    while !rest.is_empty() {
        let end = rest.find(|letter| !is_letter(letter)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        let is_function = matches!(word, "f0" | "f1" | "f2");
        match word {
            "k" => result += kernel,
            "tile" => result += &format!("tile_{kernel}"),
            _ if is_function => result += &format!("{word}_{kernel}"),
            _ => result += word,
        }
        let next = behind.find(is_letter).unwrap_or(behind.len());
        result += &behind[..next];
        rest = &behind[next..];
    }
    result
}

/// Returns whether a branch leads to a label before it.
fn has_loop(lines: &[String]) -> bool {
    let mut labels = HashSet::new();
    for line in lines {
        if let Some(label) = line.strip_suffix(':') {
            labels.insert(label);
        }
        let target = line
            .split_once("bra ")
            .map(|(_, target)| target.trim_end_matches(';'));
        if target.is_some_and(|target| labels.contains(target)) {
            return true;
        }
    }
    false
}
