//! A topology as a table and as pictures.

use std::fmt::{self, Write};

use super::{Connection, PciPath, Topology};

impl fmt::Display for PciPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Board => "X",
            Self::Switch => "PIX",
            Self::Switches => "PXB",
            Self::HostBridge => "PHB",
            Self::NumaNode => "NODE",
            Self::System => "SYS",
            Self::Unknown => "N/A",
        })
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nvlinks > 0 {
            f.pad(&format!("NV{}", self.nvlinks))
        } else {
            self.path.fmt(f)
        }
    }
}

/// The legend of the table, as far as `PciPath` and `Connection` print these words.
const LEGEND: &[(&str, &str)] = &[
    ("X", "the device itself"),
    ("NV#", "# NVLink links"),
    ("PIX", "one PCI Express switch"),
    ("PXB", "several PCI Express switches, no host bridge"),
    ("PHB", "a host bridge"),
    ("NODE", "host bridges of one NUMA node"),
    ("SYS", "the connection between NUMA nodes"),
    ("N/A", "unknown"),
];

/// Prints the table of `nvidia-smi topo -m`, and with `{:#}` also the legend.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:6}", "")?;
        for device in &self.devices {
            write!(f, "{:6}", format!("GPU{}", device.ordinal))?;
        }
        writeln!(f, "{:14}NUMA Affinity", "CPU Affinity")?;
        for (row, device) in self.devices.iter().enumerate() {
            write!(f, "{:6}", format!("GPU{}", device.ordinal))?;
            for column in 0..self.devices.len() {
                write!(f, "{:6}", self.at(row, column))?;
            }
            let node = device.numa_node.map(|node| node.to_string());
            let node = node.as_deref().unwrap_or("N/A");
            writeln!(f, "{:14}{node}", ranges(&device.cpus))?;
        }
        if f.alternate() {
            writeln!(f)?;
            for (word, meaning) in LEGEND {
                writeln!(f, "{word:6}{meaning}")?;
            }
        }
        Ok(())
    }
}

/// Pictures.
impl Topology {
    /// Returns the connections in the language DOT of Graphviz. Connections through the link
    /// between NUMA nodes, and unknown ones, are left out.
    #[must_use]
    pub fn to_dot(&self) -> String {
        let mut dot = String::from("graph topology {\n    node [shape=box];\n");
        for device in &self.devices {
            let name = escape_dot(&device.name);
            // Writing to a string does not fail.
            let _ = writeln!(
                dot,
                "    gpu{0} [label=\"GPU {0}\\n{name}\\n{1}\"];",
                device.ordinal, device.pci_bus_id
            );
        }
        for (from, to) in self.drawn() {
            let connection = self.at(from, to);
            let (from, to) = (self.devices[from].ordinal, self.devices[to].ordinal);
            let width = 1 + connection.nvlinks.min(8);
            let _ = writeln!(
                dot,
                "    gpu{from} -- gpu{to} [label=\"{connection}\", penwidth={width}];"
            );
        }
        dot.push_str("}\n");
        dot
    }

    /// Returns a picture of the connections: the devices are on a circle. Connections through the
    /// link between NUMA nodes, and unknown ones, are left out.
    #[must_use]
    pub fn to_svg(&self) -> String {
        const SIZE: f64 = 720.0;
        let count = self.devices.len().max(1) as f64;
        let place = |at: usize| {
            let angle = at as f64 / count * std::f64::consts::TAU - std::f64::consts::FRAC_PI_2;
            let radius = SIZE * 0.36;
            let middle = SIZE / 2.0;
            (middle + radius * angle.cos(), middle + radius * angle.sin())
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {SIZE} {SIZE}\" \
             font-family=\"sans-serif\" font-size=\"13\" text-anchor=\"middle\">\n\
             <rect width=\"{SIZE}\" height=\"{SIZE}\" fill=\"white\"/>\n"
        );
        // Labels are drawn over all lines, a third of the way, so that those of crossing lines do
        // not lie on each other.
        let mut labels = String::new();
        for (from, to) in self.drawn() {
            let connection = self.at(from, to);
            let ((x1, y1), (x2, y2)) = (place(from), place(to));
            let color = if connection.nvlinks > 0 {
                "#76b900"
            } else {
                "#888"
            };
            let width = 1 + connection.nvlinks.min(8);
            let _ = writeln!(
                svg,
                "<line x1=\"{x1:.0}\" y1=\"{y1:.0}\" x2=\"{x2:.0}\" y2=\"{y2:.0}\" \
                 stroke=\"{color}\" stroke-width=\"{width}\"/>"
            );
            let (x, y) = (x1 + (x2 - x1) / 3.0, y1 + (y2 - y1) / 3.0);
            let _ = writeln!(
                labels,
                "<text x=\"{x:.0}\" y=\"{y:.0}\" stroke=\"white\" stroke-width=\"4\" \
                 paint-order=\"stroke\">{connection}</text>"
            );
        }
        svg.push_str(&labels);
        for (at, device) in self.devices.iter().enumerate() {
            let (x, y) = place(at);
            let name = escape_xml(&device.name);
            let (left, top, text, below) = (x - 95.0, y - 24.0, y - 4.0, y + 14.0);
            // A longer name is compressed to the width of its box.
            let fit = if device.name.len() > 28 {
                " textLength=\"180\" lengthAdjust=\"spacingAndGlyphs\""
            } else {
                ""
            };
            let _ = writeln!(
                svg,
                "<rect x=\"{left:.0}\" y=\"{top:.0}\" width=\"190\" height=\"48\" rx=\"6\" \
                 fill=\"#eef6e0\" stroke=\"#444\"/>\n\
                 <text x=\"{x:.0}\" y=\"{text:.0}\" font-weight=\"bold\">GPU {}</text>\n\
                 <text x=\"{x:.0}\" y=\"{below:.0}\" font-size=\"12\"{fit}>{name}</text>",
                device.ordinal
            );
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Returns the pairs of devices whose connection is drawn.
    fn drawn(&self) -> impl Iterator<Item = (usize, usize)> {
        let count = self.devices.len();
        let pairs = (0..count).flat_map(move |from| (from + 1..count).map(move |to| (from, to)));
        pairs.filter(|(from, to)| {
            let connection = self.at(*from, *to);
            connection.nvlinks > 0 || connection.path < PciPath::System
        })
    }
}

/// Returns processors as ranges, such as `0-3,8`.
fn ranges(cpus: &[u32]) -> String {
    let mut parts = Vec::new();
    for group in cpus.chunk_by(|one, next| one.checked_add(1) == Some(*next)) {
        match group {
            [only] => parts.push(only.to_string()),
            [first, .., last] => parts.push(format!("{first}-{last}")),
            [] => {}
        }
    }
    if parts.is_empty() {
        return "N/A".to_owned();
    }
    parts.join(",")
}

fn escape_dot(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
