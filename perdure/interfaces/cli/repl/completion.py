"""Completion of commands and names, and the facts in the status line."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from cyclopts import App
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from perdure.domain.evaluation.outcomes import Lifecycle
from perdure.domain.foundation.errors import PerdureError
from perdure.gateway.types import RunFilter, RunPage
from perdure.interfaces.app_context import AppContext
from perdure.interfaces.cli.repl.parse_line import HELP, LEAVE, SLASH
from perdure.interfaces.formatting import plural
from perdure.interfaces.services import Services

TAKES_ALL = frozenset({"pause", "resume", "stop", "escalate"})
TAKES_NO_RUN = frozenset({"run", "new", "list", "gates", "demo", "definitions", "schema", "start"})


@dataclass(slots=True)
class Names:
    """The names that can be completed; a background task refreshes them."""

    runs: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    loops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Branch:
    """A command and what may follow it."""

    about: str = ""
    options: tuple[str, ...] = ()
    branches: "dict[str, Branch]" = field(default_factory=dict)


def branch_of(app: App) -> Branch:
    """The tree of an application's commands."""
    branches = {
        name: branch_of(app[name]) for name in app if not name.startswith("-") and app[name].show
    }
    options: tuple[str, ...] = ()
    if app.default_command is not None:
        found = app.assemble_argument_collection()
        names = (name for argument in found for name in argument.names)
        options = tuple(dict.fromkeys(name for name in names if name.startswith("--")))
    about = (app.help or "").strip().partition("\n")[0]
    return Branch(about=about, options=options, branches=branches)


class Menu(Completer):
    """Completes slash commands."""

    def __init__(self, root: Branch, names: Callable[[], Names]) -> None:
        self._root = root
        self._names = names

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Offer everything that fits the word before the cursor."""
        text = document.text_before_cursor.lstrip()
        if not text.startswith(SLASH):
            if not text:
                yield from self._offered(self._beginnings(), "")
            return
        words = text.removeprefix(SLASH).split(" ")
        before, typed = [word for word in words[:-1] if word], words[-1]
        if not before:
            yield from self._offered(self._beginnings(), typed, cut=len(typed) + 1)
            return
        yield from self._offered(self._following(before, typed), typed)

    def _beginnings(self) -> Iterator[tuple[str, str]]:
        for name, branch in sorted(self._root.branches.items()):
            yield f"{SLASH}{name}", branch.about
        yield f"{SLASH}{HELP[0]}", "What there is."
        yield f"{SLASH}{LEAVE[0]}", "Leave; what runs goes on."

    def _following(self, before: list[str], typed: str) -> Iterator[tuple[str, str]]:
        branch, path = self._root, ""
        for word in before:
            if word in branch.branches:
                branch, path = branch.branches[word], word
        for name, below in sorted(branch.branches.items()):
            yield name, below.about
        if typed.startswith("-"):
            yield from ((option, "") for option in branch.options)
        yield from ((name, "") for name in self._named(before, path))

    def _named(self, before: list[str], path: str) -> tuple[str, ...]:
        names = self._names()
        if path == "answer":
            return names.gates
        if before[:2] == ["loops", "start"]:
            return names.loops
        if path in TAKES_NO_RUN or path == "loops":
            return ()
        every = ("all",) if path in TAKES_ALL else ()
        return (*names.runs, "@last", *every)

    @staticmethod
    def _offered(
        found: Iterable[tuple[str, str]], typed: str, *, cut: int | None = None
    ) -> Iterator[Completion]:
        start = len(typed) if cut is None else cut
        for name, about in found:
            if name.removeprefix(SLASH).startswith(typed):
                yield Completion(name, start_position=-start, display_meta=about)


LOOK_EVERY_S = 3.0
REOPEN_EVERY_S = 10.0
RUNS_NAMED = 40
OPEN: tuple[Lifecycle, ...] = ("running", "paused", "waiting")


@dataclass(slots=True)
class Standing:
    """The latest facts about the installation."""

    names: Names = field(default_factory=Names)
    line: str = "looking …"

    async def watch(self, context: AppContext) -> None:
        """Refresh until cancelled; it starts no services."""
        while True:
            try:
                async with context.connect(start=False, on_progress=_silent) as services:
                    await self._keep_looking(services)
            # Services may end and start again while the prompt is open.
            except (PerdureError, OSError):
                self.line = 'no services run · /run "a goal" starts them'
            await asyncio.sleep(REOPEN_EVERY_S)

    async def _keep_looking(self, services: Services) -> None:
        while True:
            await self.look(services)
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self, services: Services) -> None:
        """Refresh once."""
        library = await services.definitions().library(None)
        self.names.loops = tuple(sorted(library.definitions))
        page = await services.gateway.list(RunFilter(limit=RUNS_NAMED))
        self.names.runs = tuple(run.id for run in page.runs)
        found = await services.gateway.gates()
        self.names.gates = tuple(f"{item.run}:{item.gate.name}" for item in found.gates)
        counts = [
            f"{count} {word}" for word in OPEN if (count := await _count(services, page, word))
        ]
        waits = len(found.gates)
        asks = f" · {plural(waits, 'question')} for you: /gates" if waits else ""
        self.line = (" · ".join(counts) or "nothing runs") + asks


async def _count(services: Services, page: RunPage, lifecycle: Lifecycle) -> int:
    """How many runs are in this state, also those behind the newest ones."""
    if page.cursor is not None:
        return await services.gateway.count(RunFilter(status=lifecycle))
    return sum(run.lifecycle == lifecycle for run in page.runs)


def _silent(_: str) -> None:
    """Ignore the progress of a look in the background."""
