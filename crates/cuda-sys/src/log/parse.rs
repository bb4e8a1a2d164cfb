//! A parser for logs in the formats of NVRTC, the driver and nvJitLink 12.0 to 13.5. A log in
//! another format has no diagnostics; its text remains available as a whole.

use super::{Diagnostic, Severity};

/// The words before the colon. A longer word comes before its own prefixes (`fatal error` before
/// `fatal`).
const SEVERITIES: [(&str, Severity); 9] = [
    ("catastrophic error", Severity::Fatal),
    ("internal error", Severity::Fatal),
    ("fatal error", Severity::Fatal),
    ("fatal", Severity::Fatal),
    ("error", Severity::Error),
    ("warning", Severity::Warning),
    ("remark", Severity::Remark),
    ("info", Severity::Remark),
    ("note", Severity::Note),
];

pub(super) fn diagnostics(log: &str) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    let mut open = false;
    for line in log.lines() {
        if let Some(diagnostic) = head(line) {
            found.push(diagnostic);
            open = true;
        } else if line.trim().is_empty() || is_trailer(line) {
            open = false;
        } else if let Some(last) = found.last_mut().filter(|_| open) {
            extend(last, line);
        }
    }
    for diagnostic in &mut found {
        point(diagnostic);
    }
    found
}

/// Parses the first line of a diagnostic.
fn head(line: &str) -> Option<Diagnostic> {
    in_file(line)
        .or_else(|| of_tool("ptxas", line.trim_start()))
        .or_else(|| of_tool("nvlink", line.trim_start()))
        .or_else(|| {
            let rest = line.strip_prefix("nvrtc: ")?;
            Some(diagnostic(line, Some("nvrtc"), None, severity(rest)?))
        })
        .or_else(|| Some(diagnostic(line, None, None, severity(line)?)))
}

/// Parses `name(12): error: text`. The name may contain parentheses.
fn in_file(line: &str) -> Option<Diagnostic> {
    line.match_indices('(').find_map(|(open, _)| {
        let (number, rest) = line[open + 1..].split_once("): ")?;
        if open == 0 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number = number.parse().ok()?;
        Some(diagnostic(
            line,
            Some(&line[..open]),
            Some(number),
            severity(rest)?,
        ))
    })
}

/// Parses `ptxas fatal   : text`, or `ptxas application ptx input, line 12; error   : text`, whose
/// line is a line of the PTX.
fn of_tool(tool: &str, line: &str) -> Option<Diagnostic> {
    let rest = line.strip_prefix(tool)?.strip_prefix(' ')?;
    match rest.split_once("; ") {
        Some((place, rest)) if place.contains(", line ") => {
            let number = place.rsplit_once(", line ")?.1.trim().parse().ok();
            Some(diagnostic(line, Some(tool), number, severity(rest)?))
        }
        _ => Some(diagnostic(line, Some(tool), None, severity(rest)?)),
    }
}

/// Parses severity, number and message of `warning #177-D: text`.
fn severity(text: &str) -> Option<(Severity, Option<u32>, &str)> {
    let (word, severity) = SEVERITIES.iter().find(|(word, _)| text.starts_with(word))?;
    let (between, message) = text[word.len()..].split_once(':')?;
    let between = between.trim();
    let number = match between.strip_prefix('#') {
        Some(number) => Some(number.trim_end_matches("-D").parse().ok()?),
        None if between.is_empty() => None,
        None => return None,
    };
    Some((*severity, number, message.trim()))
}

fn diagnostic(
    line: &str,
    file: Option<&str>,
    number_of_line: Option<u32>,
    (severity, number, message): (Severity, Option<u32>, &str),
) -> Diagnostic {
    Diagnostic {
        severity,
        file: file.map(str::to_owned),
        line: number_of_line,
        column: None,
        number,
        message: message.to_owned(),
        snippet: None,
        notes: Vec::new(),
        text: line.to_owned(),
    }
}

/// Returns whether a line closes a log or explains how to suppress warnings.
fn is_trailer(line: &str) -> bool {
    line.starts_with("Remark: The warnings can be suppressed")
        || line.starts_with("Compilation terminated")
        || line.contains(" detected in the compilation of ")
}

