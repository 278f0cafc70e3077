"""Readers that go away: without the hints the work goes on, without the results it ends."""

import io
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TextIO

import pytest

from perdure.interfaces.cli.app import main
from perdure.interfaces.cli.output import Output
from tests.interfaces.cli.memory import Installation
from tests.interfaces.cli.samples import RUN


@pytest.fixture
def gone() -> Iterator[TextIO]:
    """A pipe whose reader is gone."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as file:
        yield file


@pytest.fixture(params=["gone", "full"])
def unread(request: pytest.FixtureRequest) -> Iterator[TextIO]:
    """A pipe whose reader is gone, or a disk without room."""
    if request.param == "gone":
        yield request.getfixturevalue("gone")
        return
    with open("/dev/full", "w", encoding="utf-8") as file:
        yield file


@pytest.mark.parametrize("words", [("watch", RUN), ("watch", RUN, "--json")])
def test_a_run_is_followed_to_its_end_though_nobody_reads_the_hints(
    perdure: Installation, unread: TextIO, words: tuple[str, ...]
) -> None:
    perdure.gateway.trouble = "its worker is away"
    assert main(replace(perdure.context(), stderr=unread), words) == 0
    assert "accepted" in perdure.out


def test_hints_that_nobody_reads_cost_no_result(unread: TextIO) -> None:
    results = io.StringIO()
    output = Output(results, unread)
    output.note("one")
    output.warn("two")
    with output.working("three") as progress:
        progress("four")
    output.emit({"five": 5})
    assert results.getvalue() == '{"five": 5}\n'
    unread.flush()


def test_an_error_that_nobody_reads_keeps_its_exit_code(
    perdure: Installation, unread: TextIO
) -> None:
    assert main(replace(perdure.context(), stderr=unread), ["watch", "nobody"]) == 4
    unread.flush()


def test_who_reads_no_more_of_a_run_is_told_that_it_goes_on(
    perdure: Installation, gone: TextIO
) -> None:
    assert main(replace(perdure.context(), stdout=gone), ["watch", RUN]) == 0
    assert f"The run goes on. Watch it: perdure watch {RUN}" in perdure.err
    gone.flush()
