"""What stored bytes are to a reader: text, or a file that no terminal can show."""

from perdure.domain.llm.attachments import size_in_words
from perdure.domain.llm.file_signatures import media_type_of

TEXT = "text/plain"
ANY_BYTES = "application/octet-stream"


def text_in(data: bytes) -> str | None:
    """The bytes as text; None for an image, a PDF, and anything that is not UTF-8 text."""
    # A PDF may be valid UTF-8 throughout, so its signature decides. A zero byte never occurs in
    # text that a person wrote.
    if media_type_of(data) is not None or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def type_of(data: bytes) -> str:
    """The media type, judged by the content only."""
    # By the content alone: a declared type is whatever its sender wrote.
    return media_type_of(data) or (ANY_BYTES if text_in(data) is None else TEXT)


def described(data: bytes) -> str:
    """Type and size in words: `image/png, 40 KB (40,960 bytes)`."""
    size, exact = size_in_words(len(data)), f"{len(data):,} bytes"
    return f"{type_of(data)}, {size}" + ("" if len(data) < 1_024 else f" ({exact})")
