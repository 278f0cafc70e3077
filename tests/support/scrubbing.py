"""Takes the machine out of a recorded history: its folders, its name, its tracebacks."""

import base64
import json
import socket


def scrubbed(history: dict[str, object], home: str) -> str:
    """One line of JSON in which no machine is named, and no traceback stands."""
    names = {home: "/perdure", socket.gethostname(): "host"}

    def clean(value: object) -> object:
        match value:
            case dict():
                kept = {key: item for key, item in value.items() if key != "stackTrace"}
                return {key: (_data if key == "data" else clean)(kept[key]) for key in kept}
            case list():
                return [clean(item) for item in value]
            case str():
                return _replaced(value)
            case _:
                return value

    def _replaced(text: str) -> str:
        for name, plain in names.items():
            text = text.replace(name, plain)
        return text

    def _data(value: object) -> object:
        if not isinstance(value, str):
            return clean(value)
        text = base64.b64decode(value).decode("utf-8", "surrogateescape")
        return base64.b64encode(_replaced(text).encode("utf-8", "surrogateescape")).decode()

    return json.dumps(clean(history), separators=(",", ":")) + "\n"
