"""Erasing runs: of one, of a label, or of all that mention a text."""

from typing import Annotated

from cyclopts import Parameter

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.retention.erasure import Erased
from perdure.interfaces.cli.commands.parameters import Given
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.views.layout import DIM, GOOD, line, stack
from perdure.interfaces.erasure_words import BOOKS_WORDS, SERVER_WORDS, erased_words
from perdure.interfaces.services import Services


async def erase(
    run: Annotated[str | None, Parameter(name="ID")] = None,
    /,
    *,
    subject: str | None = None,
    label: str | None = None,
    yes: bool = False,
    session: Given,
) -> None:
    """Erase ended runs: transcripts, outputs, what only they name, and what memory has of them.

    Without --yes it only shows what would go. Sums of costs stay right.

    Args:
        run: A run id, a unique beginning of one, or @last.
        subject: All runs whose records or content mention this text, such as a name.
        label: All runs with this label.
        yes: Erase them; it cannot be undone.
    """
    if (run is None) == (subject is None and label is None):
        raise InvalidInput(
            "Name one run, or --subject or --label.", cure="perdure erase RUN, or --subject TEXT"
        )
    async with session.connected() as services:
        erasure = services.erasure()
        if run is not None:
            roots = [await services.gateway.resolve(run)]
        else:
            with session.output.working("looking through all runs"):
                roots = await erasure.find(subject=subject, label=label)
        if not roots:
            session.output.show(line("No run fits."), {"type": "erased", "runs": []})
            return
        for root in roots:
            found = await _one(session, services, root, dry_run=not yes)
            _show(session, root, found)
        if yes:
            session.output.note(SERVER_WORDS, style=DIM)
            session.output.note(BOOKS_WORDS, style=DIM)
        else:
            session.output.note("Nothing was erased. Erase it with --yes; there is no way back.")


async def _one(session: Session, services: Services, root: str, *, dry_run: bool) -> Erased:
    found = await services.erasure().erase(root, now=session.context.now(), dry_run=dry_run)
    if not dry_run:
        await session.decided(services, "run_erased", "", run=root)
    return found


def _show(session: Session, root: str, found: Erased) -> None:
    verb = "would erase" if found.dry_run else "erased"
    lines = [line(f"  {text}") for text in erased_words(found)]
    session.output.show(stack(line(("✓ ", GOOD), f"{verb} {root}"), *lines), found)
