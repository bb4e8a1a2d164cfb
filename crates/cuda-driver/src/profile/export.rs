//! Profiles as JSON and CSV.

use std::fmt::{self, Write};

use super::result::{Origin, Profile};
use super::statistics::Summary;

/// A string as JSON. `<` is escaped too, so that the text can be part of an HTML page.
pub(super) struct Json<'a>(pub(super) &'a str);

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for char in self.0.chars() {
            match char {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '<' | '\u{0}'..='\u{1f}' | '\u{7f}' | '\u{2028}' | '\u{2029}' => {
                    write!(f, "\\u{:04x}", u32::from(char))?;
                }
                char => f.write_char(char)?,
            }
        }
        f.write_char('"')
    }
}

/// A value, or `null`.
struct OrNull<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for OrNull<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("null"),
        }
    }
}

/// A list of values, separated by commas.
pub(super) struct List<I>(pub(super) I);

impl<I: Iterator<Item = T> + Clone, T: fmt::Display> fmt::Display for List<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('[')?;
        for (index, value) in self.0.clone().enumerate() {
            if index > 0 {
                f.write_char(',')?;
            }
            value.fmt(f)?;
        }
        f.write_char(']')
    }
}

/// Profiles for other programs.
impl Profile {
    /// Returns the statistics, the operations, the ranges and the changes of memory as JSON. All
    /// times are nanoseconds.
    #[must_use]
    pub fn json(&self) -> String {
        let summaries = self.summaries();
        let operations = self.operations.iter().map(|it| {
            format!(
                "\n{{\"kind\":{},\"name\":{},\"origin\":{},\"stream\":{},\"thread\":{},\
                 \"range\":{},\"bytes\":{},\"queued\":{},\"call\":{},\"start\":{},\"duration\":{}}}",
                Json(it.kind.name()),
                Json(it.name()),
                Json(name_of(it.origin)),
                it.stream,
                it.thread,
                OrNull(it.range),
                it.bytes,
                it.queued,
                it.call,
                OrNull(it.run.map(|run| run.0)),
                OrNull(it.run.map(|run| run.1)),
            )
        });
        let ranges = self.ranges.iter().enumerate().map(|(index, it)| {
            format!(
                "\n{{\"name\":{},\"thread\":{},\"parent\":{},\"start\":{},\"duration\":{},\
                 \"device\":{}}}",
                Json(it.name()),
                it.thread,
                OrNull(it.parent),
                it.start,
                it.duration().as_nanos(),
                self.time_of_range(index).as_nanos(),
            )
        });
        let memory = self.memory.iter().map(|it| {
            format!(
                "\n{{\"time\":{},\"change\":{},\"allocated\":{}}}",
                it.time, it.change, it.allocated
            )
        });
        format!(
            "{{\"device\":{},\n\"backend\":\"{}\",\n\"streams\":{},\n\"threads\":{},\n\"summaries\":{},\n\
             \"operations\":{},\n\"ranges\":{},\n\"memory\":{}}}\n",
            Json(&self.device),
            self.backend,
            List(self.streams.iter().map(|it| Json(it))),
            List(self.threads.iter().map(|it| Json(it))),
            List(summaries.iter().map(json_of)),
            List(operations),
            List(ranges),
            List(memory),
        )
    }

    /// Returns the statistics as comma-separated values, with a header. All times are nanoseconds.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut text = String::from(
            "kind,name,count,total,mean,min,max,p95,bytes,gigabytes_per_second,occupancy,\
             registers,shared_bytes,local_bytes\n",
        );
        for it in self.summaries() {
            let number = |value: Option<u32>| value.map(|it| it.to_string()).unwrap_or_default();
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                it.kind(),
                quoted(it.name()),
                it.count(),
                it.total().as_nanos(),
                it.mean().as_nanos(),
                it.min().as_nanos(),
                it.max().as_nanos(),
                it.p95().as_nanos(),
                it.bytes(),
                it.gigabytes_per_second()
                    .map(|it| it.to_string())
                    .unwrap_or_default(),
                it.occupancy().map(|it| it.to_string()).unwrap_or_default(),
                number(it.registers()),
                number(it.shared_bytes()),
                number(it.local_bytes()),
            );
        }
        text
    }
}

fn name_of(origin: Origin) -> &'static str {
    match origin {
        Origin::Call => "call",
        Origin::GraphNode => "graph node",
        Origin::OtherCode => "other code",
    }
}

fn json_of(it: &Summary) -> String {
    format!(
        "\n{{\"kind\":{},\"name\":{},\"count\":{},\"total\":{},\"mean\":{},\"min\":{},\
         \"max\":{},\"p95\":{},\"bytes\":{},\"gigabytes_per_second\":{},\"occupancy\":{},\
         \"registers\":{},\"shared_bytes\":{},\"local_bytes\":{}}}",
        Json(it.kind().name()),
        Json(it.name()),
        it.count(),
        it.total().as_nanos(),
        it.mean().as_nanos(),
        it.min().as_nanos(),
        it.max().as_nanos(),
        it.p95().as_nanos(),
        it.bytes(),
        OrNull(it.gigabytes_per_second()),
        OrNull(it.occupancy()),
        OrNull(it.registers()),
        OrNull(it.shared_bytes()),
        OrNull(it.local_bytes()),
    )
}

/// Quotes a field of CSV if it needs that.
fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