fn extend(diagnostic: &mut Diagnostic, line: &str) {
    diagnostic.text.push('\n');
    diagnostic.text.push_str(line);
    diagnostic.notes.push(line.to_owned());
}

/// Moves the source line and the caret below it from the notes to `snippet` and `column`, if the
/// notes begin with them.
fn point(diagnostic: &mut Diagnostic) {
    if let [source, caret, ..] = diagnostic.notes.as_slice()
        && caret.trim() == "^"
        && let (Some(source), Some(at)) = (source.strip_prefix("  "), caret.find('^'))
    {
        // The compiler counts bytes; both lines are indented by two.
        let before = at
            .checked_sub(2)
            .and_then(|bytes| source.get(..bytes))
            .map(|before| before.chars().count() + 1);
        diagnostic.column = before.and_then(|column| u32::try_from(column).ok());
        diagnostic.snippet = Some(source.to_owned());
        diagnostic.notes.drain(..2);
    }
    for note in &mut diagnostic.notes {
        *note = note.trim().to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::diagnostics;
    use crate::log::Severity;

    #[test]
    fn a_diagnostic_with_its_source_and_notes() {
        let log = "a (1).cu(6): error: expression must have class type but it has type \"int\"\n  \
                   \treturn a.x;\n  \t       ^\n          detected during instantiation at line 7\n\n\
                   1 error detected in the compilation of \"a (1).cu\".\n";
        let found = diagnostics(log);
        assert_eq!(found.len(), 1);
        let error = &found[0];
        assert_eq!(error.severity, Severity::Error);
        assert_eq!(error.file.as_deref(), Some("a (1).cu"));
        assert_eq!((error.line, error.column), (Some(6), Some(9)));
        assert_eq!(error.snippet.as_deref(), Some("\treturn a.x;"));
        assert_eq!(error.notes, ["detected during instantiation at line 7"]);
        assert_eq!(error.to_string().lines().count(), 4);
        assert!(log.starts_with(&error.to_string()));
    }

    #[test]
    fn numbers_and_no_source_line() {
        let found = diagnostics(
            "k.cu(2): warning #177-D: variable \"u\": never referenced\n\nRemark: The warnings can be \
             suppressed with \"-diag-suppress <warning-number>\"\n\nk.cu(9): error #20: no\n",
        );
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].severity, Severity::Warning);
        assert_eq!(found[0].number, Some(177));
        assert_eq!(found[0].message, "variable \"u\": never referenced");
        assert_eq!((found[1].line, found[1].number), (Some(9), Some(20)));
    }

    #[test]
    fn messages_of_other_tools_are_parsed() {
        let found = diagnostics(
            "ptxas info    : Used 10 registers\n ptxas error   : too much shared data\nptxas application ptx \
             input, line 65; error   : Unknown modifier '.op'\nptxas fatal   : Ptx assembly aborted due to \
             errors\nnvrtc: error: unrecognized option --foo found\nnvlink error   : Undefined reference to 'f' in \
             'k'\nerror   : Undefined reference to 'g' in 'k'\n",
        );
        let seen: Vec<_> = found
            .iter()
            .map(|d| (d.file.as_deref(), d.severity, d.line))
            .collect();
        assert_eq!(
            seen,
            [
                (Some("ptxas"), Severity::Remark, None),
                (Some("ptxas"), Severity::Error, None),
                (Some("ptxas"), Severity::Error, Some(65)),
                (Some("ptxas"), Severity::Fatal, None),
                (Some("nvrtc"), Severity::Error, None),
                (Some("nvlink"), Severity::Error, None),
                (None, Severity::Error, None),
            ]
        );
    }

    #[test]
    fn bytes_before_the_caret_are_not_characters() {
        let found = diagnostics("k.cu(3): error: no\n  \"ä\" + bar\n         ^\n");
        // `bar` is preceded by seven bytes, which are six characters.
        assert_eq!(found[0].column, Some(7));
    }

    #[test]
    fn other_lines_are_not_diagnostics() {
        for log in [
            "",
            "\n\n",
            "(3): ",
            "x(): error: y",
            "x(99999999999): error: y",
            "errors: none",
        ] {
            assert!(diagnostics(log).is_empty(), "{log:?}");
        }
    }
}
