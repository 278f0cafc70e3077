"""Images and PDFs that a model is shown: the address of the content, and what is known of it.

The content itself lies in the blob store. It is loaded where a provider is called, and nowhere
else: no message, no history and no record holds it.
"""

import math
from collections.abc import Callable, Sequence

from pydantic import JsonValue, ValidationError

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.tokens import TokenSizes
from perdure.domain.llm.file_signatures import (
    SUPPORTED,
    AttachmentKind,
    MediaType,
    is_cut_off,
    kind_of,
    media_type_of,
    named_as,
)

# As base64 it is 5 MiB, more than which Claude takes of no image.
MOST_IMAGE_BYTES = 3_932_160
MOST_EDGE_PIXELS = 8_000
# A call has 32 MB at most, in base64: a third more than the content.
MOST_PDF_BYTES = 16 * 1024 * 1024
MOST_PAGES = 100
# Of all that one call shows. Claude takes larger images only where there are no more than these.
MOST_IN_A_CALL = 20
MOST_BYTES_IN_A_CALL = 20 * 1024 * 1024

CLAUDE_PATCH_PIXELS = 28
CLAUDE_PIXELS_PER_TOKEN = 750
# The documented figure is an approximate one.
MOST_IMAGE_TOKENS = 5_000
TILE_PIXELS = 512
TILE_BASE_TOKENS = 85
TILE_TOKENS = 170
TILES_FIT_PIXELS = 2_048
TILES_SHORT_PIXELS = 768
PAGE_TEXT_TOKENS = 3_000
PAGE_TOKENS = PAGE_TEXT_TOKENS + MOST_IMAGE_TOKENS


class Attachment(FrozenModel):
    """An image or PDF: its address, its type by content, its size; a PDF has pages.

    `name` is the file's own, for people and models.
    """

    ref: str
    media_type: MediaType
    bytes: int
    name: str = ""
    width: int | None = None
    height: int | None = None
    pages: int | None = None

    @property
    def kind(self) -> AttachmentKind:
        """Whether it is an image or a PDF."""
        return kind_of(self.media_type)

    @property
    def tokens(self) -> TokenSizes:
        """The most that it takes of a prompt."""
        most = image_tokens(self.width, self.height) if self.kind == "image" else None
        return TokenSizes(media=pdf_tokens(self.pages) if most is None else most)

    @property
    def words(self) -> str:
        """What people and models read in its place: `[image chart.png, image/png, 40 KB]`."""
        return f"[{self.described}]"

    @property
    def described(self) -> str:
        """The same without brackets."""
        what = "image" if self.kind == "image" else "PDF"
        facts = [f"{what} {self.name}".strip(), self.media_type]
        if self.width and self.height:
            facts.append(f"{self.width} × {self.height} pixels")
        if self.pages:
            facts.append("1 page" if self.pages == 1 else f"{self.pages} pages")
        return ", ".join([*facts, size_in_words(self.bytes)])


class Measures(FrozenModel):
    """What only a reader of the format can say: pixels of an image, pages of a PDF.

    `problem` says why the content cannot be read, empty where it can.
    """

    width: int | None = None
    height: int | None = None
    pages: int | None = None
    problem: str = ""


Measure = Callable[[bytes, MediaType], Measures]


def not_measured(_data: bytes, _media_type: MediaType) -> Measures:
    """For doors that have no reader of formats: the run's opening measures again."""
    return Measures()


def size_in_words(size: int) -> str:
    """A number of bytes for people."""
    if size < 1_024:
        return f"{size} bytes"
    return f"{size / 1_024:.0f} KB" if size < 1_024 * 1_024 else f"{size / (1_024 * 1_024):.1f} MB"


