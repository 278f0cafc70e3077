"""What came over the wire as text: decompressed up to a cap, decoded, without markup."""

import codecs
import zlib
from collections.abc import AsyncIterable, Callable

from perdure.domain.foundation.errors import ToolFailure

BODY_BYTES = 2 * 1024 * 1024
GZIP_WINDOW = 31
TEXTS = ("text/", "application/json", "application/xml", "application/xhtml+xml")
TEXT_SUFFIXES = ("+json", "+xml", "javascript", "yaml", "toml")
PAGES = ("text/html", "application/xhtml+xml")


async def read_body(
    chunks: AsyncIterable[bytes], *, encoding: str, cap: int = BODY_BYTES
) -> tuple[bytes, bool]:
    """The body after decompression, and whether it was cut at `cap` bytes.

    Decompression never makes more than what is still missing, whatever a small body claims to be.
    """
    grow = _decoder(encoding)
    body = bytearray()
    try:
        async for chunk in chunks:
            body += grow(chunk, cap + 1 - len(body))
            if len(body) > cap:
                return bytes(body[:cap]), True
    except zlib.error as error:
        raise ToolFailure(f"The body is not valid {encoding} ({error}).", reason="broken") from None
    return bytes(body), False


def as_text(body: bytes, *, content_type: str) -> str:
    """The text of a page: HTML as Markdown, other text as it is.

    Raises:
        ToolFailure: it is no text.
    """
    media, _, parameters = content_type.partition(";")
    media = media.strip().lower() or "text/html"
    if not media.startswith(TEXTS) and not media.endswith(TEXT_SUFFIXES):
        raise ToolFailure(f"The page is {media[:80]}, which is no text.", reason="not_text")
    text = body.decode(_charset(parameters), "replace").replace("\0", "")
    return _markdown(text) if media in PAGES else text


def _decoder(encoding: str) -> Callable[[bytes, int], bytes]:
    match encoding.strip().lower():
        case "" | "identity":
            return lambda data, most: data[:most]
        case "gzip" | "x-gzip":
            return zlib.decompressobj(GZIP_WINDOW).decompress
        case other:
            raise ToolFailure(
                f"The page is packed as {other[:40]!r}, which was not asked for.", reason="broken"
            )


def _charset(parameters: str) -> str:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            try:
                return codecs.lookup(value.strip().strip("\"'")).name
            except (LookupError, ValueError):
                return "utf-8"
    return "utf-8"


def _markdown(page: str) -> str:
    # Loaded at the first page: 8 MB that no other command needs.
    from html_to_markdown import convert

    return (convert(page).content or "").strip()
