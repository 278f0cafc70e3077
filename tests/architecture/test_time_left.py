"""A run of tests that has to end in time skips what it cannot begin, and says so."""

import os
import subprocess
import sys

import pytest

from tests.architecture.sources import ROOT


@pytest.mark.long
@pytest.mark.parametrize(("until", "told"), [("1", "1 skipped"), ("", "1 passed")])
def test_no_test_begins_after_the_end(until: str, told: str) -> None:
    one = "tests/test_text_files.py::test_a_pipe_can_be_read_again"
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", one],
        cwd=ROOT,
        env={**os.environ, "TESTS_UNTIL": until},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert told in ran.stdout
