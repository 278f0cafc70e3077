"""Files of the start form: newly chosen ones, and those kept from an earlier submission.

Browsers never fill file fields again, so a form that is shown again has lost its files. By then
images and PDFs are in the store, and the form carries their metadata; texts become input fields.
"""

import base64
import re
from collections.abc import Collection, Mapping
from typing import Annotated

from fastapi import Depends, Request
from pydantic import JsonValue, ValidationError
from starlette.datastructures import UploadFile

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.plain_text import visible
from perdure.domain.llm.attachments import (
    Attachment,
    amount_problem,
    attachment_value,
    read_attachment,
    size_in_words,
)
from perdure.domain.llm.file_signatures import SUPPORTED, media_type_of, named_as
from perdure.interfaces.contents import text_in
from perdure.interfaces.plan import PlannedInput
from perdure.interfaces.web.api_calls import ApiProblem
from perdure.interfaces.web.visit import form_of

FIELD = "files"
KEPT = "kept:"
NAME_CHARACTERS = 80
# Room in the body for all other fields.
ROOM_BYTES = 64 * 1024
_NO_NAME = re.compile(r"[^a-z0-9]+")


class ChosenFiles(FrozenModel):
    """The files that came with a form, by the name of the input that each becomes.

    Args:
        contents: images and PDFs, as values of a task.
        texts: the texts of all other files.
        names: the file names of the images and PDFs.
    """

    contents: Mapping[str, JsonValue] = {}
    texts: Mapping[str, str] = {}
    names: list[str] = []


def most_bytes(body_bytes: int) -> int:
    """How many bytes of files fit into a form; the API gets them as base64, which adds a third."""
    return max(0, body_bytes - ROOM_BYTES) * 3 // 4


async def chosen(request: Request) -> list[tuple[str, bytes]]:
    """The files of a form by name; empty file fields are left out."""
    found: list[tuple[str, bytes]] = []
    for file in (await form_of(request)).getlist(FIELD):
        if not isinstance(file, UploadFile):
            continue
        try:
            if file.filename:
                found.append((file.filename, await file.read()))
        finally:
            await file.close()
    return found


Chosen = Annotated[list[tuple[str, bytes]], Depends(chosen)]


def as_inputs(files: list[tuple[str, bytes]], *, taken: Collection[str], limit: int) -> ChosenFiles:
    """Turn files into inputs of a task.

    Args:
        files: names, as the browser sends them, and contents.
        taken: names of existing inputs.
        limit: how many bytes all of them may have.

    Raises:
        ApiProblem: one cannot be an input, or they are too many or too large; it names each.
    """
    contents: dict[str, JsonValue] = {}
    texts: dict[str, str] = {}
    shown: list[Attachment] = []
    wrong: list[str] = []
    for given, data in files:
        called = file_name(given)
        name = input_name(called, {*taken, *contents, *texts})
        # By its name too: a broken picture is refused as one, and not taken for a text.
        if media_type_of(data) is not None or named_as(called) is not None:
            found = read_attachment(data, name=called, ref="")
            if isinstance(found, Attachment):
                shown.append(found)
                contents[name] = {"base64": base64.b64encode(data).decode(), "name": called}
            else:
                wrong.append(f"{called}: {found}")
        elif (text := text_in(data)) is None:
            wrong.append(f"{called}: it is neither UTF-8 text nor {SUPPORTED}")
        elif not text.strip():
            wrong.append(f"{called}: it is empty")
        else:
            texts[name] = text
    if why := amount_problem(shown):
        wrong.append(why)
    size = sum(len(data) for _, data in files)
    if size > limit:
        wrong.append(
            f"the files have {size_in_words(size)}, a form takes {size_in_words(limit)}; choose "
            "fewer or smaller ones, or let PERDURE_API_BODY_BYTES allow more"
        )
    if wrong:
        raise ApiProblem(
            422,
            "invalid_input",
            "The files cannot be taken.",
            "Choose the files again.",
            tuple(f"{FIELD}: {line}" for line in wrong),
        )
    return ChosenFiles(contents=contents, texts=texts, names=[one.name for one in shown])


def file_name(given: str) -> str:
    """A safe file name for people and models: no folders, no hidden or control characters."""
    # File systems allow line ends in names, and browsers send them.
    bare = visible(" ".join(re.split(r"[/\\]", given)[-1].split()))
    _, dot, ending = bare.rpartition(".")
    kept = f"{dot}{ending}" if len(ending) < NAME_CHARACTERS // 4 else ""
    return bare if len(bare) <= NAME_CHARACTERS else bare[: NAME_CHARACTERS - len(kept)] + kept


def input_name(called: str, taken: Collection[str]) -> str:
    """The input's name for a file: `Chart 1.png` becomes `chart_1`."""
    stem = called.rpartition(".")[0] or called
    return free_name(_NO_NAME.sub("_", stem.lower()).strip("_")[:40] or "file", taken)


def free_name(wanted: str, taken: Collection[str], *, between: str = "_") -> str:
    """The name, with the first number from 2 that makes it one that is not taken."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}{between}{number}"
    return name


def kept_of(fields: Mapping[str, str]) -> dict[str, str]:
    """The metadata of kept files by input; a file that was unticked is not in the form any more."""
    return {name.removeprefix(KEPT): told for name, told in fields.items() if name.startswith(KEPT)}


def kept_values(kept: Mapping[str, str]) -> dict[str, JsonValue]:
    """The kept files as values of a task.

    Raises:
        ApiProblem: the metadata was not written by our form.
    """
    try:
        found = {name: Attachment.model_validate_json(told) for name, told in kept.items()}
    except ValidationError:
        raise ApiProblem(
            422,
            "invalid_input",
            "The files cannot be taken.",
            "Choose the files again.",
            (f"{FIELD}: what the form says of the files taken before cannot be read",),
        ) from None
    return {name: attachment_value(one) for name, one in found.items()}


def now_kept(inputs: Collection[PlannedInput], names: Collection[str]) -> dict[str, str]:
    """The metadata to carry on, of images and PDFs that came with this form."""
    return {
        one.name: one.attachment.model_dump_json(exclude_none=True)
        for one in inputs
        # Others stand among the further fields of the task, and come from there again.
        if one.attachment is not None and one.name in names
    }


def kept_words(kept: Mapping[str, str]) -> dict[str, str]:
    """A description of each kept file; unreadable ones are left out."""
    found: dict[str, str] = {}
    for name, told in kept.items():
        try:
            found[name] = Attachment.model_validate_json(told).described
        except ValidationError:
            continue
    return found
