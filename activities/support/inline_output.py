"""How much of an output a workflow returns inline, next to its address."""

from perdure.domain.ports import BlobStore


async def inline_output(
    blobs: BlobStore, address: str | None, limit: int
) -> tuple[str | None, bool]:
    """The text behind an address up to `limit` bytes, and whether it was cut."""
    if address is None or not limit:
        return None, False
    text = await blobs.get_text(address)
    whole = text.encode()
    if len(whole) <= limit:
        return text, False
    return whole[:limit].decode(errors="ignore"), True
