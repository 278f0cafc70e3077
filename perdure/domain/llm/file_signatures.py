"""What a file is by its first bytes, and whether its end is there; names are never trusted."""

from typing import Literal

MediaType = Literal["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"]
AttachmentKind = Literal["image", "pdf"]

SUPPORTED = "a PNG, JPEG, GIF or WebP image, or a PDF"
_STARTS: tuple[tuple[bytes, MediaType], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_NAMED: dict[str, MediaType] = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": "application/pdf",
}
_PNG_END = b"IEND\xaeB`\x82"
_WEBP_HEAD = 12
# Writers add a few bytes behind the end of a file; readers look for it this far.
_TAIL = 1_024


def media_type_of(data: bytes) -> MediaType | None:
    """The type of the content; None for what is neither a supported image nor a PDF."""
    # Sounds and films begin with RIFF too; only the second mark tells an image.
    if data[:4] == b"RIFF" and data[8:_WEBP_HEAD] == b"WEBP":
        return "image/webp"
    return next((found for start, found in _STARTS if data.startswith(start)), None)


def named_as(name: str) -> MediaType | None:
    """The type that a file's name promises; its content decides."""
    _, dot, ending = name.rpartition(".")
    return _NAMED.get(f"{dot}{ending.lower()}")


def kind_of(media_type: MediaType) -> AttachmentKind:
    """Whether a type is an image or a PDF."""
    return "pdf" if media_type == "application/pdf" else "image"


def is_cut_off(data: bytes, media_type: MediaType) -> bool:
    """Whether the end of the file is missing, as after a download that broke off."""
    tail = data[-_TAIL:]
    match media_type:
        case "image/png":
            return _PNG_END not in tail
        case "image/jpeg":
            return b"\xff\xd9" not in tail
        case "image/gif":
            return b";" not in tail
        case "image/webp":
            # It has no mark at its end, but says how long it is behind these 8 bytes.
            return len(data) < int.from_bytes(data[4:8], "little") + 8
        case "application/pdf":
            return b"%%EOF" not in tail
