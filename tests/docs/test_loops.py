"""The page on loops names every field, every built-in loop and every role as they are."""

import asyncio
import json
import re
from pathlib import Path

import pytest
import yaml

from perdure.adapters.definitions.store import LoopFiles
from perdure.domain.evaluation.termination_conditions import EvaluationBound, GoalBound
from perdure.domain.roles.definition import LoopDefinition, RoleDefinition
from perdure.domain.roles.parse_definition import read_definition
from perdure.domain.roles.review_reply import read_verdict

PAGE = (Path(__file__).parents[2] / "docs" / "loops.md").read_text(encoding="utf-8")
LIBRARY = asyncio.run(LoopFiles(Path("/nowhere")).library())
ROW = re.compile(r"^\| `(?P<name>[\w-]+)` \| (?P<second>.+?) \| (?P<third>.*) \|$", re.MULTILINE)


def rows(section: str) -> dict[str, tuple[str, str]]:
    """The rows below a heading: first cell to the others."""
    text = re.split(r"^##+ ", PAGE.split(section, 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    return {row["name"]: (row["second"], row["third"]) for row in ROW.finditer(text)}


def test_the_example_is_valid() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert isinstance(read_definition(yaml.safe_load(text)), LoopDefinition)


def test_the_example_of_a_verdict_is_read() -> None:
    text = next(one for one in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
    verdict = read_verdict(text)
    assert (verdict.structured, verdict.decision) == (True, "rejected")


@pytest.mark.parametrize("name", LIBRARY.definitions)
def test_built_in_loops_are_told_as_they_are(name: str) -> None:
    definition = LIBRARY.definitions[name].definition
    _, third = rows("## Built in")[name]
    match definition.termination_condition:
        case EvaluationBound(max_review_rounds=limit) | GoalBound(max_iterations=limit):
            assert str(limit) in third
        case other:
            pytest.fail(f"{name} ends by {other.type}")
    assert rows("## Built in").keys() == LIBRARY.definitions.keys()


def test_every_field_of_a_definition_is_told() -> None:
    assert rows("## Your own").keys() == LoopDefinition.model_fields.keys()


def test_every_field_of_a_stage_is_told_with_its_default() -> None:
    told = rows("### Stages")
    assert told.keys() >= RoleDefinition.model_fields.keys()
    for name, field in RoleDefinition.model_fields.items():
        if not field.is_required() and not told[name][0].startswith(("the role", "the name")):
            assert told[name][0].strip("`") == json.dumps(field.default).strip('"')


def test_every_role_is_told_with_its_access() -> None:
    told = rows("### Stages")
    shown = {name: told[name][0].strip("`") for name in LIBRARY.roles}
    assert shown == {name: role.access for name, role in LIBRARY.roles.items()}
