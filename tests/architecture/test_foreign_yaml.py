"""YAML that others wrote is read with bounds: a few lines can merge into billions of values."""

import ast
from collections.abc import Iterator

from tests.architecture.sources import Module, modules

# They read what Perdure or the person at the keyboard wrote.
OWN_TEXTS = {
    "perdure/adapters/settings/config_files.py",
    "perdure/interfaces/cli/commands/files.py",
    "perdure/interfaces/cli/commands/load_task.py",
}
UNBOUNDED = {"load", "load_all", "safe_load", "safe_load_all", "full_load", "unsafe_load"}


def unbounded(module: Module) -> Iterator[str]:
    """The calls of PyYAML that construct values without a bound."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Attribute(value=ast.Name(id="yaml"), attr=name) if name in UNBOUNDED:
                yield f"{module.path}:{node.lineno}"
            case _:
                pass


def test_yaml_of_others_is_read_with_bounds() -> None:
    found = [
        call
        for module in modules("perdure", "workflows", "activities")
        for call in unbounded(module)
    ]
    assert {call.partition(":")[0] for call in found} == OWN_TEXTS
