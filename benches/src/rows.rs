//! Benchmarks of Criterion whose rows always have a name.

use std::env;
use std::fmt;

use criterion::measurement::WallTime;
use criterion::{Bencher, Criterion};

/// The benchmarks of one driver.
///
/// Criterion prints the name of a benchmark in front of its time only if the name has at most 23
/// characters, and not at all in quick mode with the format for other programs (`--quick
/// --output-format bencher`). So names are short, and this type prints them in quick mode.
pub struct Rows<'a> {
    criterion: &'a mut Criterion,
    driver: &'a str,
}

impl<'a> Rows<'a> {
    /// Creates the benchmarks of the driver that is called `driver` in the names.
    #[must_use]
    pub fn new(criterion: &'a mut Criterion, driver: &'a str) -> Self {
        Self { criterion, driver }
    }

    /// Measures `run`. The row is called `driver/name`.
    pub fn bench_function(&mut self, name: &str, mut run: impl FnMut(&mut Bencher<'_, WallTime>)) {
        let name = format!("{}/{name}", self.driver);
        debug_assert!(name.len() <= 23, "{name} is printed on a line of its own");
        // Printed when the benchmark runs for the first time: a filter can leave it out.
        let mut label = has_no_name(env::args()).then(|| format!("test {name} ... "));
        self.criterion.bench_function(&name, |bencher| {
            if let Some(label) = label.take() {
                print!("{label}");
            }
            run(bencher);
        });
    }
}

impl fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rows").field(&self.driver).finish()
    }
}

/// Returns whether Criterion prints times without names if a bench has these arguments.
fn has_no_name(arguments: impl Iterator<Item = String>) -> bool {
    let arguments: Vec<String> = arguments.collect();
    let is_quick = arguments.iter().any(|argument| argument == "--quick");
    let is_bencher = arguments.iter().any(|argument| argument == "bencher");
    let is_joined = arguments.iter().any(|it| it == "--output-format=bencher");
    is_quick && (is_bencher || is_joined)
}

#[cfg(test)]
mod tests {
    use super::has_no_name;

    #[test]
    fn only_the_quick_mode_of_the_bencher_format_lacks_names() {
        let lacks = |text: &str| has_no_name(text.split(' ').map(str::to_owned));
        assert!(lacks(
            "caching_pool --bench --quick --output-format bencher"
        ));
        assert!(lacks(
            "caching_pool --bench --output-format=bencher --quick"
        ));
        assert!(!lacks("caching_pool --bench --quick"));
        assert!(!lacks("caching_pool --bench --output-format bencher"));
    }
}
