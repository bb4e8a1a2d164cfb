"""Checkouts of programs whose packages have no tests."""

import subprocess
import sys


def by_commit(folders, suites):
    """Returns the folder of each commit. Ends the program if a folder is not an unmodified checkout
    of a commit that a suite names.
    """
    tags = {suite.commit: suite.tag for suite in suites if hasattr(suite, "commit")}
    found = {}
    for folder in folders:
        commit = git(folder, "rev-parse", "HEAD").strip()
        if commit not in tags:
            sys.exit(f"error: {folder} is at {commit}; suites run from {in_words(tags)}")
        if changes := git(folder, "status", "--porcelain", "--untracked-files=no"):
            sys.exit(f"error: {folder} is a modified checkout of {tags[commit]}:\n{changes}")
        found[commit] = folder.resolve()
    return found


def git(folder, *command):
    command = ["git", "-C", folder, *command]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def in_words(tags):
    """Returns the tags, each once.

    >>> in_words({"12ab": "v1 of a", "34cd": "v2 of b"})
    'v1 of a, or v2 of b'
    """
    return ", or ".join(sorted(set(tags.values())))


def is_without_checkout(suite, found):
    """Returns whether a suite needs a checkout that the user has not named.

    >>> from types import SimpleNamespace as Suite
    >>> [is_without_checkout(suite, {"12ab": "a"}) for suite in [
    ...     Suite(), Suite(commit="12ab"), Suite(commit="34cd")
    ... ]]
    [False, False, True]
    """
    return getattr(suite, "commit", None) not in [None, *found]
