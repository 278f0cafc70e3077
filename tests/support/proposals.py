"""Fills the library of a test: what runs learned, proposed and made."""

from datetime import UTC, datetime

from perdure.adapters.stores.open_stores import Stores
from perdure.domain.generated_tools.draft import PIPELINE
from perdure.domain.generated_tools.record import GeneratedTool, ToolAuthor
from perdure.domain.memory.entries import Learning, Origin, Pattern
from perdure.domain.memory.skills import proposal
from perdure.domain.run.status import StoredRun

AT = datetime(2026, 1, 2, tzinfo=UTC)
ACCEPTED, FAILED = "refine-good-1", "refine-bad-1"
TOOL = "ab" * 32


async def propose(stores: Stores) -> None:
    """Two runs, one of them accepted, with a skill each; a learning, a pattern and a tool."""
    for run, outcome in ((ACCEPTED, "accepted"), (FAILED, "failed")):
        row = StoredRun(
            id=run, kind="refine", goal="g", label=None, lifecycle="ended", outcome=outcome,
            started_at=AT, ended_at=AT,
        )  # fmt: skip
        await stores.records.put_run(row)
        text = f"# Notes\n\nWrite <script>alert(1)</script> of {run} as a list."
        await stores.memory.put(proposal("notes", text, run=run, category="docs", now=AT))
    origin = Origin(run=ACCEPTED, outcome="accepted")
    await stores.memory.put(
        Learning(
            kind="learning",
            id="learning-1",
            sort="fact",
            text="Oaks grow slowly.",
            created=AT,
            origins=(origin,),
            confidence=0.8,
            category="docs",
        )
    )
    await stores.memory.put(
        Pattern(
            kind="pattern",
            id="pattern-1",
            sort="category",
            subject=("docs",),
            seen=9,
            text="Most runs are about docs.",
            created=AT,
            confidence=0.7,
        )
    )
    code = await stores.blobs.put(b"def add(a, b):\n    return a + b\n")
    tool = GeneratedTool(
        hash=TOOL, name="made.add", description="Adds two numbers.", parameters={"type": "object"},
        code=code, handler="add", pipeline=PIPELINE, made_at=AT,
    )  # fmt: skip
    await stores.made_tools.keep(tool, ToolAuthor(run=ACCEPTED, root=ACCEPTED, worker="w", at=AT))
