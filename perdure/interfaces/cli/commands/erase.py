"""Erase runs: one, those with a label, or those that mention a text."""

from typing import Annotated

from cyclopts import Parameter

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.retention.erasure import Erased, added_up
from perdure.interfaces.cli.commands.parameters import Given
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.views.layout import DIM, GOOD, line, stack
from perdure.interfaces.erasure_words import BOOKS_WORDS, SERVER_WORDS, erased_words
from perdure.interfaces.formatting import plural
from perdure.interfaces.services import Services


async def erase(
    run: Annotated[str | None, Parameter(name="ID")] = None,
    /,
    *,
    subject: str | None = None,
    label: str | None = None,
    resume: bool = False,
    later: bool = False,
    yes: bool = False,
    session: Given,
) -> None:
    """Erase ended runs: transcripts, outputs, what only they name, and what memory has of them.

    Without --yes it only shows what would go. Sums of costs stay right.

    Args:
        run: A run id, a unique beginning of one, or @last.
        subject: All runs whose records or content mention this text, such as a name.
        label: All runs with this label.
        resume: Go on with erasures that were broken off.
        later: Leave content to the next collection, which reads the whole installation anyway.
        yes: Erase them; it cannot be undone.
    """
    if [run is not None, subject is not None or label is not None, resume].count(True) != 1:
        raise InvalidInput(
            "Name one run, or --subject or --label, or --resume.",
            cure="perdure erase RUN, or --subject TEXT",
        )
    async with session.connected() as services:
        roots = await _roots(session, services, run, subject=subject, label=label)
        if not roots:
            told = "No erasure was broken off." if resume else "No run fits."
            session.output.show(line(told), {"type": "erased", "runs": []})
            return
        if yes:
            await _erase(session, services, roots, later=later)
            session.output.note(SERVER_WORDS, style=DIM)
            session.output.note(BOOKS_WORDS, style=DIM)
            return
        for root in roots:
            now = session.context.now()
            _show(session, root, await services.erasure().drop(root, now=now, dry_run=True))
        session.output.note("Nothing was erased. Erase it with --yes; there is no way back.")


async def _roots(
    session: Session, services: Services, run: str | None, *, subject: str | None, label: str | None
) -> list[str]:
    if run is not None:
        return [await services.gateway.resolve(run)]
    erasure = services.erasure()
    if subject is None and label is None:
        return list((await erasure.pending()).roots)
    with session.output.working("looking through all runs") as progress:
        return await erasure.find(subject=subject, label=label, tell=progress)


async def _erase(session: Session, services: Services, roots: list[str], *, later: bool) -> None:
    """Erase each tree, then sweep the content of all of them in one pass."""
    erasure, now = services.erasure(), session.context.now()
    # All of them before the first goes: after a kill, `--resume` finds what was asked for.
    await erasure.ask(roots, now=now)
    dropped: list[Erased] = []
    with session.output.working("erasing") as progress:
        for number, root in enumerate(roots, 1):
            progress(f"erasing {root} ({number} of {len(roots)})")
            dropped.append(await erasure.drop(root, now=now))
            await session.note_decision(services, "run_erased", "", run=root)
        # Once for all: finding what else names a blob reads the whole installation.
        swept = None if later else await erasure.sweep(roots, now=now, tell=progress)
    whole = added_up(dropped)
    if swept is not None:
        whole = whole.with_content(swept)
    _show(session, plural(len(roots), "run") if len(roots) > 1 else roots[0], whole)
    if later:
        session.output.note("Their content goes with the next collection: perdure gc")


def _show(session: Session, what: str, found: Erased) -> None:
    verb = "would erase" if found.dry_run else "erased"
    lines = [line(f"  {text}") for text in erased_words(found)]
    session.output.show(stack(line(("✓ ", GOOD), f"{verb} {what}"), *lines), found)
