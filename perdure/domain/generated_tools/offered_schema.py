"""A made tool's schema as other workers are offered it: the words of a model are said to be that.

A call is checked against it before the handler sees it. So values that it allows stay as they are,
or the rule that lists them is left out.
"""

from collections.abc import Mapping

from pydantic import JsonValue

TEXT_CHARACTERS = 200
NAME_CHARACTERS = 64


def one_line(text: str, *, most: int) -> str:
    """A model's words to be quoted: one line without hidden signs and double quotes."""
    plain = "".join(sign if sign.isprintable() else " " for sign in text)
    # A double quote would end the quotation that the words stand in.
    return " ".join(plain.split())[:most].replace('"', "'")


def offered_schema(parameters: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The schema of the arguments, whose names the handler gives; the tool is described apart."""
    kept = {word: value for word, value in parameters.items() if word not in _TEXTS}
    return _offered(kept) | {"additionalProperties": False}


_TEXTS = ("title", "description")


def _offered(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for word, value in schema.items():
        match word, value:
            case (("title" | "description"), str()):
                found[word] = f'its maker says (data): "{one_line(value, most=TEXT_CHARACTERS)}"'
            case "items", Mapping():
                found[word] = _nested(value)
            case "properties", Mapping():
                found[word] = {
                    name: _nested(inner) if isinstance(inner, Mapping) else inner
                    for name, inner in value.items()
                }
            case "required", list():
                declared = schema.get("properties")
                names = declared if isinstance(declared, Mapping) else {}
                # Further names would be words that reach other workers without quotes.
                found[word] = [name for name in value if name in names]
            case "examples", _:
                pass
            case (("default" | "enum"), _) if not _is_short(value):
                pass
            case _:
                found[word] = value
    return found


def _nested(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A schema inside; fields whose names are no names, but further words, are left out."""
    found, declared = _offered(schema), schema.get("properties")
    if isinstance(declared, Mapping) and not all(map(_is_name, declared)):
        bound = ("properties", "required", "additionalProperties")
        return {word: value for word, value in found.items() if word not in bound}
    return found


def _is_name(text: str) -> bool:
    return len(text) <= NAME_CHARACTERS and text.isprintable() and " " not in text


def _is_short(value: JsonValue) -> bool:
    """Whether all texts in a value are short, and show all that they hold."""
    match value:
        case str():
            return len(value) <= NAME_CHARACTERS and value.isprintable()
        case list():
            return all(map(_is_short, value))
        case dict():
            return all(_is_name(name) and _is_short(inner) for name, inner in value.items())
        case _:
            return True
