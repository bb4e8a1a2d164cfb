"""A test suite of another project: its entry, what is expected of it, and the comparison of both
with a run.

The files of a suite are in `suites/`:

- `NAME.toml`: the program, its version and hash, and how its tests are run;
- `NAME.expected.toml`: for each group of tests, how many have each outcome; and each failing test
  with its cause. `run.py --record --only NAME` renews the numbers and keeps the causes;
- `NAME.requirements.txt`, for suites in Python: the packages, with pinned versions and hashes.

A group is a file or a test program. The names of tests begin with their group: `GROUP::TEST`.
"""

import collections
import json
import tomllib
from pathlib import Path

SUITES = Path(__file__).parent / "suites"
OUTCOMES = ["passed", "failed", "skipped"]
# Each cause begins with one of these words.
KINDS = {
    "theirs": "the test fails in this setting on every driver",
    "missing": "the software device does not support what the test needs",
    "refused": "the software device reports a defect of the test, which a GPU does not detect",
}
# The cause of a failing test without a known cause. A run with such a test fails.
UNKNOWN = "unknown"


class Suite:
    """The entry of a suite, and what is expected of it."""

    def __init__(self, name, entry, expected):
        self.name = name
        self.timed = []
        # What distinguishes two suites of one program.
        self.setting = ""
        for key, value in entry.items():
            setattr(self, key, value)
        # For each group, the number of tests with each outcome.
        self.counts = expected.get("counts", {})
        self.causes = {}
        for failing in expected.get("failing", []):
            if failing["cause"].split(":")[0] not in [*KINDS, UNKNOWN]:
                raise ValueError(f"{name}: {failing['cause']!r} begins with none of {[*KINDS]}")
            self.causes |= {test: failing["cause"] for test in failing["tests"]}

    def chosen(self, group, is_full, prefix):
        """Returns whether a run includes a group.

        >>> suite = Suite("name", {"ci": ["b"]}, {})
        >>> [suite.chosen(group, False, "") for group in "ab"]
        [False, True]
        >>> [suite.chosen(group, True, "a") for group in "ab"]
        [True, False]
        """
        return (is_full or group in self.ci) and group.startswith(prefix)

    def changes(self, outcomes, is_chosen):
        """Returns a line for each difference between the outcomes and what is expected of the
        chosen groups. Tests that compare times may pass or fail.

        >>> expected = {"counts": {"a": [1, 1, 0], "b": [5, 0, 0]}}
        >>> expected["failing"] = [{"cause": "theirs: a typo", "tests": ["a::y"]}]
        >>> suite = Suite("name", {"timed": ["a::z"]}, expected)
        >>> as_expected = {"a::x": "passed", "a::y": "failed", "a::z": "failed"}
        >>> suite.changes(as_expected, lambda group: group == "a")
        []
        >>> suite.changes(as_expected, lambda group: True)
        ['b: 0 passed, 0 failed, 0 skipped; expected 5 passed, 0 failed, 0 skipped']
        >>> swapped = {"a::x": "failed", "a::y": "passed", "a::z": "passed"}
        >>> for line in suite.changes(swapped, lambda group: group == "a"):
        ...     print(line)
        a::x failed; it is expected to pass
        a::y passed; it is expected to fail: theirs: a typo
        >>> suite.causes["a::x"] = "unknown: a::x"
        >>> suite.changes({"a::x": "failed", "a::y": "passed"}, lambda group: group == "a")[0]
        'a::x failed; its cause is not known'
        """
        lines = []
        counted = count(outcomes, self.timed)
        expected = {group: numbers for group, numbers in self.counts.items() if is_chosen(group)}
        for group in sorted(counted | expected):
            was, now = expected.get(group, [0, 0, 0]), counted.get(group, [0, 0, 0])
            if was != now:
                lines.append(f"{group}: {in_words(now)}; expected {in_words(was)}")
        for test, outcome in sorted(outcomes.items()):
            cause = self.causes.get(test)
            if test in self.timed:
                continue
            if outcome == "failed" and cause is None:
                lines.append(f"{test} failed; it is expected to pass")
            elif outcome == "failed" and cause.startswith(UNKNOWN):
                lines.append(f"{test} failed; its cause is not known")
            elif outcome != "failed" and cause is not None:
                lines.append(f"{test} {outcome}; it is expected to fail: {cause}")
        return lines

    def record(self, outcomes, is_chosen):
        """Replaces what is expected of the chosen groups, and returns it as a file. Failing tests
        without a cause get `unknown`.

        >>> suite = Suite("name", {}, {"counts": {"a": [9, 9, 9], "b": [5, 0, 0]}})
        >>> print(suite.record({"a::x": "failed"}, lambda group: group == "a"), end="")
        # For each group, how many tests pass, fail and are skipped.
        [counts]
        "a" = [0, 1, 0]
        "b" = [5, 0, 0]
        <BLANKLINE>
        [[failing]]
        cause = "unknown: a::x"
        tests = ["a::x"]
        """
        outcomes = {test: it for test, it in outcomes.items() if is_chosen(test.split("::")[0])}
        kept = {group: numbers for group, numbers in self.counts.items() if not is_chosen(group)}
        self.counts = kept | count(outcomes, self.timed)
        failed = {test for test, outcome in outcomes.items() if outcome == "failed"}
        others = {test for test in self.causes if not is_chosen(test.split("::")[0])}
        failed = (failed | others) - set(self.timed)
        self.causes = {test: self.causes.get(test, f"{UNKNOWN}: {test}") for test in sorted(failed)}
        lines = ["# For each group, how many tests pass, fail and are skipped.", "[counts]"]
        lines += [f"{json.dumps(group)} = {self.counts[group]}" for group in sorted(self.counts)]
        by_cause = collections.defaultdict(list)
        for test, cause in self.causes.items():
            by_cause[cause].append(json.dumps(test))
        for cause, tests in sorted(by_cause.items()):
            lines += ["", "[[failing]]", f"cause = {json.dumps(cause)}"]
            lines += [f"tests = [{tests[0]}]"] if len(tests) == 1 else ["tests = ["]
            lines += [f"    {test}," for test in tests] + ["]"] if len(tests) > 1 else []
        return "\n".join(lines) + "\n"

    def total(self):
        """Returns how many tests are expected to have each outcome."""
        return [sum(numbers[i] for numbers in self.counts.values()) for i in range(3)]

    def by_cause(self):
        """Returns the number of failing tests for each cause."""
        return sorted(collections.Counter(self.causes.values()).items())


def count(outcomes, left_out=()):
    """Returns for each group how many tests passed, failed and were skipped.

    >>> count({"a::x": "passed", "a::y": "skipped", "b::z": "failed"}, ["b::z"])
    {'a': [1, 0, 1]}
    """
    counts = {}
    for test, outcome in outcomes.items():
        if test not in left_out:
            numbers = counts.setdefault(test.split("::")[0], [0, 0, 0])
            numbers[OUTCOMES.index(outcome)] += 1
    return counts


def in_words(numbers):
    """Returns the numbers with their outcomes."""
    return ", ".join(f"{n} {outcome}" for n, outcome in zip(numbers, OUTCOMES))


def expected_file(name):
    """Returns the file that says what is expected of a suite."""
    return SUITES / f"{name}.expected.toml"


def all_suites():
    """Reads all suites.

    >>> all(suite.version and sum(suite.total()) for suite in all_suites())
    True
    """
    entries = sorted(path for path in SUITES.glob("*.toml") if ".expected" not in path.name)
    suites = []
    for path in entries:
        expected = expected_file(path.stem)
        text = expected.read_text() if expected.is_file() else ""
        suites.append(Suite(path.stem, tomllib.loads(path.read_text()), tomllib.loads(text)))
    return suites
