"""What was learned: look at memory, search it, forget; and the skills that runs are given."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from perdure.domain.foundation.errors import NotFound, StoreError
from perdure.domain.foundation.problems import did_you_mean
from perdure.domain.memory.entries import Kind, MemoryEntry, OldText, Skill
from perdure.domain.memory.ranking import rank
from perdure.domain.memory.store import MemoryStore
from perdure.domain.memory.tokenizer import question_terms
from perdure.interfaces import skill_approval
from perdure.interfaces.cli.commands.parameters import Given, Limit
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.views.layout import GOOD, line
from perdure.interfaces.cli.views.memory import (
    entry_data,
    memory_view,
    old_text_view,
    skill_view,
    skills_view,
)
from perdure.interfaces.formatting import one_line
from perdure.interfaces.skill_files import read_skill
from perdure.interfaces.unreadable_memory import unreadable_note

SHOWN: tuple[Kind, ...] = ("learning", "episode", "pattern", "skill")
Name = Annotated[str, Parameter(name="NAME")]
memory_app = App(
    name="memory",
    help="Show what earlier runs learned; without a command, the newest entries.",
    version_flags=(),
)
skills_app = App(
    name="skills",
    help="Manage skills, the procedures that runs get; without a command, list them.",
    version_flags=(),
)


@memory_app.default
@memory_app.command(name="list")
async def list_memory(
    *, kind: Kind | None = None, category: str | None = None, limit: Limit = 50, session: Given
) -> None:
    """List the entries, newest first.

    Args:
        kind: Only entries of this kind; events are listed only on request.
        category: Only entries of this category of tasks.
        limit: How many at most.
    """
    async with session.connected() as services:
        kinds = SHOWN if kind is None else (kind,)
        found = await services.memory.list(kinds=kinds, category=category, limit=limit)
        _show(session, found, none="Memory holds nothing yet; runs write it when they have ended.")
        for name in await services.memory.unreadable():
            session.output.note(_unreadable_note(name))


@memory_app.command
async def search(
    text: str, /, *, kind: Kind | None = None, limit: Limit = 10, session: Given
) -> None:
    """Show what memory would tell a task, best first.

    Args:
        text: The words of a task.
        kind: Only entries of this kind.
        limit: How many at most.
    """
    now = session.context.now()
    asked = question_terms(text, None)
    async with session.connected() as services:
        kinds = SHOWN if kind is None else (kind,)
        found = rank(asked, await services.memory.candidates(asked, kinds=kinds), now=now)
        entries = [item.entry for item in found[:limit]]
        _show(session, entries, none="Nothing in memory shares a word with that.")


@memory_app.command
async def forget(entry: Annotated[str, Parameter(name="ID")], /, *, session: Given) -> None:
    """Delete an entry.

    Args:
        entry: The id of an entry, or a unique beginning of one.
    """
    async with session.connected() as services:
        try:
            known = await services.memory.get(entry)
        except StoreError as unreadable:
            # An entry that cannot be read can still be deleted, by its full id.
            try:
                await services.memory.forget(entry)
            except NotFound:
                raise unreadable from None
            await session.note_decision(services, "library_forgotten", f"unreadable {entry}")
            session.output.show(
                line(("✓ ", GOOD), f"forgot the unreadable entry {entry}"),
                {"type": "forgotten", "id": entry, "kind": None},
            )
            return
        await services.memory.forget(known.id)
        await session.note_decision(services, "library_forgotten", f"{known.kind} {known.id}")
        _tell_forgotten(session, known)


@skills_app.default
@skills_app.command(name="list")
async def list_skills(*, category: str | None = None, session: Given) -> None:
    """List all skills, newest first.

    Args:
        category: Only skills for this category of tasks.
    """
    now = session.context.now()
    async with session.connected() as services:
        found = await _skills(services.memory, category)
        data = {"type": "skills", "skills": [entry_data(skill, now) for skill in found]}
        session.output.show(skills_view(found), data)
        if note := await unreadable_note(services.memory):
            session.output.note(note)


@skills_app.command
async def show(name: Name, /, *, version: int | None = None, session: Given) -> None:
    """Show a skill with its text, in the current or an earlier version.

    Args:
        name: The skill's name.
        version: The version to show. Default: the current one.
    """
    now = session.context.now()
    async with session.connected() as services:
        skill = await _skill(services.memory, name)
        if version is None or version == skill.version:
            session.output.show(skill_view(skill, now), {"type": "skill", **entry_data(skill, now)})
            return
        old = _earlier(skill, version)
        data = {"type": "skill_version", "name": skill.name, **old.model_dump(mode="json")}
        session.output.show(old_text_view(skill, old), data)


@skills_app.command
async def add(file: Path, /, *, session: Given) -> None:
    """Add a skill from a Markdown file, or a new version of an existing skill.

    Args:
        file: A Markdown file. A header between two lines of --- may set name, purpose, categories,
            deterministic and effectiveness.
    """
    now = session.context.now()
    skill = read_skill(session.context.folder / file, now=now)
    async with session.connected() as services:
        # Before the write: the same text again is no new version, which is only seen by comparing.
        before = await services.memory.skill(skill.name)
        kept = (await services.memory.put(skill)).entry
        version = kept.version if isinstance(kept, Skill) else 1
        known = before is not None and before.version == version
        what = "is there already, as" if known else "is added as"
        session.output.show(
            line(("✓ ", GOOD), f"{skill.name} {what} version {version}"),
            {"type": "skill", "changed": not known, **entry_data(kept, now)},
        )


@skills_app.command
async def approve(proposed: Name, /, *, name: str | None = None, session: Given) -> None:
    """Approve a skill that an accepted run wrote, for later runs.

    Args:
        proposed: The proposal, as `perdure skills` shows it; without its run if only one waits.
        name: The skill's new name. Default: the name its run gave it.
    """
    now = session.context.now()
    async with session.connected() as services:
        waiting = await skill_approval.find_proposal(services.memory, proposed)
        kept = await skill_approval.approve(
            services.memory,
            services.records,
            waiting.id,
            by=session.context.user,
            now=now,
            name=name,
        )
        await session.note_decision(services, "library_approved", f"skill {waiting.id}")
        told = f"{kept.name} is given to runs from now on, as version {kept.version}"
        session.output.show(
            line(("✓ ", GOOD), told), {"type": "skill", "changed": True, **entry_data(kept, now)}
        )


@skills_app.command(name="forget")
async def forget_skill(name: Name, /, *, session: Given) -> None:
    """Delete a skill.

    Args:
        name: The skill's name.
    """
    async with session.connected() as services:
        skill = await _skill(services.memory, name)
        await services.memory.forget(skill.id)
        await session.note_decision(services, "library_forgotten", f"skill {skill.id}")
        _tell_forgotten(session, skill)


def _show(session: Session, entries: Sequence[MemoryEntry], *, none: str) -> None:
    now = session.context.now()
    data = {"type": "memory", "entries": [entry_data(entry, now) for entry in entries]}
    session.output.show(memory_view(entries, now, none=none), data)


def _unreadable_note(entry: str) -> str:
    return (
        f"The entry {entry} cannot be read by this version of Perdure and is passed over. "
        f"Run the version that wrote it, or drop it: perdure memory forget {entry}"
    )


def _tell_forgotten(session: Session, entry: MemoryEntry) -> None:
    what = entry.name if isinstance(entry, Skill) else entry.text or entry.id
    session.output.show(
        line(("✓ ", GOOD), f"forgot the {entry.kind} “{one_line(what, 80)}”"),
        {"type": "forgotten", "id": entry.id, "kind": entry.kind},
    )


async def _skills(memory: MemoryStore, category: str | None) -> list[Skill]:
    return await skill_approval.skills(memory, category=category)


def _earlier(skill: Skill, version: int) -> OldText:
    found = next((old for old in skill.earlier if old.version == version), None)
    if found is None:
        kept = ", ".join(str(number) for number in skill.versions)
        raise NotFound(f"There is no version {version} of {skill.name}.", cure=f"Kept are: {kept}.")
    return found


async def _skill(memory: MemoryStore, name: str) -> Skill:
    found = await memory.skill(name)
    if found is None:
        hint = did_you_mean(name, [skill.name for skill in await _skills(memory, None)])
        raise NotFound(
            f"There is no skill {name!r}.{hint}", cure="`perdure skills list` shows all of them."
        )
    return found
