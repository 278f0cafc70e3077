"""Erases runs: their content, their traces in memory, and what the server keeps.

The order allows an interruption anywhere; a repeat or the next collection completes the erasure:

1. Note the roots that are to be erased.
2. For each tree, write tombstones and the list of its blobs, delete it at the server, delete rows.
3. For all trees at once, search the whole installation, and delete blobs that nothing else names.

A blob that was written or renewed within the last hour stays, as a step may be about to name it. It
is still on the list, so the next collection deletes it.
"""

import json
import re
import unicodedata
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime, timedelta

from perdure.adapters.stores.maintenance import named_by_rows
from perdure.adapters.stores.open_stores import Stores
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.refs import addresses_in
from perdure.domain.retention.erasure import Erased, Pending, RootRun
from perdure.interfaces.gateways import RunGateway
from perdure.interfaces.services import OnProgress
from perdure.operations.clocks import as_dated
from perdure.operations.erase_rows import TreeEraser
from perdure.operations.following import content, reachable
from perdure.operations.gc import YOUNG

SHORTEST_SUBJECT = 3
TOLD_EVERY = 100
# With any number of backslashes: the reply of a tool is JSON inside the JSON of a transcript. It
# begins at the first of a row, or a long row would take time by the square of its length.
_ESCAPED = re.compile(r'(?<!\\)\\+(?:u([0-9a-fA-F]{4})|(["/]))')


