"""The fixture that numba-cuda's tests take from a file that its package does not include."""

import pytest


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    """Does not print the files that the comparison with expected output rejects."""
    request.cls._dump_failed_filechecks = False
