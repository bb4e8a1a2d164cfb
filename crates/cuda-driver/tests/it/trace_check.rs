//! A checker of the trace event format that profiles are written in.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

/// The numbers of events by phase.
pub(crate) type Counts = HashMap<String, usize>;

/// Checks a trace whose events are on one line each. Returns the number of events of each phase.
///
/// Times must not decrease; the slices of a row must nest; each flow must begin in a slice, and end
/// later at the start of a slice; each row must have a name; a counter must be a number.
pub(crate) fn check(text: &str) -> Result<Counts, String> {
    let body = text
        .strip_prefix("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")
        .and_then(|text| text.strip_suffix("\n]}\n"))
        .ok_or("not an object with the list of events")?;
    let mut state = State::default();
    let mut lines = body.lines().peekable();
    while let Some(line) = lines.next() {
        let event = match lines.peek() {
            Some(_) => line
                .strip_suffix(',')
                .ok_or("no comma between two events")?,
            None => line,
        };
        let event: Value = serde_json::from_str(event).map_err(|it| format!("{it}: {line}"))?;
        state.add(&event).map_err(|it| format!("{it}: {line}"))?;
    }
    match state.flows.values().filter(|is_open| **is_open).count() {
        0 => Ok(state.counts),
        open => Err(format!("{open} flows have no end")),
    }
}

/// A row: a process and a thread.
type Row = (u64, u64);

#[derive(Default)]
struct State {
    counts: Counts,
    last: i64,
    names: HashSet<Row>,
    /// The ends of the open slices of each row, and the start of the last one.
    open: HashMap<Row, (Vec<i64>, i64)>,
    /// Whether each flow has begun and not ended.
    flows: HashMap<u64, bool>,
}

impl State {
    fn add(&mut self, event: &Value) -> Result<(), String> {
        let phase = event["ph"].as_str().ok_or("no phase")?;
        *self.counts.entry(phase.to_owned()).or_default() += 1;
        let number = |key: &str| event[key].as_u64().ok_or(format!("{key} is not a number"));
        let row = (number("pid")?, number("tid")?);
        let nanoseconds = |key: &str| -> Result<i64, String> {
            let micros = event[key].as_f64().ok_or(format!("{key} is not a time"))?;
            Ok((micros * 1000.0).round() as i64)
        };
        let time = nanoseconds("ts")?;
        event["name"].as_str().ok_or("no name")?;
        if phase == "M" {
            event["args"]["name"].as_str().ok_or("no name in args")?;
            if event["name"] == "thread_name" {
                self.names.insert(row);
            }
            return Ok(());
        }
        if time < self.last {
            return Err(format!(
                "{time} ns is before the event above, {} ns",
                self.last
            ));
        }
        self.last = time;
        let (open, start) = self.open.entry(row).or_default();
        if phase != "C" && !self.names.contains(&row) {
            return Err("the row has no name".to_owned());
        }
        match phase {
            "X" => {
                let end = time + nanoseconds("dur")?;
                while open.last().is_some_and(|last| *last <= time) {
                    open.pop();
                }
                if let Some(outer) = open.last().filter(|outer| **outer < end) {
                    return Err(format!(
                        "ends at {end} ns, after the outer slice, {outer} ns"
                    ));
                }
                open.push(end);
                *start = time;
            }
            "s" | "f" => {
                let is_in_slice = *start == time || open.iter().any(|end| *end >= time);
                if !is_in_slice {
                    return Err("the flow is in no slice".to_owned());
                }
                let id = number("id")?;
                let before = self.flows.insert(id, phase == "s");
                match (phase, before) {
                    ("s", None) | ("f", Some(true)) => {}
                    ("s", Some(_)) => return Err(format!("flow {id} begins twice")),
                    _ => return Err(format!("flow {id} ends before it begins, or twice")),
                }
                if phase == "f" && (event["bp"] != "e" || *start != time) {
                    return Err("the flow does not end at the start of a slice".to_owned());
                }
            }
            "C" => {
                let args = event["args"].as_object().ok_or("no args")?;
                if args.is_empty() || !args.values().all(Value::is_number) {
                    return Err("the counter is not a number".to_owned());
                }
            }
            other => return Err(format!("unknown phase {other}")),
        }
        Ok(())
    }
}
