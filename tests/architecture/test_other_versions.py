"""What other processes wrote is read tolerantly: they may be of another version.

`tests/support/other_version.py` lets every such value grow, and runs on both versions at once.
"""

import ast

from tests.architecture.sources import Module, modules

STRICT = ("model_validate", "model_validate_json")
# What people wrote: there an unknown field is a typing error.
OF_PEOPLE = {"Rubric"}


def _read_strictly(module: Module) -> list[str]:
    """The models that a module reads without `perdure.domain.foundation.tolerance`."""
    return [
        ast.unparse(node.value)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute)
        and node.attr in STRICT
        and ast.unparse(node.value) not in OF_PEOPLE
    ]


def test_workflows_and_activities_read_tolerantly() -> None:
    places = modules("workflows", "activities", "perdure/embedding")
    door = next(one for one in modules("perdure") if one.name == "perdure.workflow")
    found = {str(one): _read_strictly(one) for one in (*places, door)}
    assert {name: models for name, models in found.items() if models} == {}
