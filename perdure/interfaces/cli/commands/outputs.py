"""What a run said and made: transcript, artifact, diff, apply."""

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from perdure.domain.foundation.errors import InvalidInput, NotAllowed, NotFound
from perdure.domain.foundation.names import fitting
from perdure.domain.foundation.tolerance import read_as
from perdure.domain.specs import RUN_SPEC
from perdure.domain.turns.records import IterationRecord
from perdure.interfaces.cli.commands.inspect import best_scored
from perdure.interfaces.cli.commands.parameters import Given, OneRun
from perdure.interfaces.cli.session import LAST
from perdure.interfaces.cli.views.history import coloured_diff, comparison_view, transcript_view
from perdure.interfaces.cli.views.layout import DIM, GOOD, line, stack
from perdure.interfaces.cli.written_files import write_file
from perdure.interfaces.contents import described, text_in, type_of
from perdure.interfaces.formatting import plural, some_of
from perdure.interfaces.services import Services
from perdure.interfaces.transcripts import record_of, transcript_head

ARTIFACT = "artifact-"
ADDRESSES = ("sha256:", "hmac:")


async def transcript(
    run: OneRun = LAST, /, *, iteration: int | None = None, session: Given
) -> None:
    """Show the conversation of a run.

    Args:
        run: A run id, a unique beginning of one, or @last.
        iteration: Show this iteration instead of the last one.
    """
    async with session.connected() as services:
        resolved = await services.gateway.resolve(run)
        head = await transcript_head(services, resolved, iteration)
        messages = await services.transcripts.load(head)
        session.output.show(transcript_view(messages), list(messages))


async def artifact(
    run: OneRun,
    ref: str,
    /,
    *,
    output: Annotated[Path | None, Parameter(name=("--output", "--to"))] = None,
    force: bool = False,
    session: Given,
) -> None:
    """Print one artifact of a run, by its reference.

    Text is printed as text; a picture or another file goes to a pipe as its bytes.

    Args:
        run: A run id, a unique beginning of one, or @last.
        ref: The reference from `result`, `transcript` or `artifacts`, or a unique beginning of it.
        output: Write its bytes into this file, whatever they are.
        force: Overwrite an existing file.
    """
    async with session.connected() as services:
        resolved = await services.gateway.resolve(run)
        address = await _address(services, resolved, ref)
        data = await services.blobs.get(address)
    facts = {"type": "artifact", "run": resolved, "ref": address}
    facts |= {"media_type": type_of(data), "bytes": len(data)}
    if output is not None:
        path = session.context.folder / output
        await asyncio.to_thread(write_file, path, data, option="--output", force=force)
        session.output.show(
            line(("✓ ", GOOD), f"{path}: {described(data)}"), {**facts, "path": str(path)}
        )
    elif session.output.as_json:
        session.output.emit({**facts, **_content(data)})
    elif (text := text_in(data)) is not None:
        session.output.raw(text)
    elif session.output.is_terminal:
        told = line(f"{described(data)}: a terminal cannot show it.")
        way = f"write it into a file: perdure artifact {resolved} {ref} --output FILE"
        session.output.tell(stack(told, line((way, DIM))))
    else:
        session.output.raw_bytes(data)


async def diff(
    run: OneRun = LAST,
    first: Annotated[int | None, Parameter(name="A")] = None,
    second: Annotated[int | None, Parameter(name="B")] = None,
    /,
    *,
    session: Given,
) -> None:
    """Show a run's changes to files, or the difference between two iterations.

    In a pipe, the changes to files are a patch that `git apply` takes.

    Args:
        run: A run id, a unique beginning of one, or @last.
        first: An iteration.
        second: The iteration to compare it with. Default: the best.
    """
    async with session.connected() as services:
        resolved = await services.gateway.resolve(run)
        patch = None if first is not None else await find_patch(services, resolved)
        if patch is not None:
            # As it is: a view has no tabs and no blanks at line ends, and so fits no file.
            if not (session.output.is_terminal or session.output.as_json):
                session.output.raw(patch)
                return
            data = {"type": "patch", "run": resolved, "patch": patch}
            session.output.show(stack(*coloured_diff(patch)), data)
            return
        pair = await _pair(services, resolved, first, second)
        texts = (await _text(services, pair[0]), await _text(services, pair[1]))
        data = {
            "type": "comparison",
            "run": resolved,
            "iterations": [item.model_dump(mode="json") for item in pair],
            "texts": list(texts),
        }
        session.output.show(comparison_view(*pair, texts=texts), data)


async def apply(run: OneRun = LAST, /, *, to: Path | None = None, session: Given) -> None:
    """Write a run's changes into your files: all of them or none.

    Args:
        run: A run id, a unique beginning of one, or @last.
        to: The folder to change. Default: the workspace of the run, which must be on this host;
            of a run without one, the current folder.
    """
    here = session.context.folder
    async with session.connected() as services:
        resolved = await services.gateway.resolve(run)
        target = here / to if to else await _workspace(services, resolved) or here
        tree = await _best_tree(services, resolved)
        base = await services.workspaces().base(run=resolved)
        paths = await services.workspaces().apply(base=base.hash, tree=tree, target=str(target))
    told = [line(("✓ ", GOOD), path) for path in paths]
    count = plural(len(paths), "file")
    data = {"type": "applied", "run": resolved, "folder": str(target), "paths": list(paths)}
    session.output.show(stack(*told, line(f"{count} changed in {target}")), data)


