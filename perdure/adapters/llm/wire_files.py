"""Images and PDFs in the form of each API: inside the request, as base64.

Links and uploads are not used: the provider would fetch a link from elsewhere, and would keep an
upload.
"""

import base64
from collections.abc import Mapping, Sequence

from anthropic.types import DocumentBlockParam, ImageBlockParam
from pydantic import JsonValue

from perdure.adapters.llm.error_kinds import unsent_error
from perdure.domain.llm.attachments import Attachment
from perdure.domain.llm.transcript import Message

Files = Mapping[str, bytes]
Part = dict[str, JsonValue]
FROM_TOOLS = "What the tools showed, in the order of their results:"


def refuse_files(messages: Sequence[Message], *, model: str) -> None:
    """Refuse a conversation with images or PDFs for a model whose API has no place for them.

    Raises:
        ModelError: kind `bad_request`, nothing sent.
    """
    shown = [one for message in messages for one in message.attachments]
    if shown:
        raise unsent_error(
            f"{model} cannot be shown {shown[0].described}. "
            "Use a model that takes images and PDFs, or give the content as text."
        )


def messages_block(one: Attachment, files: Files) -> ImageBlockParam | DocumentBlockParam:
    """An image or PDF in the Messages API."""
    data = _base64(one, files)
    if one.media_type == "application/pdf":
        source = {"type": "base64", "media_type": one.media_type, "data": data}
        titled = {"title": one.name} if one.name else {}
        return {"type": "document", "source": source, **titled}  # type: ignore[return-value]
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": one.media_type, "data": data},
    }


def chat_part(one: Attachment, files: Files) -> Part:
    """An image or PDF in chat completions; the tokens of `high` detail have a known bound."""
    link = _data_uri(one, files)
    if one.kind == "pdf":
        return {"type": "file", "file": {"filename": _file_name(one), "file_data": link}}
    return {"type": "image_url", "image_url": {"url": link, "detail": "high"}}


def responses_part(one: Attachment, files: Files) -> Part:
    """An image or PDF in the Responses API."""
    link = _data_uri(one, files)
    if one.kind == "pdf":
        return {"type": "input_file", "filename": _file_name(one), "file_data": link}
    return {"type": "input_image", "image_url": link, "detail": "high"}


def _file_name(one: Attachment) -> str:
    return one.name or "document.pdf"


def _data_uri(one: Attachment, files: Files) -> str:
    return f"data:{one.media_type};base64,{_base64(one, files)}"


def _base64(one: Attachment, files: Files) -> str:
    data = files.get(one.ref)
    if data is None:
        raise unsent_error(f"The content of {one.described} was not loaded, so nothing was sent.")
    return base64.b64encode(data).decode("ascii")
