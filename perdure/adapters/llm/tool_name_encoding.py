"""Tool names as the Messages API takes them: letters, digits, `_` and `-`, at most 64 of them."""

import hashlib
import re
from collections.abc import Iterable, Mapping

from perdure.adapters.llm.error_kinds import refused

LIMIT = 64
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


def wire_name(name: str) -> str:
    """`fs.read` goes out as `fs__read`; what is too long keeps its start and gets a hash."""
    plain = _FOREIGN.sub("_", name.replace(".", "__"))
    if len(plain) <= LIMIT:
        return plain
    return f"{plain[: LIMIT - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def names_back(names: Iterable[str]) -> Mapping[str, str]:
    """Wire name to our name; refuses two tools that would look the same to the model."""
    back: dict[str, str] = {}
    for name in names:
        other = back.setdefault(wire_name(name), name)
        if other != name:
            raise refused(
                f"The tools {other} and {name} are both called {wire_name(name)} on the wire. "
                "Rename one of them."
            )
    return back