class Eraser:
    """Erases runs of one installation.

    Args:
        stores: the stores of the installation.
        gateway: reads and deletes what the server keeps.
    """

    def __init__(self, stores: Stores, gateway: RunGateway) -> None:
        self._stores = stores
        self._gateway = gateway
        self._rows = stores.erasure()
        self._trees = TreeEraser(stores, gateway)

    async def find(
        self,
        *,
        subject: str | None = None,
        label: str | None = None,
        tell: OnProgress = lambda _: None,
    ) -> list[str]:
        """Root runs with this label, or whose rows or content mention a text in any case.

        Raises:
            InvalidInput: the text is too short to identify somebody.
        """
        if subject is not None and len(subject.strip()) < SHORTEST_SUBJECT:
            raise InvalidInput(
                f"{subject!r} is too short a text to look for.",
                cure=f"Give {SHORTEST_SUBJECT} characters at least.",
            )
        await self._rows.adopt()
        found: list[str] = []
        looked_at = 0
        async for row in self._roots():
            looked_at += 1
            if looked_at % TOLD_EVERY == 0:
                tell(f"{looked_at} runs looked at, {len(found)} found")
            if label is not None and row.label != label:
                continue
            if subject is None or await self._mentions(row.id, subject.strip()):
                found.append(row.id)
        return found

    async def _roots(self) -> AsyncIterator[RootRun]:
        page = await self._rows.roots()
        while page:
            for root in page:
                yield root
            page = await self._rows.roots(after=page[-1].id)

    async def ask(self, roots: Sequence[str], *, now: datetime) -> None:
        """Note runs that are to be erased, so that a collection completes it after a crash.

        Raises:
            NotFound: there is and was no such run; nothing was noted.
            NotAllowed: one of them has not ended, or it is below another run; nothing was noted.
        """
        for root in roots:
            await self._trees.check(root)
        await self._rows.ask(roots, at=now)

    async def pending(self) -> Pending:
        """Erasures that were begun and are not complete."""
        return await self._rows.pending()

    async def drop(self, root: str, *, now: datetime, dry_run: bool = False) -> Erased:
        """Erase a tree except for its content, which `sweep` deletes; see `TreeEraser`."""
        return await (self._trees.plan(root) if dry_run else self._trees.drop(root, now=now))

    async def sweep(
        self,
        roots: Sequence[str],
        *,
        now: datetime,
        young: timedelta = YOUNG,
        tell: OnProgress = lambda _: None,
    ) -> Erased:
        """Delete the content of erased trees, with one search of the whole installation.

        Blobs that something else names stay, and so do young ones, for the next collection.
        """
        now = await as_dated(now, self._stores.database)
        going, names = set[str](), set[str]()
        for root in roots:
            going |= await self._rows.marked_addresses(root)
            names |= {stone.run for stone in await self._rows.tombstones(root)}
            names |= {*await self._trees.learners(root)}
        others, busy = await self._kept_by_server(names, tell, since=now - young)
        tell("reading all rows")
        others |= await named_by_rows(self._stores.database)
        needed = await reachable(self._stores.blobs, others, tell=tell)
        # A running step may be about to name what it has stored, however long it has run.
        cutoff = min([now - young, *(began - young for began in busy)])
        unneeded = sorted(going - needed)
        sizes = await self._stores.blobs.delete(unneeded, written_before=cutoff)
        # Asked anew: `delete` tells how much went, and not what stayed.
        left = [one for one in unneeded if await self._stores.blobs.exists(one)]
        # Also those that others name, as no later collection could delete them for these runs.
        await self._rows.unmark(sorted(going - set(left)))
        return Erased(
            blobs=len(sizes),
            bytes=sum(sizes),
            shared=len(going & needed),
            later=len(left),
            later_at=now + young if left else None,
        )

    async def erase(
        self, root: str, *, now: datetime, dry_run: bool = False, young: timedelta = YOUNG
    ) -> Erased:
        """Erase a run, the runs below it and what memory learned; a repeat completes it.

        Raises:
            NotFound: there is and was no such run.
            NotAllowed: one of them has not ended, or it is below another run.
            ServiceUnavailable: the server does not answer; nothing was deleted.
        """
        if dry_run:
            return await self._trees.plan(root)
        await self.ask([root], now=now)
        dropped = await self.drop(root, now=now)
        return dropped.with_content(await self.sweep([root], now=now, young=young))

    async def _kept_by_server(
        self, gone: set[str], tell: OnProgress, *, since: datetime
    ) -> tuple[set[str], list[datetime]]:
        """The addresses in histories of other runs, and when running steps began."""
        others, busy, read = set[str](), list[datetime](), 0
        async for found in self._gateway.retained():
            read += 1
            if read % TOLD_EVERY == 0:
                tell(f"{read} histories read")
            # The server still lists erased runs for a moment; these must not keep what they name.
            if found.run not in gone:
                for data in found.content:
                    others |= addresses_in(data)
            if found.busy_since is not None and found.may_work(since=since):
                busy.append(found.busy_since)
        return others, busy

    async def _mentions(self, root: str, subject: str) -> bool:
        """Whether rows of a tree, or blobs that they lead to, contain a text."""
        names = [row.id for row in await self._rows.tree(root)]
        texts = await self._rows.texts(names)
        if any(mentions(text, subject) for text in texts):
            return True
        roots: set[str] = set()
        for text in texts:
            roots |= addresses_in(text.encode(errors="replace"))
        for address in await reachable(self._stores.blobs, roots):
            text = (await content(self._stores.blobs, address)).decode(errors="replace")
            if mentions(text, subject):
                return True
        return False


def mentions(text: str, subject: str) -> bool:
    """Whether a text contains another in any case and form, as it is or as JSON may have it."""
    needles = {_folded(subject), _folded(json.dumps(subject)[1:-1])}
    return any(needle in told for told in _readings(text) for needle in needles)


def _readings(text: str) -> Iterator[str]:
    """A text, folded: as it is, and with the signs for which JSON has numbers or backslashes.

    A capital letter has another number, so that of `Ü` would never be found for `ü`.
    """
    yield _folded(text)
    if _ESCAPED.search(text):
        plain = _ESCAPED.sub(lambda found: found[2] or chr(int(found[1], 16)), text)
        # JSON has two numbers for a sign beyond the first 65,536, such as `𠮷` in a name.
        pairs = plain.encode("utf-16", "surrogatepass")
        yield _folded(pairs.decode("utf-16", "replace"))


def _folded(text: str) -> str:
    # macOS writes the accents of `José` as signs of their own, others as one sign with the letter.
    return unicodedata.normalize("NFC", text).casefold()
