"""Texts on which work takes for ever: the loop goes on, and what could not be done is said."""

import asyncio
import time
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from loop_watch import unblocked
from memory_blobs import MemoryBlobs

from perdure.adapters.bounded_process import process
from perdure.adapters.bounded_process.process import TooMuch, misfits_of, work
from perdure.adapters.checks.builtin_checks import length_of
from perdure.adapters.verification.deliverables import Deliverables
from perdure.adapters.verification.reports import read_junit, read_lint, read_unittest
from perdure.adapters.workspaces.patches import unified_patch
from perdure.adapters.workspaces.snapshots import Leaf
from perdure.adapters.workspaces.three_way_merge import merge_trees
from perdure.extending.check_decorator import CheckFailed

EQUAL = "the same\n" * 4_000
BOMB: Any = {
    "$defs": {
        f"d{depth}": {"allOf": [{"$ref": f"#/$defs/d{depth + 1}"}] * 2} for depth in range(40)
    }
    | {"d40": {"type": "string"}},
    "$ref": "#/$defs/d0",
}


@pytest.fixture(autouse=True)
def few_seconds(monkeypatch):
    """The limit that a test can wait for."""
    given = process.work_now

    def short(task, *values, seconds=3.0):
        return given(task, *values, seconds=3.0)

    monkeypatch.setattr("perdure.adapters.bounded_process.process.work_now", short)
    monkeypatch.setattr("perdure.adapters.workspaces.patches.work_now", short)
    monkeypatch.setattr("perdure.adapters.verification.deliverables.work_now", short)


@pytest.fixture(autouse=True)
async def loaded():
    """What is imported at first use is imported before."""
    await work("schema", {"type": "string"}, "x")
    await work("document", "a.yaml", "a: 1")


async def trees(blobs, *texts):
    return [{"f.txt": Leaf(blob=await blobs.put(text.encode()))} for text in texts]


async def test_equal_lines_are_merged_or_left_to_a_person():
    blobs: Any = MemoryBlobs()
    base, ours, theirs = await trees(blobs, EQUAL, f"a\n{EQUAL}b\n{EQUAL}", f"{EQUAL}{EQUAL}c\n")
    with unblocked():
        merged, changed, conflicts = await merge_trees(blobs, base=base, ours=ours, theirs=theirs)
    assert (changed, conflicts) in {(("f.txt",), ()), ((), ("f.txt",))}
    assert set(merged) == {"f.txt"}


@pytest.mark.long
async def test_a_patch_of_equal_lines_is_whole():
    blobs: Any = MemoryBlobs()
    old, new = await trees(blobs, f"a\n{EQUAL}b\n", f"c\n{EQUAL}d\n{EQUAL}e\n")
    with unblocked():
        patch = await unified_patch(blobs, old, new)
    assert patch.startswith("diff --git a/f.txt b/f.txt\n")
    assert {"-a\n", "+c\n", "-b\n", "+e\n"} <= set(patch.splitlines(keepends=True))


HOSTILE = {
    "brackets.md": "[" * 200_000,
    "links.md": "[a](" * 60_000,
    "large.yaml": "- {a: [1, 2, {b: c}], 'd': \"e\"}\n" * 60_000,
    "deep.yaml": "[" * 100_000,
    "deep.json": "[" * 200_000,
    "deep.py": "(" * 50_000,
    "long.py": "x = " + "+".join(["1"] * 60_000),
    "wide.toml": "\n".join(f"a{n} = [{'[],' * 20}]" for n in range(5_000)),
    "anchors.yaml": "\n".join(
        ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40))]
    ),
    # Small enough to be read in the worker's own process.
    "merges.yaml": "\n".join(
        ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 40))]
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_deliverables_are_looked_at_in_time(tmp_path, name):
    (tmp_path / name).write_text(HOSTILE[name])
    with unblocked():
        (fact,) = await Deliverables().facts(str(tmp_path), [name])
    assert fact.exists
    assert "the process" not in fact.problem
    if name.startswith("deep"):
        assert "does not parse" in fact.problem or "could not be read" in fact.problem


SCHEMAS: dict[str, tuple[Any, Any]] = {
    "backtracking": ({"type": "string", "pattern": "^(a+)+$"}, "a" * 60 + "!"),
    "references": (BOMB, "x"),
    "far away": ({"$ref": "http://127.0.0.1:9/schema.json"}, "x"),
    "itself": ({"$ref": "#"}, "x"),
    "many alike": ({"uniqueItems": True}, [{"a": [n % 7]} for n in range(6_000)]),
}


@pytest.mark.parametrize("case", SCHEMAS)
async def test_schemas_are_followed_in_time(case):
    schema, value = SCHEMAS[case]
    with unblocked():
        try:
            said = await misfits_of(schema, value)
        except CheckFailed as error:
            said = (str(error),)
    assert said


@pytest.mark.long
async def test_the_loop_goes_on_meanwhile():
    turns = 0
    working = asyncio.ensure_future(work("schema", BOMB, "x"))
    while not working.done():
        await asyncio.sleep(0.01)
        turns += 1
    with pytest.raises(TooMuch, match="more than 3 s"):
        await working
    assert turns > 20


REPORTS: dict[str, Callable[[int], str]] = {
    "blank lines": lambda size: "\n" * size,
    "letters": lambda size: "FAILED (" + "a" * size + ")\nRan 1 test in 1s",
    "counts": lambda size: "1 passed, " * (size // 10),
    "colons": lambda size: "a:" * (size // 2),
    "spaces": lambda size: " " * size + "x",
    "elements": lambda size: "<testsuite>" * size,
}


def seconds_to_read(text: str) -> float:
    """Of processor time, which a busy machine does not stretch; the best of three."""
    took: list[float] = []
    for _ in range(3):
        began = time.process_time()
        read_junit(BytesIO(text.encode()))
        read_unittest(text)
        read_lint(text)
        for unit in ("sentences", "words", "lines"):
            length_of("." * len(text) + "x", unit)
        took.append(time.process_time() - began)
    return min(took)


@pytest.mark.parametrize("case", REPORTS)
def test_reports_of_programs_are_read_in_time_that_grows_with_their_length(case: str):
    short, long = (seconds_to_read(REPORTS[case](size)) for size in (20_000, 160_000))
    # Eight times the text: a pattern that tries each beginning anew takes 64 times as long.
    assert long < 30 * max(short, 0.001)


def test_the_watch_sees_a_loop_that_stands():
    async def stand():
        until = time.thread_time() + 0.3
        while time.thread_time() < until:
            pass

    async def watched():
        with unblocked():
            await asyncio.create_task(stand())

    with pytest.raises(AssertionError, match="the loop stood"):
        asyncio.run(watched())
