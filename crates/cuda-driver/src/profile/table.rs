//! A table of the statistics, for terminals.

use std::time::Duration;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};

use super::result::{Operation, Origin, Profile};
use super::statistics::Summary;
use crate::types::Dim3;

const HEADER: [&str; 13] = [
    "work",
    "count",
    "total",
    "share",
    "mean",
    "min",
    "max",
    "p95",
    "GB/s",
    "grid × block",
    "occupancy",
    "registers",
    "shared",
];

/// Tables.
impl Profile {
    /// Returns a table of the [statistics](Self::summaries), and below it one of the ranges.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = Table::new();
        let mut rows = self.cells().into_iter();
        table
            .load_style(UTF8_FULL_CONDENSED)
            .set_header(rows.next().unwrap_or_default());
        for row in rows {
            table.add_row(right_aligned(row));
        }
        let mut text = format!("{}, times from {}\n{table}", self.device, self.backend);
        if !self.ranges.is_empty() {
            let mut table = Table::new();
            table
                .load_style(UTF8_FULL_CONDENSED)
                .set_header(["range", "host", "device"]);
            for (index, range) in self.ranges.iter().enumerate() {
                let name = format!("{}{}", "  ".repeat(self.depth(index)), range.name());
                let times = [range.duration(), self.time_of_range(index)].map(time);
                let [host, device] = times;
                table.add_row(right_aligned(vec![name, host, device]));
            }
            text = format!("{text}\n{table}");
        }
        text
    }

    /// Returns the header and the rows of the table.
    pub(super) fn cells(&self) -> Vec<Vec<String>> {
        let summaries = self.summaries();
        let counted = self.operations.iter();
        let counted = counted.filter(|it| it.origin() != Origin::GraphNode);
        let total: Duration = counted.filter_map(Operation::duration).sum();
        let header = HEADER.map(str::to_owned).to_vec();
        let rows = summaries.iter().map(|summary| row(summary, total));
        std::iter::once(header).chain(rows).collect()
    }

    /// Returns the number of ranges around a range.
    pub(super) fn depth(&self, range: usize) -> usize {
        let parent = |index: &usize| self.ranges.get(*index).and_then(|it| it.parent());
        std::iter::successors(parent(&range), parent).count()
    }
}

/// Returns the cells of a summary.
fn row(summary: &Summary, total: Duration) -> Vec<String> {
    let share = 100.0 * summary.total().as_secs_f64() / total.as_secs_f64().max(1e-12);
    let or_empty = |text: Option<String>| text.unwrap_or_default();
    vec![
        summary.name().to_owned(),
        summary.count().to_string(),
        time(summary.total()),
        format!("{share:.1} %"),
        time(summary.mean()),
        time(summary.min()),
        time(summary.max()),
        time(summary.p95()),
        or_empty(summary.gigabytes_per_second().map(|it| format!("{it:.1}"))),
        or_empty(
            summary
                .config()
                .map(|config| format!("{} × {}", shape(config.grid), shape(config.block))),
        ),
        or_empty(summary.occupancy().map(|it| format!("{:.0} %", 100.0 * it))),
        or_empty(summary.registers().map(|it| it.to_string())),
        or_empty(summary.shared_bytes().map(|it| it.to_string())),
    ]
}

/// Aligns all cells to the right except the first.
fn right_aligned(cells: Vec<String>) -> Vec<Cell> {
    let cells = cells.into_iter().enumerate();
    let aligned = cells.map(|(index, text)| match index {
        0 => Cell::new(text),
        _ => Cell::new(text).set_alignment(CellAlignment::Right),
    });
    aligned.collect()
}

/// Formats dimensions without trailing ones.
pub(super) fn shape(dim: Dim3) -> String {
    match dim {
        Dim3 { x, y: 1, z: 1 } => format!("{x}"),
        Dim3 { x, y, z: 1 } => format!("({x}, {y})"),
        Dim3 { x, y, z } => format!("({x}, {y}, {z})"),
    }
}

/// Formats a time with three or four digits.
pub(super) fn time(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos() as f64;
    let (value, unit) = match nanoseconds {
        it if it < 1e3 => return format!("{it:.0} ns"),
        it if it < 1e6 => (it / 1e3, "µs"),
        it if it < 1e9 => (it / 1e6, "ms"),
        it => (it / 1e9, "s"),
    };
    let digits = match value {
        it if it < 10.0 => 2,
        it if it < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}
