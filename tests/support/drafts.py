"""Drafts of tools for tests: one that passes every stage, and ways to change it."""

from pydantic import JsonValue

from perdure.domain.generated_tools.draft import ToolDraft, Unreadable, read_draft

COUNT = '''def handler(*, text: str) -> dict:
    """Count the words of a text."""
    return {"words": len(text.split())}
'''
TEXT_SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
}


def draft(code: str = COUNT, *, name: str = "text.count", **more: object) -> ToolDraft:
    """A draft as a worker hands it in, by default of a tool that counts words."""
    read = read_draft({"name": name, "code": code, "schema": TEXT_SCHEMA, **more})
    assert not isinstance(read, Unreadable), read
    return read


def returning(expression: str, *, before: str = "", body: str = "") -> str:
    """Code of a handler of one text that returns a dict with one value."""
    inner = "".join(f"    {line}\n" for line in body.splitlines())
    return (
        f"{before}\ndef handler(*, text: str) -> dict:\n{inner}    return {{'n': {expression}}}\n"
    )