def read_attachment(
    data: bytes, *, name: str, ref: str, measure: Measure = not_measured
) -> Attachment | str:
    """The attachment that the content makes, or why no model can be shown it, with the cure.

    Args:
        data: the whole file.
        name: as people know it; it is in every message, and decides nothing.
        ref: the address of the content.
        measure: reads pixels and pages.
    """
    media_type = media_type_of(data)
    if media_type is None:
        promised = named_as(name)
        told = f"its name promises {promised}, but the content is not" if promised else "it is not"
        return f"{told} {SUPPORTED}; save it in one of these formats"
    if why := _too_large(data, media_type):
        return why
    if is_cut_off(data, media_type):
        return f"the end of the {media_type} file is missing; fetch or save it again"
    found = measure(data, media_type)
    if why := found.problem or _unfit(found):
        return why
    return Attachment(
        ref=ref,
        media_type=media_type,
        bytes=len(data),
        name=name,
        width=found.width,
        height=found.height,
        pages=found.pages,
    )


def _too_large(data: bytes, media_type: MediaType) -> str:
    image = kind_of(media_type) == "image"
    limit = MOST_IMAGE_BYTES if image else MOST_PDF_BYTES
    if len(data) <= limit:
        return ""
    cure = "scale it down or compress it" if image else "split it, or compress its images"
    what = "an image" if image else "a PDF"
    return f"it has {len(data):,} bytes, {what} may have {limit:,}; {cure}"


def _unfit(found: Measures) -> str:
    edge = max(found.width or 0, found.height or 0)
    if edge > MOST_EDGE_PIXELS:
        said = f"{found.width:,} × {found.height:,} pixels"
        return f"it has {said}, an edge may have {MOST_EDGE_PIXELS:,}; scale it down"
    if (found.pages or 0) > MOST_PAGES:
        return f"it has {found.pages} pages, a PDF may have {MOST_PAGES}; split it"
    return ""


def amount_problem(attachments: Sequence[Attachment]) -> str:
    """Why a task cannot show all this at once, with the cure; empty where it can."""
    size = sum(one.bytes for one in attachments)
    pages = sum(one.pages or 0 for one in attachments)
    cure = "give fewer, or put them into the workspace, where the model reads them one by one"
    if len(attachments) > MOST_IN_A_CALL:
        return f"{len(attachments)} images and PDFs, {MOST_IN_A_CALL} are allowed; {cure}"
    if size > MOST_BYTES_IN_A_CALL:
        said = f"{size:,} bytes of images and PDFs, {MOST_BYTES_IN_A_CALL:,} are allowed"
        return f"{said}; {cure}"
    return f"{pages} pages of PDFs, {MOST_PAGES} are allowed; {cure}" if pages > MOST_PAGES else ""


def attachment_in(value: JsonValue) -> Attachment | None:
    """The attachment that a stored input is; None for any other value."""
    if not isinstance(value, dict) or not {"ref", "media_type"} <= value.keys():
        return None
    try:
        return Attachment.model_validate(value)
    except ValidationError:
        return None


def attachment_value(attachment: Attachment) -> dict[str, JsonValue]:
    """The input that an attachment is kept as in a specification."""
    return attachment.model_dump(mode="json", exclude_none=True)


def image_tokens(width: int | None, height: int | None) -> int:
    """The most that an image of this size in pixels takes; one of unknown size the most of all."""
    if not width or not height:
        return MOST_IMAGE_TOKENS
    patches = math.ceil(width / CLAUDE_PATCH_PIXELS) * math.ceil(height / CLAUDE_PATCH_PIXELS)
    area = math.ceil(width * height / CLAUDE_PIXELS_PER_TOKEN)
    return max(min(max(patches, area), MOST_IMAGE_TOKENS), tile_tokens(width, height))


def tile_tokens(
    width: int, height: int, *, base: int = TILE_BASE_TOKENS, tile: int = TILE_TOKENS
) -> int:
    """What an image takes where tiles are counted."""
    fit = min(1.0, TILES_FIT_PIXELS / max(width, height))
    short = min(1.0, TILES_SHORT_PIXELS / (min(width, height) * fit))
    across, down = (max(1.0, side * fit * short) for side in (width, height))
    return base + tile * math.ceil(across / TILE_PIXELS) * math.ceil(down / TILE_PIXELS)


def pdf_tokens(pages: int | None) -> int:
    """The most that a PDF takes: the text of its pages, and an image of each."""
    return PAGE_TOKENS * max(1, pages or 1)
