"""What runs left for later runs: skills, learnings, patterns and tools, in one form.

Decisions are made by the same services that the commands use, and written to the audit trail.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Literal, assert_never

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import NotAllowed, NotFound
from perdure.domain.generated_tools.record import GeneratedTool, ToolAuthor
from perdure.domain.memory.entries import Learning, MemoryEntry, Pattern, Skill, may_enter
from perdure.domain.memory.ranking import confidence_left, is_faded
from perdure.interfaces import generated_tools, patterns, skill_approval
from perdure.interfaces.audit_trail import AuditTrail
from perdure.interfaces.formatting import one_line
from perdure.interfaces.services import Services

Shelf = Literal["skill", "learning", "pattern", "tool"]
State = Literal["proposed", "in_use", "unused", "rejected"]
LEARNINGS_READ = 1_000
ABOUT_CHARACTERS = 300


class LibraryItem(FrozenModel):
    """One thing that later runs may be given.

    Args:
        shelf: what kind of thing it is.
        id: names it in paths.
        name: what people call it.
        about: the beginning of what it says.
        state: `proposed` waits for a person; `unused` is given to no run, as the run that it is
            from was not accepted, or as its time is over.
        scope: who is given it, in words.
        runs: the runs that it comes from; none where a person wrote it.
        decided_by: who approved or rejected it, where that is kept.
        created: when it was first kept.
        uses: how many runs were given it; None where that is not counted.
        confidence: what is left of how certain it was, from 0 to 1.
    """

    shelf: Shelf
    id: str
    name: str
    about: str = ""
    state: State
    scope: str
    runs: tuple[str, ...] = ()
    decided_by: str | None = None
    created: datetime
    uses: int | None = None
    confidence: float | None = None


class LibraryEntry(FrozenModel):
    """One thing whole: `text` is the Markdown of a skill, a sentence, or the code of a tool."""

    item: LibraryItem
    text: str
    parameters: str | None = None


class Library:
    """The library of an installation.

    Args:
        services: the stores.
        now: the time of this look.
    """

    def __init__(self, services: Services, now: datetime) -> None:
        self._services = services
        self._now = now

    async def items(self, shelf: Shelf, state: State | None = None) -> list[LibraryItem]:
        """All items of a kind; proposals come first, then the newest."""
        found = await self._items(shelf)
        kept = [one for one in found if state is None or one.state == state]
        return sorted(kept, key=place_of)

    async def entry(self, shelf: Shelf, id: str) -> LibraryEntry:
        """One item in full.

        Raises:
            NotFound: there is none with that id.
        """
        if shelf == "tool":
            shown = await generated_tools.show(self._services.made_tools, self._services.blobs, id)
            # The store also finds names and beginnings, and a path must mean one thing.
            if shown.tool.hash != id:
                raise _unknown(shelf, id)
            item = of_tool(shown.tool, shown.makers)
            parameters = json.dumps(shown.tool.parameters, indent=2, ensure_ascii=False)
            return LibraryEntry(item=item, text=shown.code, parameters=parameters)
        found = await self._services.memory.get(id)
        if found.kind != shelf or found.id != id:
            raise _unknown(shelf, id)
        return LibraryEntry(item=of_memory(found, self._now), text=found.text)

    async def approve(
        self, shelf: Shelf, id: str, *, by: str, trail: AuditTrail, name: str | None = None
    ) -> LibraryItem:
        """Let later runs use a proposal; a pattern becomes a skill.

        Raises:
            NotFound, InvalidInput, NotAllowed: as the service of its kind says.
        """
        services, now = self._services, self._now
        # Requires the exact id, as the services also take beginnings and names.
        await self.entry(shelf, id)
        match shelf:
            case "skill":
                skill = await skill_approval.approve(
                    services.memory, services.records, id, by=by, now=now, name=name
                )
                done = of_memory(skill, now)
            case "pattern":
                made = await patterns.approve(services.memory, id, by=by, now=now, name=name)
                done = of_memory(made.skill, now)
            case "tool":
                tool = await generated_tools.approve(
                    services.made_tools, services.records, id, by=by, now=now
                )
                done = of_tool(tool, await services.made_tools.makers(tool.hash))
            case "learning":
                raise _no_decision()
            case _:
                assert_never(shelf)
        await trail.note_decision("library_approved", f"{shelf} {id}", by=by, run=_from(done))
        return done

    async def reject(self, shelf: Shelf, id: str, *, by: str, trail: AuditTrail) -> LibraryItem:
        """Keep a proposal from later runs; a rejected skill is deleted.

        Raises:
            NotFound, InvalidInput, NotAllowed: as the service of its kind says.
        """
        services, now = self._services, self._now
        await self.entry(shelf, id)
        match shelf:
            case "skill":
                dropped = await skill_approval.reject(services.memory, id)
                done = of_memory(dropped, now).model_copy(update={"state": "rejected"})
            case "pattern":
                done = of_memory(await patterns.reject(services.memory, id), now)
            case "tool":
                tool = await generated_tools.reject(services.made_tools, id, by=by, now=now)
                done = of_tool(tool, await services.made_tools.makers(tool.hash))
            case "learning":
                raise _no_decision()
            case _:
                assert_never(shelf)
        await trail.note_decision("library_rejected", f"{shelf} {id}", by=by, run=_from(done))
        return done

    async def forget(self, shelf: Shelf, id: str, *, by: str, trail: AuditTrail) -> LibraryItem:
        """Delete a skill or a learning, whoever wrote it; return the item as it was.

        Raises:
            NotFound: there is none with that id.
            NotAllowed: it is a pattern or a tool, which a run would only find or make again.
        """
        known = await self.entry(shelf, id)
        if shelf in {"pattern", "tool"}:
            raise NotAllowed(
                f"A {shelf} is not forgotten: a run could bring it back.",
                cure="Reject it, so that it stays away.",
            )
        await self._services.memory.forget(id)
        about = f"{shelf} {id}"
        await trail.note_decision("library_forgotten", about, by=by, run=_from(known.item))
        return known.item

    async def _items(self, shelf: Shelf) -> list[LibraryItem]:
        services, now = self._services, self._now
        match shelf:
            case "skill":
                return [of_memory(one, now) for one in await skill_approval.skills(services.memory)]
            case "pattern":
                return [of_memory(one, now) for one in await patterns.patterns(services.memory)]
            case "learning":
                kept = await services.memory.list(kinds=("learning",), limit=LEARNINGS_READ)
                return [of_memory(one, now) for one in kept]
            case "tool":
                tools = await generated_tools.made_tools(services.made_tools)
                store = services.made_tools
                return [of_tool(tool, await store.makers(tool.hash)) for tool in tools]


def place_of(item: LibraryItem) -> tuple[int, float, str]:
    """The place of an item in its list, whatever is decided on others meanwhile."""
    return (int(item.state != "proposed"), -item.created.timestamp(), item.id)


def of_memory(entry: MemoryEntry, now: datetime) -> LibraryItem:
    shelf: Shelf = "skill"
    name, state, scope = one_line(entry.text, 80), _given(entry, now), _categories(entry)
    about = entry.text
    if isinstance(entry, Skill):
        name, about = entry.name, entry.purpose or entry.text
        state = "proposed" if entry.approved is False else state
    elif isinstance(entry, Pattern):
        shelf, name = "pattern", " and ".join(entry.subject) or entry.id
        states: dict[str, State] = {"approved": "in_use", "rejected": "rejected"}
        state, scope = states.get(entry.state, "proposed"), "nobody before it is approved"
        if entry.state == "approved":
            scope = "runs that its skill fits"
        elif entry.state == "rejected":
            scope = "nobody"
    elif isinstance(entry, Learning):
        shelf, name = "learning", entry.sort.replace("_", " ")
    runs = dict.fromkeys([*(origin.run for origin in entry.origins), *_proposer(entry)])
    return LibraryItem(
        shelf=shelf,
        id=entry.id,
        name=name,
        about=one_line(about, ABOUT_CHARACTERS),
        state=state,
        scope=scope,
        runs=tuple(runs),
        decided_by=entry.source.partition("approved by ")[2] or None
        if isinstance(entry, Skill)
        else None,
        created=entry.created,
        uses=entry.uses,
        confidence=round(confidence_left(entry, now), 4),
    )


def of_tool(tool: GeneratedTool, makers: Sequence[ToolAuthor]) -> LibraryItem:
    """A tool that a worker made as an item."""
    states: dict[str, State] = {"made": "proposed", "approved": "in_use", "rejected": "rejected"}
    scopes = {"made": "runs of the tree that made it", "approved": "all runs that name it"}
    return LibraryItem(
        shelf="tool",
        id=tool.hash,
        name=tool.name,
        about=one_line(tool.description, ABOUT_CHARACTERS),
        state=states[tool.state],
        scope=scopes.get(tool.state, "nobody"),
        runs=tuple(dict.fromkeys(maker.run for maker in makers)),
        decided_by=tool.decided_by,
        created=tool.made_at,
    )


def _given(entry: MemoryEntry, now: datetime) -> State:
    return "in_use" if may_enter(entry) and not is_faded(entry, now) else "unused"


def _categories(entry: MemoryEntry) -> str:
    named = entry.categories if isinstance(entry, Skill) else ()
    found = named or ((entry.category,) if entry.category else ())
    return f"tasks of the category {', '.join(found)}" if found else "all tasks that it fits"


def _proposer(entry: MemoryEntry) -> tuple[str, ...]:
    return (entry.proposed_by,) if isinstance(entry, Skill) and entry.proposed_by else ()


def _from(item: LibraryItem) -> str | None:
    return item.runs[0] if item.runs else None


def _unknown(shelf: Shelf, id: str) -> NotFound:
    return NotFound(f"There is no {shelf} {id[:80]!r}.", cure="Take the whole id from the list.")


def _no_decision() -> NotAllowed:
    return NotAllowed(
        "A learning is not proposed: runs are given it when the run that it is from was accepted.",
        cure="To drop one, forget it: here, or with `perdure memory forget ID`.",
    )
