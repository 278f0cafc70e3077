"""Turns the result of an MCP tool into text for a model; images and sound are only named."""

import json

import mcp.types as wire

QUESTION_CHARACTERS = 500


def as_text(result: wire.CallToolResult) -> str:
    """Render a whole tool result as text.

    Structured content is added unless a text block already says the same.
    """
    texts = [_block(block) for block in result.content]
    structured: object = result.structured_content
    if structured is not None and not any(_says(text, structured) for text in texts):
        texts.append(json.dumps(structured, indent=2, ensure_ascii=False))
    return "\n".join(text for text in texts if text) or "done"


def declined(question: str) -> str:
    """Tells a model that the server asked a person during the call, and was declined."""
    asked = " ".join(question.split())[:QUESTION_CHARACTERS]
    return (
        f"\n[The server asked a person in the middle of the call: {asked!r}. Nobody can be asked "
        "there, so it was declined. If a person has to decide it, ask with human.ask; call again "
        "with the answer among the arguments only if the tool takes it and may be called twice.]"
    )


def _block(block: wire.ContentBlock) -> str:
    match block:
        case wire.TextContent():
            return block.text
        case wire.ImageContent() | wire.AudioContent():
            return f"[{block.type}, {block.mime_type}, {_bytes(block.data)} bytes; not shown]"
        case wire.ResourceLink():
            about = f": {block.description}" if block.description else ""
            return f"[resource {block.name} at {block.uri}{about}]"
        case wire.EmbeddedResource():
            return _resource(block.resource)


def _resource(resource: wire.TextResourceContents | wire.BlobResourceContents) -> str:
    if isinstance(resource, wire.TextResourceContents):
        return f"[resource {resource.uri}]\n{resource.text}"
    kind = resource.mime_type or "unknown type"
    return f"[resource {resource.uri}, {kind}, {_bytes(resource.blob)} bytes; not shown]"


def _bytes(encoded: str) -> int:
    return len(encoded) * 3 // 4


def _says(text: str, structured: object) -> bool:
    # Servers wrap a plain value in `result`, because structured content must be an object.
    if structured == {"result": text}:
        return True
    try:
        said: object = json.loads(text)
    except ValueError:
        return False
    return structured in (said, {"result": said})
