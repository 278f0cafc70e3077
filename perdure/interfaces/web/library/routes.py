"""The library: definitions, skills, learnings, patterns and tools, with decisions on proposals."""

from dataclasses import dataclass

import yaml
from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import JsonValue

from perdure.interfaces.formatting import plural
from perdure.interfaces.rest.definitions import Definition, DefinitionLine, Definitions
from perdure.interfaces.rest.library import LibraryEntry, LibraryItem, LibraryPage
from perdure.interfaces.web.api_calls import ApiProblem, at
from perdure.interfaces.web.visit import Fields, Here

DEFINITIONS = "/loops/definitions"
ORIGINS = {
    "built-in": "comes with Perdure", "home": "of this installation", "workspace": "of a folder",
}  # fmt: skip
VERBS = ("approve", "reject", "forget")
router = APIRouter()


@dataclass(frozen=True, slots=True)
class ShelfView:
    """A tab: its name in paths and on the page, and a hint for when it is empty."""

    shelf: str
    name: str
    empty: str


SHELVES = (
    ShelfView(
        "skill",
        "Skills",
        "No run has proposed a skill, and nobody has added one. Add a procedure of your own:"
        " perdure skills add FILE.md",
    ),
    ShelfView(
        "learning",
        "Learnings",
        "Nothing was learned yet. Runs with `learn: true` leave learnings when they have ended.",
    ),
    ShelfView(
        "pattern",
        "Patterns",
        "No habit was found in earlier runs. Look for some now: perdure patterns schedule --now",
    ),
    ShelfView(
        "tool",
        "Tools",
        "No worker has made a tool. Delegation runs may make some where their task allows it.",
    ),
    ShelfView("definition", "Definitions", "There is no definition of a loop."),
)
STATES = {
    "proposed": ("waits for a decision", "waiting"),
    "in_use": ("in use", "running"),
    "unused": ("not used", "paused"),
    "rejected": ("rejected", "failed"),
}


@dataclass(frozen=True, slots=True)
class Card:
    """A card on the page.

    Args:
        state: its state in words.
        style: the class of its mark.
        facts: scope, uses and the like, each a short sentence.
        address: its own page.
    """

    item: LibraryItem
    state: str
    style: str
    facts: tuple[str, ...]
    address: str

    @property
    def waits(self) -> bool:
        """Whether it waits for approval or rejection."""
        return self.item.state == "proposed"

    @property
    def forgettable(self) -> bool:
        """Whether it can be deleted; patterns and tools are rejected instead."""
        return self.item.shelf in {"skill", "learning"} and not self.waits


@router.get("/library")
async def show(visit: Here, shelf: str = "skill", cursor: str | None = None) -> Response:
    """Show one tab; what waits for a decision comes first."""
    chosen = next((one for one in SHELVES if one.shelf == shelf), None)
    if chosen is None:
        raise ApiProblem(404, "not_found", "There is no such shelf in the library.")
    definitions: tuple[DefinitionLine, ...] = ()
    cards: tuple[Card, ...] = ()
    if shelf == "definition":
        found = await visit.api.get(DEFINITIONS, Definitions, {"cursor": cursor})
        definitions, following, note = found.items, found.cursor, found.note
    else:
        page = await visit.api.get(at("library", shelf), LibraryPage, {"cursor": cursor})
        cards = tuple(card_of(one) for one in page.items)
        following, note = page.cursor, page.note
    return visit.page(
        "library/library.html",
        shelves=SHELVES,
        chosen=chosen,
        cards=cards,
        definitions=definitions,
        origins=ORIGINS,
        following=following,
        note=note,
    )


@router.get("/library/definition/{name}")
async def definition(visit: Here, name: str) -> Response:
    """Show a definition as its author wrote it."""
    found = await visit.api.get(f"{DEFINITIONS}{at(name)}", Definition)
    text = yaml.safe_dump(found.fields, sort_keys=False, allow_unicode=True, width=100)
    return visit.page("library/definition.html", found=found, text=text, origins=ORIGINS)


@router.get("/library/{shelf}/{entry}")
async def one(visit: Here, shelf: str, entry: str) -> Response:
    """Show one entry in full, with its actions."""
    found = await visit.api.get(at("library", shelf, entry), LibraryEntry)
    name = next((view.name for view in SHELVES if view.shelf == shelf), shelf)
    return visit.page("library/entry.html", found=found, card=card_of(found.item), shelf_name=name)


@router.post("/library/{shelf}/{entry}/{verb}")
async def decide(visit: Here, fields: Fields, shelf: str, entry: str, verb: str) -> Response:
    """Approve, reject or forget, then return to the tab."""
    if verb not in VERBS:
        raise ApiProblem(404, "not_found", "There is no such page.")
    name = fields.get("name", "").strip()
    # `reject` and `forget` take no body, and the API refuses one.
    body: JsonValue = {"name": name} if name and verb == "approve" else None
    await visit.api.post(f"{at('library', shelf, entry)}/{verb}", LibraryItem, body)
    return visit.go(f"/library?shelf={shelf}")


def card_of(item: LibraryItem) -> Card:
    """An item with its state and facts in words."""
    state, style = STATES[item.state]
    proposed_skill = item.shelf == "skill" and item.state == "proposed"
    facts = [f"for {item.scope}, once approved" if proposed_skill else f"given to {item.scope}"]
    if item.uses is not None and item.state in {"in_use", "unused"}:
        facts.append(f"used by {plural(item.uses, 'run')}")
    if item.confidence is not None and item.shelf != "skill":
        facts.append(f"confidence {item.confidence * 100:.0f} %")
    if item.decided_by:
        facts.append(f"decided by {item.decided_by}")
    if not item.runs:
        facts.append("written by a person" if item.shelf != "pattern" else "found in many runs")
    return Card(item, state, style, tuple(facts), f"/library{at(item.shelf, item.id)}")
