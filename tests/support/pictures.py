"""Small images and PDFs of every supported type, made by hand: no test needs an image library."""

import struct
import zlib
from io import BytesIO

import pypdf


def png(width: int = 4, height: int = 3) -> bytes:
    """A grey PNG."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + b"\x80" * width for _ in range(height)))
    parts = (_chunk(b"IHDR", header), _chunk(b"IDAT", rows), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _chunk(name: bytes, data: bytes) -> bytes:
    tail = struct.pack(">I", zlib.crc32(name + data))
    return struct.pack(">I", len(data)) + name + data + tail


def gif(width: int = 4, height: int = 3) -> bytes:
    """A GIF of one frame."""
    screen = struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x02\x44\x01\x00"
    return b"GIF89a" + screen + frame + b"\x3b"


def jpeg(width: int = 4, height: int = 3) -> bytes:
    """The frame of a JPEG: its markers, without pixels."""
    frame = struct.pack(">BHHB", 8, height, width, 1) + b"\x01\x11\x00"
    app0 = b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0"
    parts = [b"\xff\xe0" + struct.pack(">H", len(app0) + 2) + app0]
    parts.append(b"\xff\xc0" + struct.pack(">H", len(frame) + 2) + frame)
    return b"\xff\xd8" + b"".join(parts) + b"\xff\xd9"


def webp(width: int = 4, height: int = 3) -> bytes:
    """The extended header of a WebP with an empty frame."""
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBPVP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + size
    return b"RIFF" + struct.pack("<I", len(body)) + body


def pdf(pages: int = 1, *, password: str = "") -> bytes:
    """A PDF of blank pages."""
    writer = pypdf.PdfWriter()
    for _ in range(pages):
        writer.add_blank_page(width=595, height=842)
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    made = BytesIO()
    writer.write(made)
    return made.getvalue()
