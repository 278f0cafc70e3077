"""Fields that only the product fills in: nothing from outside brings them, and forks keep them."""

from pathlib import Path

import pytest
from pydantic import JsonValue
from teams import PAIR, task, team

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.specs import RUN_SPEC
from perdure.submission.loading import load_data, revise
from perdure.submission.types import Flags, Surroundings
from tests.submission.task_files import Load, write

NOWHERE = Surroundings(folder=None)
NAMED: dict[str, JsonValue] = {"kind": "roles", "goal": "g", "roles": {"definition": "team"}}
OWN = {"started_by": "agent-above", "root_run": "agent-top"}


def started() -> RolesSpec:
    """A loop as it is stored that an agent started."""
    spec = RUN_SPEC.validate_python({**task(team(*PAIR)), "metadata": OWN})
    assert isinstance(spec, RolesSpec)
    return spec


@pytest.mark.parametrize(
    ("fields", "place", "cure"),
    [
        ({"roles": {"definition": "team", "snapshot": team()}}, "roles.snapshot", "name a def"),
        ({"metadata": {"started_by": "agent-a"}}, "metadata.started_by", "another name"),
        ({"metadata": {"root_run": ["agent-a"]}}, "metadata.root_run", "another name"),
    ],
)
def test_a_specification_from_outside_brings_none(
    fields: dict[str, JsonValue], place: str, cure: str
) -> None:
    with pytest.raises(InvalidInput, match=cure) as caught:
        load_data({**NAMED, **fields}, surroundings=NOWHERE)
    assert [path for path, _ in caught.value.problems] == [place]


def test_neither_do_flags_and_files_of_defaults(home: Path, submit: Load) -> None:
    write(home / "work" / "task.yaml", "kind: roles\ngoal: g\nroles: {definition: team}")
    with pytest.raises(InvalidInput, match=r"metadata\.root_run"):
        submit("task.yaml", sets=("metadata.root_run=x",))
    write(home / "home" / "perdure.yaml", "metadata: {started_by: agent-a}")
    with pytest.raises(InvalidInput, match=r"metadata\.started_by \(in .*perdure\.yaml\)"):
        submit("task.yaml")


def test_what_is_left_open_is_not_brought() -> None:
    stored = load_data(NAMED, surroundings=NOWHERE).spec
    again = stored.model_dump(mode="json", by_alias=True)
    assert again["roles"]["snapshot"] is None
    assert load_data(again, surroundings=NOWHERE).spec == stored


def test_a_fork_keeps_what_its_run_was_given() -> None:
    revised = revise(started(), Flags(sets=("budget.tokens=9000",)), surroundings=NOWHERE).spec
    assert isinstance(revised, RolesSpec)
    assert revised.roles == started().roles
    assert revised.metadata == started().metadata


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ("roles.snapshot.version=mine", "roles.snapshot"),
        ("roles.snapshot.definition.roles[0].access=full", "roles.snapshot"),
        ("roles.snapshot=null", "roles.snapshot"),
        ("metadata.started_by=null", "metadata.started_by"),
        ("metadata.root_run=agent-mine", "metadata.root_run"),
    ],
)
def test_a_fork_is_given_no_others(change: str, place: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        revise(started(), Flags(sets=(change,)), surroundings=NOWHERE)
    assert [path for path, _ in caught.value.problems] == [place]
