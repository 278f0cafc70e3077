"""Arguments of a call in words for people: a name that a program gave them says little.

The arguments of built-in tools are named by what they do. Of every other tool only underscores are
taken out of names: what they mean is between the tool and the model. The name itself stays at hand.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from perdure.interfaces.web.inbox.call_view import Argument

ABSENT = "absent"
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_SHORT = 16
# In the order in which they are shown.
NAMES: dict[str, dict[str, str]] = {
    "fs.write": {"path": "File", "content": "Holds then", "expected_hash": "Replaces"},
    "fs.edit": {
        "path": "File",
        "old": "Takes out",
        "new": "Puts in",
        "expected_hash": "Replaces",
    },
    "shell.full": {"limit_s": "Ends after, in seconds"},
    "loop_start": {"definition": "Loop", "max_iterations": "Most iterations"},
    "loop_control": {"action": "Does", "id": "Run"},
}


@dataclass(frozen=True, slots=True)
class ShownArgument:
    """An argument as a person reads it.

    Args:
        label: what it is.
        name: its name in the call.
        value: as it was given; `short` is its beginning where nobody reads the whole.
        words: what the value means, where it alone does not say it.
    """

    label: str
    name: str
    value: str
    short: str = ""
    words: str = ""


def in_words(tool: str, arguments: Sequence[Argument]) -> tuple[ShownArgument, ...]:
    """All arguments of a call, those of built-in tools in the order in which a person asks."""
    known = NAMES.get(tool, {})
    order = list(known)
    placed = sorted(
        arguments, key=lambda one: order.index(one.name) if one.name in known else len(order)
    )
    return tuple(_shown(one, known.get(one.name)) for one in placed)


def _shown(one: Argument, label: str | None) -> ShownArgument:
    if label is None:
        plain = one.name.replace("_", " ").strip() or one.name
        return ShownArgument(plain[:1].upper() + plain[1:], one.name, one.value)
    if one.name != "expected_hash":
        return ShownArgument(label, one.name, one.value)
    if one.value == ABSENT:
        return ShownArgument(label, one.name, "", words="nothing: the file is new")
    if _FINGERPRINT.fullmatch(one.value.removeprefix("sha256:")):
        told = "only what the model has read: if the file changed since, nothing is written"
        short = f"{one.value.removeprefix('sha256:')[:_SHORT]}…"
        return ShownArgument(label, one.name, one.value, short=short, words=told)
    return ShownArgument(label, one.name, one.value)
