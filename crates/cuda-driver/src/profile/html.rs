//! The timeline and the statistics as an HTML page that needs no server and no other file.

use super::export::{Json, List};
use super::result::{Origin, Profile};

const PAGE: &str = include_str!("page.html");
/// The place of the data in the page.
const DATA: &str = "/*DATA*/null";

/// Profiles as pages.
impl Profile {
    /// Returns a page that shows the timeline and the statistics. It needs no other file.
    #[must_use]
    pub fn html(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        let mut indices = std::collections::HashMap::new();
        let mut index_of = |name| {
            *indices.entry(name).or_insert_with(|| {
                names.push(name);
                names.len() - 1
            })
        };
        let mut slices = Vec::new();
        for row in self.rows() {
            for (operation, start, duration) in row {
                slices.push(format!(
                    "[{},{},{},{start},{duration},{},{},{}]",
                    index_of(operation.kind.name()),
                    index_of(operation.name()),
                    operation.stream,
                    // Only calls are shown as boxes of a thread.
                    match operation.origin {
                        Origin::Call => i64::from(operation.thread),
                        _ => -1,
                    },
                    operation.queued,
                    operation.call,
                ));
            }
        }
        let ranges = self.ranges.iter().enumerate().map(|(at, range)| {
            format!(
                "[{},{},{},{},{}]",
                Json(range.name()),
                range.thread,
                self.depth(at),
                range.start,
                range.end
            )
        });
        let memory = self.memory.iter();
        let data = format!(
            "{{\"device\":{},\"streams\":{},\"threads\":{},\"slices\":{},\"names\":{},\
             \"ranges\":{},\"memory\":{},\"table\":{}}}",
            Json(&self.device),
            List(self.streams.iter().map(|it| Json(it))),
            List(self.threads.iter().map(|it| Json(it))),
            List(slices.iter()),
            List(names.iter().map(|it| Json(it))),
            List(ranges),
            List(memory.map(|it| format!("[{},{}]", it.time, it.allocated))),
            List(
                self.cells()
                    .iter()
                    .map(|row| List(row.iter().map(|it| Json(it))).to_string())
            ),
        );
        PAGE.replacen(DATA, &data, 1)
    }
}
