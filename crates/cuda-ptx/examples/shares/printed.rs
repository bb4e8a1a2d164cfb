//! Printed instructions: the text parses to the same tree again.

use cuda_ptx::{Edits, Instruction, Module, Span, Statement, check_parameters, parse};

fn instructions<'m, 'a>(module: &'m Module<'a>) -> impl Iterator<Item = &'m Instruction<'a>> {
    let bodies = module
        .functions
        .iter()
        .filter_map(|function| function.body.as_ref());
    bodies.flatten().filter_map(|statement| match statement {
        Statement::Instruction(instruction) => Some(instruction),
        _ => None,
    })
}

/// The tree as text, without the positions of its parts. An instruction over several lines begins
/// on its first line when it is printed, so the lines are left out, too.
fn tree(module: &Module<'_>) -> String {
    let mut module = module.clone();
    for function in &mut module.functions {
        (function.params_span, function.body_span) = (None, None);
        for statement in function.body.iter_mut().flatten() {
            if let Statement::Instruction(instruction) = statement {
                (instruction.span, instruction.line) = (Span::default(), 0);
            }
        }
    }
    format!("{module:?}")
}

/// Prints every instruction in its place, with the same number of lines, and parses the result.
/// Returns the number of instructions.
///
/// # Errors
///
/// What is not the same, or does not parse.
pub(crate) fn check(text: &str) -> Result<usize, String> {
    let module = parse(text).map_err(|error| error.to_string())?;
    check_parameters(&module).map_err(|error| error.to_string())?;
    if Edits::new(text).apply().as_deref() != Some(text) {
        return Err(String::from("the text changes without an edit"));
    }
    let part = |span: Span| text.get(span.start..span.end).unwrap_or_default();
    let mut edits = Edits::new(text);
    for instruction in instructions(&module) {
        let old = part(instruction.span);
        let starts = [instruction.opcode, "@", ".pragma"];
        if !old.ends_with(';') || !starts.iter().any(|start| old.starts_with(start)) {
            let line = instruction.line;
            return Err(format!("line {line}: the span of {instruction} has {old}"));
        }
        let lines = "\n".repeat(old.matches('\n').count());
        edits.replace(instruction.span, format!("{instruction}{lines}"));
    }
    for function in &module.functions {
        if let (Some(body), Some(params)) = (function.body_span, function.params_span) {
            let is_in =
                |span, open, close| part(span).starts_with(open) && part(span).ends_with(close);
            if !is_in(body, '{', '}') || !is_in(params, '(', ')') {
                return Err(format!(
                    "the spans of {} lack their brackets",
                    function.name
                ));
            }
        }
    }
    let printed = edits
        .apply()
        .ok_or("the spans of two instructions overlap")?;
    let again = parse(&printed).map_err(|error| format!("the printed text: {error}"))?;
    let (before, after) = (tree(&module), tree(&again));
    if before != after {
        let same = before
            .bytes()
            .zip(after.bytes())
            .take_while(|(a, b)| a == b);
        let at = same.count();
        let end = |tree: &str| tree.bytes().skip(at.saturating_sub(80)).take(160).collect();
        let words = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        return Err(format!(
            "the printed text has another tree: {} instead of {}",
            words(end(&after)),
            words(end(&before)),
        ));
    }
    Ok(instructions(&module).count())
}
