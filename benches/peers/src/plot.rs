//! Plots the rows of the table.

use std::fmt::Write as _;

use crate::bench::Row;

const BAR: usize = 18;
const LEFT: f64 = 250.0;
const WIDTH: f64 = 620.0;

/// An SVG with a bar for each row of 12 arguments: the additional nanoseconds over the raw call, on
/// a scale of powers of ten.
pub(crate) fn svg(title: &str, rows: &[Row]) -> String {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.count == 12).collect();
    let most = rows
        .iter()
        .map(|row| row.pairs.difference().high)
        .fold(10.0, f64::max);
    let decades = most.log10().ceil();
    let x = |nanoseconds: f64| LEFT + nanoseconds.max(1.0).log10() / decades * WIDTH;
    let height = 60 + rows.len() * BAR + 30;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"14\">{title}</text>\n",
        LEFT + WIDTH + 60.0
    );
    for decade in 0..=decades as u32 {
        let value = 10_f64.powi(decade as i32);
        let at = x(value);
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" y1=\"30\" x2=\"{at:.1}\" y2=\"{}\" stroke=\"#ccc\"/>\n\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{value} ns</text>",
            height - 30,
            height - 12
        );
    }
    for (index, row) in rows.iter().enumerate() {
        let more = row.pairs.difference();
        let y = 36 + index * BAR;
        let fill = if row.form.starts_with("cuda-driver") {
            "#2a7"
        } else {
            "#79b"
        };
        let end = x(more.median);
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"end\">{}, {}</text>\n\
             <rect x=\"{LEFT:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"{}\" fill=\"{fill}\"/>\n\
             <text x=\"{:.1}\" y=\"{}\">{:.1}</text>",
            LEFT - 6.0,
            y + 12,
            row.form,
            row.situation,
            (end - LEFT).max(1.0),
            BAR - 4,
            end.max(LEFT) + 4.0,
            y + 12,
            more.median,
        );
    }
    svg.push_str("</svg>\n");
    svg
}
