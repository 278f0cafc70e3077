"""Which modules the code of a tool may import, by the namespace of its name.

All of them are pure in the sandbox. Chance and the clock make the same call give different results,
so they belong to namespaces that say so.
"""

from perdure.domain.generated_tools.naming import namespace

EVERYWHERE = frozenset(
    {
        "base64",
        "bisect",
        "collections",
        "copy",
        "csv",
        "dataclasses",
        "datetime",
        "decimal",
        "functools",
        "hashlib",
        "itertools",
        "json",
        "math",
        "re",
        "typing",
        "unicodedata",
    }
)
_MORE: dict[str, frozenset[str]] = {
    "clock": frozenset({"time"}),
    "random": frozenset({"random"}),
    "sample": frozenset({"random"}),
    "simulate": frozenset({"random"}),
    "time": frozenset({"time"}),
}


def importable(name: str) -> frozenset[str]:
    """The modules that a tool of this name may import."""
    return EVERYWHERE | _MORE.get(namespace(name), frozenset())