async def _workspace(services: Services, run: str) -> Path | None:
    """The folder that the run got a copy of; None if it got none.

    Raises:
        InvalidInput: it is not on this host.
    """
    row = await services.records.run(run)
    if row is None or row.spec is None:
        return None
    named = read_as(RUN_SPEC, await services.blobs.get(row.spec)).workspace
    if not named:
        return None
    # The run may have been started on another host. No other folder may get its changes by itself.
    if not Path(named).is_dir():
        raise InvalidInput(
            f"{run} worked on {named}, which is no folder on this host.",
            cure=f"Say which folder to change: perdure apply {run} --to FOLDER",
        )
    return Path(named)


def _content(data: bytes) -> dict[str, str]:
    """The content as a JSON value."""
    text = text_in(data)
    return {"base64": b64encode(data).decode()} if text is None else {"text": text}


async def find_patch(services: Services, run: str) -> str | None:
    """The patch that a run delivers; None while it is open, or if it wrote no files."""
    try:
        ended = await services.gateway.result(run, wait=False)
    except NotAllowed:
        return None
    ref = next((item.ref for item in ended.artifacts if item.kind == "patch"), None)
    return await services.blobs.get_text(ref) if ref else None


async def _best_tree(services: Services, run: str) -> str:
    """The tree of files that the run delivers: that of its best iteration."""
    ended = await services.gateway.result(run, wait=False)
    given = next((item.ref for item in ended.artifacts if item.kind == "tree"), None)
    best = ended.best.iteration if ended.best else None
    found = next((item.tree_ref for item in ended.iterations if item.index == best), None)
    tree = given or found
    if tree is None:
        raise NotAllowed(
            f"{run} wrote no files, so there is nothing to apply.",
            cure=f"Read its text with `perdure result {run}`.",
        )
    return tree


async def _address(services: Services, run: str, ref: str) -> str:
    """The full address of a reference that the run names, from a unique beginning.

    Raises:
        NotFound: the run names no such reference.
        InvalidInput: it names several that begin so.
    """
    if ref.startswith((ARTIFACT, run)):
        return await _kept(services, run, ref)
    known = list(dict.fromkeys(await _references(services, run)))
    # By its digest too, whose kind people leave out.
    fit = fitting(ref, known) or [item for item in known if fitting(ref, [item.partition(":")[2]])]
    if len(fit) == 1:
        return fit[0]
    # A whole address is enough: transcripts name more blobs than records and results do.
    if ref.startswith(ADDRESSES) and await services.blobs.exists(ref):
        return ref
    if fit:
        raise InvalidInput(
            f"{ref!r} is the beginning of {len(fit)} references of {run}: {some_of(fit)}.",
            cure="Give more of it.",
        )
    listed = ", ".join(known) or "none"
    raise NotFound(
        f"{run} names no reference {ref!r}.",
        cure=f"Its references: {listed}. What it kept: `perdure artifacts {run}`.",
    )


async def _kept(services: Services, run: str, name: str) -> str:
    """The address of a stored artifact, from a unique beginning of its id."""
    made = await services.artifacts.artifacts_of_run(run)
    ids = fitting(name, [item.id for item in made])
    if len(ids) != 1:
        found = "several artifacts that begin" if ids else "no artifact that begins"
        raise NotFound(f"{run} has {found} {name!r}.", cure=f"List them: perdure artifacts {run}")
    return next(item.ref for item in made if item.id == ids[0])


async def _references(services: Services, run: str) -> list[str]:
    found: list[str | None] = []
    for record in await services.gateway.records(run):
        found += [record.output_ref, record.tree_ref, record.transcript, record.tools_ref]
    try:
        ended = await services.gateway.result(run, wait=False)
    except NotAllowed:
        return [item for item in found if item]
    found += [ended.output_ref, ended.transcript, *(item.ref for item in ended.artifacts)]
    return [item for item in found if item]


async def _pair(
    services: Services, run: str, first: int | None, second: int | None
) -> tuple[IterationRecord, IterationRecord]:
    """Two iterations to compare: as given, else the first and the best (or last)."""
    records = await services.gateway.records(run)
    if len(records) < 2:
        raise NotFound(
            f"{run} has {plural(len(records), 'iteration')}; two are needed to compare.",
            cure=f"`perdure result {run}` shows the output.",
        )
    kept = await best_scored(services.gateway, run)
    best = next((record for record in records if record.index == kept), records[-1])
    start = records[0] if first is None else record_of(records, first, run)
    other = best if second is None else record_of(records, second, run)
    if start.index == other.index and second is None:
        other = records[-1] if start.index != records[-1].index else records[0]
    return start, other


async def _text(services: Services, record: IterationRecord) -> str:
    return await services.blobs.get_text(record.output_ref) if record.output_ref else ""
