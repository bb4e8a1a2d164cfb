//! Edits of PTX text by the spans of its syntax tree.

use super::ast::Span;

/// A list of edits of one text. Everything that no edit names keeps its bytes, comments and
/// directives included.
///
/// ```
/// let text = ".version 8.0\n.target sm_80\n.entry k() { // comment\n  bar.sync 0;\n  ret; }";
/// let module = cuda_ptx::parse(text)?;
/// let Some(cuda_ptx::Statement::Instruction(barrier)) = module.functions[0].body.as_ref()
///     .and_then(|body| body.first()) else { unreachable!() };
/// let mut edits = cuda_ptx::Edits::new(text);
/// edits.insert(barrier.span.start, "membar.cta; ");
/// edits.replace(barrier.span, "bar.sync 1;");
/// let edited = edits.apply().expect("the edits do not overlap");
/// assert!(edited.ends_with("// comment\n  membar.cta; bar.sync 1;\n  ret; }"));
/// # Ok::<(), cuda_ptx::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Edits<'a> {
    text: &'a str,
    edits: Vec<(Span, String)>,
}

impl<'a> Edits<'a> {
    /// Begins a list of edits of `text`.
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            edits: Vec::new(),
        }
    }

    /// The text of a span before the edits.
    pub(crate) fn text(&self, span: Span) -> &'a str {
        self.text.get(span.start..span.end).unwrap_or_default()
    }

    /// Inserts `text` before the byte at `at`.
    pub fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace(Span { start: at, end: at }, text);
    }

    /// Replaces the text of `span` by `text`.
    pub fn replace(&mut self, span: Span, text: impl Into<String>) {
        self.edits.push((span, text.into()));
    }

    /// Returns the edited text, or `None` if two edits overlap, or if one lies outside of the text
    /// or cuts a character.
    ///
    /// Edits at the same position apply in the order in which they were added, insertions before
    /// the replacement.
    pub fn apply(&self) -> Option<String> {
        let mut sorted: Vec<_> = self.edits.iter().collect();
        sorted.sort_by_key(|(span, _)| *span);
        let mut edited = String::with_capacity(self.text.len());
        let mut done = 0;
        for (span, text) in sorted {
            // The range is invalid if the edit begins before the end of the previous one.
            edited.push_str(self.text.get(done..span.start)?);
            edited.push_str(text);
            self.text.get(span.start..span.end)?;
            done = span.end;
        }
        edited.push_str(self.text.get(done..)?);
        Some(edited)
    }
}
