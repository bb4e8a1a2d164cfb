"""A plugin for pytest that appends the outcome of each test to the file `$OUTCOMES`.

A line is written as soon as a test has ended, so the file is useful even if a later test ends the
process.
"""

import os


def write(test, outcome):
    with open(os.environ["OUTCOMES"], "a", encoding="utf-8") as file:
        file.write(f"{outcome}\t{test}\n")


def pytest_collection_finish(session):
    for item in session.items:
        write(item.nodeid, "collected")


def pytest_collectreport(report):
    if report.failed:
        write(report.nodeid, "failed")


def pytest_runtest_logreport(report):
    if report.failed:
        write(report.nodeid, "failed")
    elif report.skipped:
        # A test that is expected to fail, and fails, is reported as skipped.
        write(report.nodeid, "passed" if hasattr(report, "wasxfail") else "skipped")
    elif report.when == "call":
        write(report.nodeid, "passed")
