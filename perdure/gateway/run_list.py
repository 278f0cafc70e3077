"""Lists of runs: first from the server, then from the store for runs that the server forgot."""

import base64
import binascii
import difflib
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from perdure.domain.budget.journal import Journal
from perdure.domain.foundation.errors import InvalidInput, NotFound, ServiceUnavailable
from perdure.domain.foundation.names import RUN_ID, loops_queue
from perdure.domain.ports import RecordStore
from perdure.domain.run.child_runs import is_below
from perdure.domain.run.status import StoredRun
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.namespaces import elsewhere
from perdure.gateway.run_words import with_lives, with_progress, with_words
from perdure.gateway.stored_status import may_begin
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.gateway.types import RUNS_OF_A_PAGE, InstallationInfo, RunFilter, RunPage, RunRow
from perdure.gateway.visibility import (
    ONE_EACH,
    fits,
    gone,
    is_torn,
    ours,
    query_of,
    quoted,
    row_fits,
    row_of,
    row_of_elsewhere,
    row_of_gone,
    row_of_stored,
    unopened,
)

LAST = "@last"
STORED_RUNS = 1_000
"""How many stored runs are read for one page, or to find ids similar to an unknown one."""
LEAST_BATCH = 50
BETWEEN = "~"  # in no id and no token
CANDIDATES = 10
MARK_DIGITS = 10
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
_STORED = re.compile(r"(-?[0-9]{1,18})\.([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class StoredPlace:
    """A place in the store's list of runs, newest first; without `began`, its top.

    Behind it are the runs that began before that moment, and those of that moment but the first
    `passed`. It is no number of rows: between two pages runs begin at the top, and others go.
    """

    began: datetime | None = None
    passed: int = 0

    def after(self, row: StoredRun) -> "StoredPlace":
        """The place behind the row that comes next."""
        return StoredPlace(row.started_at, self.passed + 1 if row.started_at == self.began else 1)

    def text(self) -> str:
        return "" if self.began is None else f"{(self.began - EPOCH) // MICROSECOND}.{self.passed}"

    @classmethod
    def read(cls, text: str) -> "StoredPlace":
        """Read what `text` gave; raises `ValueError` or `OverflowError` for anything else."""
        if not text:
            return TOP
        if (found := _STORED.fullmatch(text)) is None:
            raise ValueError(text)
        return cls(EPOCH + int(found[1]) * MICROSECOND, int(found[2]))


TOP = StoredPlace()


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where the next page begins: a page token of the server, or a place in the store.

    `early` are the marks of runs on earlier pages that the server's index lacked. It may have them
    by now. A cursor has no ids, as whoever holds it may not see those runs, and long ones would
    make it longer than a request may say.
    """

    token: bytes | None = None
    stored: StoredPlace | None = None
    early: tuple[str, ...] = ()

    def text(self) -> str:
        if self.stored is not None:
            return f"store.{self.stored.text()}"
        token = base64.urlsafe_b64encode(self.token or b"").decode()
        return "run." + BETWEEN.join((token, *self.early))

    @classmethod
    def read(cls, text: str) -> "Cursor":
        """Read what `text` gave; raises `InvalidInput` for anything else."""
        kind, _, rest = text.partition(".")
        try:
            if kind == "store":
                return cls(stored=StoredPlace.read(rest))
            if kind == "run":
                told, *early = rest.split(BETWEEN)
                token = base64.b64decode(told, altchars=b"-_", validate=True)
                return cls(token=token, early=tuple(early))
        except (ValueError, OverflowError, binascii.Error):
            pass
        raise InvalidInput(
            f"{text[:40]!r} is not a cursor of a list.", cure="Start again without one."
        )


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Lists and finds runs."""

    server: TemporalGateway
    records: RecordStore
    journal: Journal
    facts: InstallationInfo
    now: Callable[[], datetime]

    async def _query(self, wanted: RunFilter) -> str:
        """The visibility query of a filter."""
        # With an encryption key, the server has only the digest of a label.
        told = wanted.model_copy(update={"label": self.facts.marked(wanted.label)})
        return query_of(told, loops=await self._loops(), task_queue=self.facts.task_queue)

    async def _loops(self) -> str:
        return loops_queue(await self.records.installation())

    async def page(self, wanted: RunFilter) -> RunPage:
        """One page of runs; see `Gateway.list`."""
        limit = max(1, min(RUNS_OF_A_PAGE, wanted.limit))
        cursor = Cursor.read(wanted.cursor) if wanted.cursor else Cursor()
        if cursor.stored is not None:
            return await self._stored(wanted, limit=limit, place=cursor.stored, note="")
        try:
            # A list that began without such runs goes on without: what is newer begins on its top.
            begins = wanted.cursor is None or bool(cursor.early)
            early = (await self._early(wanted, but=cursor.early))[:limit] if begins else ()
            told = (*cursor.early, *(_mark(row.id) for row in early))
            rows, token = await self._listed(wanted, limit - len(early), cursor.token, but=told)
        except ServiceUnavailable as away:
            note = f"{away.message} This is what the store keeps. {away.cure}".rstrip()
            return await self._stored(wanted, limit=limit, place=TOP, note=note)
        rows = (*early, *rows)
        if token is not None:
            return RunPage(runs=rows, cursor=Cursor(token=token, early=told).text())
        if wanted.root is not None:
            return RunPage(runs=rows)  # the store cannot list a tree
        if len(rows) >= limit:
            return RunPage(runs=rows, cursor=Cursor(stored=TOP).text())
        rest = await self._stored(wanted, limit=limit - len(rows), place=TOP, note="")
        seen = {*told, *(_mark(row.id) for row in rows)}
        others = (row for row in rest.runs if _mark(row.id) not in seen)
        return rest.model_copy(update={"runs": (*rows, *others)})

    async def _listed(
        self, wanted: RunFilter, limit: int, token: bytes | None, *, but: Sequence[str]
    ) -> tuple[tuple[RunRow, ...], bytes | None]:
        """So many other rows of the server's list, if there are so many; the token of the rest."""
        if not limit:
            # Not None, which means that the server's list has come to its end.
            return (), token or b""
        query, rows = await self._query(wanted), tuple[RunRow, ...]()
        while True:
            found, token = await self.server.page(query, limit=limit - len(rows), cursor=token)
            named = await with_words(await self._current(found), self.records)
            shown = zip(named, await self._rows(named), strict=True)
            # The server's words for one that was torn are those of when it was open.
            rows += tuple(
                row
                for look, row in shown
                if _mark(row.id) not in but and (not is_torn(look) or row_fits(row, wanted))
            )
            if token is None or len(rows) >= limit:
                return rows, token

    async def _early(self, wanted: RunFilter, *, but: Sequence[str]) -> tuple[RunRow, ...]:
        """Rows of other runs that the server's index lacks yet."""
        from perdure.gateway.unlisted_runs import Unlisted  # to find one run does without

        unlisted = Unlisted(server=self.server, records=self.records, now=self.now)
        looks = await with_words(await unlisted.looks(root=wanted.root), self.records)
        rows = [row for row in await self._rows(looks) if _mark(row.id) not in but]
        return tuple(row for row in rows if row_fits(row, wanted))

    async def _rows(self, looks: Sequence[ExecutionInfo]) -> tuple[RunRow, ...]:
        shown = [row_of(look, self.now()) for look in looks]
        spent = await with_progress(looks, shown, self.journal)
        return await with_lives(looks, spent, self.records)

    async def count(self, wanted: RunFilter) -> int:
        """How many runs of this installation the server lists for a filter."""
        opened = f"TaskQueue = {quoted(await self._loops())}"
        return await self.server.count(f"{await self._query(wanted)} AND {opened}")

    async def _current(self, found: Sequence[ExecutionInfo]) -> list[ExecutionInfo]:
        """Each run once, with its newest execution; retries and resets leave older ones."""
        newest: dict[str, ExecutionInfo] = {}
        for look in [*found, *await self._others(found)]:
            known = newest.get(look.id)
            if known is None or known.started_at < look.started_at:
                newest[look.id] = look
        return [look for look in found if newest[look.id].execution == look.execution]

    async def _others(self, found: Sequence[ExecutionInfo]) -> list[ExecutionInfo]:
        """Other executions of the closed runs among these, which may be on another page."""
        closed = [look.id for look in found if not look.open]
        if not closed:
            return []
        return await self._executions_of(dict.fromkeys(closed))

    async def _executions_of(self, ids: Iterable[str]) -> list[ExecutionInfo]:
        """All executions of these runs that the server lists."""
        names = ", ".join(quoted(name) for name in ids)
        looks, _ = await self.server.page(
            f"WorkflowId IN ({names}) AND {ONE_EACH}", limit=RUNS_OF_A_PAGE
        )
        return looks

    async def resolve(self, name: str) -> str:
        """The id for a prefix or `@last`; see `Gateway.resolve`."""
        if name == LAST:
            newest = await self.records.find_runs(limit=1, roots=True)
            if not newest:
                raise NotFound("There is no run yet.", cure='Start one: perdure run "a goal".')
            return newest[0].id
        if not RUN_ID.fullmatch(name):
            raise InvalidInput(
                f"{name[:80]!r} cannot be the beginning of a run id.",
                cure="Ids have letters, digits, dashes and dots; @last is the newest run.",
            )
        if await self.records.run(name) is not None:
            return name
        found = await self._starting_with(name)
        if name in found or len(found) == 1:
            return name if name in found else found[0]
        if not found:
            raise await self._unknown(name)
        shown = ", ".join(found[:CANDIDATES]) + (" …" if len(found) > CANDIDATES else "")
        raise InvalidInput(
            f"{name!r} is the beginning of {len(found)} run ids: {shown}.", cure="Give more of it."
        )

    async def _starting_with(self, prefix: str) -> list[str]:
        roots = await self.records.find_runs(prefix=prefix, roots=True)
        found = [row.id for row in roots or await self.records.find_runs(prefix=prefix)]
        queue = self.facts.task_queue
        known = f"({ours(await self._loops(), queue)} OR {unopened(queue)})"
        query = f"{known} AND {ONE_EACH} AND WorkflowId STARTS_WITH {quoted(prefix)}"
        try:
            looks, _ = await self.server.page(query, limit=100)
        except ServiceUnavailable:
            looks = []
        named = dict.fromkeys([*found, *(look.id for look in looks)])
        # Ids of child runs begin with that of their parent; a prefix means the parent alone.
        return [name for name in named if not any(is_below(name, other) for other in named)]

    async def _unknown(self, name: str) -> NotFound:
        known = [row.id for row in await self.records.find_runs(limit=STORED_RUNS, roots=True)]
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f" The nearest: {', '.join(near)}." if near else ""
        return NotFound(f"There is no run {name}.{hint}", cure="`perdure list` lists all runs.")

    async def _stored(
        self, wanted: RunFilter, *, limit: int, place: StoredPlace, note: str
    ) -> RunPage:
        """Runs that the server no longer lists; all stored runs while it is away.

        If few of very many runs fit the filter, pages are short, but each has a cursor.
        """
        rows: list[RunRow] = []
        size, passed = max(limit, LEAST_BATCH), 0
        while len(rows) < limit and passed < STORED_RUNS:
            # One row more than is looked at, which tells whether there are others.
            batch = await self._of_the_list(wanted, limit=size + 1, place=place)
            # Of very many runs few fit a filter; for the others nobody asks the server.
            asked = [row for row in batch[:size] if fits(row, wanted) or fits(gone(row), wanted)]
            known = {} if note else await self._known(asked)
            for row in batch[:size]:
                if len(rows) == limit:
                    break
                # Also behind rows that do not fit: the cursor is a place in the store.
                place, passed = place.after(row), passed + 1
                # The ids of other trees may begin alike.
                if not _of_tree(row.id, wanted.root):
                    continue
                rows += await self._row(row, known.get(row.id), wanted, away=bool(note))
            else:
                if len(batch) <= size:
                    return RunPage(runs=tuple(rows), note=note)
        return RunPage(runs=tuple(rows), cursor=Cursor(stored=place).text(), note=note)

    async def _row(
        self, row: StoredRun, look: ExecutionInfo | None, wanted: RunFilter, *, away: bool
    ) -> tuple[RunRow, ...]:
        """The row of a stored run that fits and that the server's list does not show, or none."""
        fitting = fits(row, wanted)
        if look is not None and look.parent is not None:
            # A workflow of somebody else started it: a root for us, but not for the server.
            return await self._rows([look]) if fitting else ()
        if row.ended_at is not None or away:
            shown = look is None or _never_began(look) or self._is_hidden(look, wanted)
            return (row_of_stored(row),) if fitting and shown else ()
        if look is None and (there := await elsewhere(self.server, row)):
            return (row_of_elsewhere(row, there),) if fitting else ()
        if look is None and fits(gone(row), wanted) and await self._is_gone(row):
            return (row_of_gone(row),)
        return ()

    def _is_hidden(self, look: ExecutionInfo, wanted: RunFilter) -> bool:
        """Whether the server lists a run that has ended by what a torn execution of it said."""
        return is_torn(look) and not row_fits(row_of(look, self.now()), wanted)

    async def _of_the_list(
        self, wanted: RunFilter, *, limit: int, place: StoredPlace
    ) -> Sequence[StoredRun]:
        """Stored root runs; for one tree, all runs whose ids begin with that of its root."""
        return await self.records.find_runs(
            prefix=wanted.root or "",
            limit=limit,
            offset=place.passed,
            roots=wanted.root is None,
            until=place.began,
        )

    async def _is_gone(self, row: StoredRun) -> bool:
        """Whether the server has deleted an open run, or lost it, or never had it."""
        if may_begin(row, self.now()):
            return False
        try:
            return await self.server.look(row.id) is None
        except ServiceUnavailable:
            return False

    async def _known(self, rows: Sequence[StoredRun]) -> dict[str, ExecutionInfo]:
        if not rows:
            return {}
        try:
            looks = await self._executions_of(row.id for row in rows)
        except ServiceUnavailable:
            return {}
        # So that the newest execution of a run is the one that stays.
        oldest_first = sorted(looks, key=lambda look: look.started_at)
        return {look.id: look for look in await with_words(oldest_first, self.records)}


def _mark(run: str) -> str:
    """A run in a cursor: short, and no words of its goal."""
    return hashlib.sha256(run.encode()).hexdigest()[:MARK_DIGITS]


def _never_began(look: ExecutionInfo) -> bool:
    """Whether a run was refused when it was opened; the server's lists do not include those."""
    return look.text("PerdureKind") is None


def _of_tree(run: str, root: str | None) -> bool:
    return root is None or run == root or is_below(run, root)
