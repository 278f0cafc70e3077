"""`memory.search`, `memory.note`, `skill.list` and `skill.read`: what runs know of earlier runs.

A note stays with its run until the run ends. Then it enters memory together with the outcome, so
that other runs are told only notes of accepted runs.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated

from pydantic import Field

from perdure.adapters.tools.host import AnyTool
from perdure.adapters.tools.project_tools.scope import id_of, shared
from perdure.domain.foundation.errors import ToolFailure
from perdure.domain.memory.entries import Skill, Sort, may_enter
from perdure.domain.memory.prompt_blocks import block_of, one_line, provenance
from perdure.domain.memory.ranking import rank
from perdure.domain.memory.recall import TOLD_KINDS
from perdure.domain.memory.store import MemoryStore
from perdure.domain.memory.tokenizer import question_terms
from perdure.domain.ports import BlobStore
from perdure.domain.projects.ports import ArtifactStore
from perdure.domain.projects.records import LEARNING, Artifact, Membership
from perdure.extending.tool_decorator import ToolContext, tool

NOTE_CHARACTERS = 600
NOTES_OF_A_RUN = 20
SEARCH_TOKENS = 2_000
SKILLS_LOOKED_AT = 1_000
SKILLS_LISTED = 100
PURPOSE_CHARACTERS = 200


def memory_tools(
    memory: MemoryStore, artifacts: ArtifactStore, blobs: BlobStore, *, now: Callable[[], datetime]
) -> tuple[AnyTool, ...]:
    return _search(memory, now=now), _note(artifacts, blobs, now=now)


def skill_tools(memory: MemoryStore, *, now: Callable[[], datetime]) -> tuple[AnyTool, ...]:
    return _skills(memory), _skill(memory, now=now)


def _search(memory: MemoryStore, *, now: Callable[[], datetime]) -> AnyTool:
    @tool(name="memory.search", idempotent=True)
    async def search(
        context: ToolContext, query: Annotated[str, Field(min_length=1, max_length=2_000)]
    ) -> str:
        """Look up what earlier runs learned: facts, things to avoid, similar tasks.

        Args:
            query: what you want to know about, in a few words.
        """
        asked = question_terms(query, None)
        found = await memory.candidates(asked, kinds=TOLD_KINDS)
        told = block_of(rank(asked, found, now=now()), limit=SEARCH_TOKENS, now=now())
        if not told.ids:
            return "Memory holds nothing about that."
        await memory.mark_used(told.ids, run=context.run, at=now())
        return told.text

    return search


def _note(artifacts: ArtifactStore, blobs: BlobStore, *, now: Callable[[], datetime]) -> AnyTool:
    @tool(name="memory.note", idempotent=True)
    async def note(
        context: ToolContext,
        text: Annotated[str, Field(min_length=1, max_length=NOTE_CHARACTERS)],
        sort: Sort = "fact",
    ) -> str:
        """Note something that later runs should know. It counts when this run is accepted.

        Args:
            text: one or two sentences that hold without this conversation.
            sort: fact, heuristic, or anti_pattern for something to avoid.
        """
        data = one_line(text, NOTE_CHARACTERS).encode()
        kept = Artifact(
            id=id_of("artifact", context),
            # Of the run alone: others of its project must not read a note before it is accepted.
            belongs=Membership(scope="run", owner=context.run),
            run=context.run,
            iteration=context.iteration,
            stage=context.stage,
            kind=LEARNING,
            name=sort,
            ref=await blobs.put(data),
            bytes=len(data),
            created_at=now(),
        )
        # A repeated call replaces its own note, which must not count against the limit.
        known = await artifacts.artifacts_of_run(context.run)
        notes = [item for item in known if item.kind == LEARNING and item.id != kept.id]
        if len(notes) >= NOTES_OF_A_RUN:
            raise ToolFailure(
                f"This run has {len(notes)} notes already; {NOTES_OF_A_RUN} are allowed. Put "
                "it into the output.",
                reason="refused",
            )
        await artifacts.add_artifact(kept)
        return "Noted. It enters memory when this run ends, and other runs if it is accepted."

    return note


def _skills(memory: MemoryStore) -> AnyTool:
    @tool(name="skill.list", idempotent=True)
    async def list_() -> str:
        """List the skills: procedures that were written down for tasks of this sort."""
        entries = await memory.list(kinds=("skill",), limit=SKILLS_LOOKED_AT)
        skills = [entry for entry in entries if isinstance(entry, Skill) and may_enter(entry)]
        if not skills:
            return "There are no skills."
        shown = sorted(skills, key=lambda skill: skill.name.casefold())[:SKILLS_LISTED]
        more = len(skills) - len(shown)
        rest = [f"[{more} more]"] if more else []
        way = f'[read one with skill.read {{"name": "{one_line(shown[0].name, 80)}"}}]'
        return "\n".join([*map(_line, shown), *rest, way])

    return shared(list_)


def _skill(memory: MemoryStore, *, now: Callable[[], datetime]) -> AnyTool:
    @tool(name="skill.read", idempotent=True)
    async def read(context: ToolContext, name: str) -> str:
        """Read one skill.

        Args:
            name: as skill.list shows it.
        """
        skill = await memory.skill(name.strip())
        # The list hides such skills, but a model may know or guess a name.
        if skill is None or not may_enter(skill):
            raise ToolFailure(
                f"There is no skill {name[:80]!r}. skill.list shows what there is.",
                reason="not_found",
            )
        await memory.mark_used((skill.id,), run=context.run, at=now())
        return f"{_line(skill)}\n\n{skill.text.strip()}"

    return shared(read)


def _line(skill: Skill) -> str:
    about = one_line(skill.purpose, PURPOSE_CHARACTERS)
    name = one_line(skill.name, PURPOSE_CHARACTERS)
    return f"{name}: {about} (version {skill.version}, {provenance(skill)})"
