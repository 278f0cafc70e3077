"""The hash of a question: the same in every version that asks the same."""

from typing import get_args

import pytest
from pydantic import create_model

from perdure.activities.support.prepared_attempt import request_hash
from perdure.domain.budget.allowances import Allowance
from perdure.domain.foundation.base import ActivityMessage
from perdure.domain.foundation.tokens import TokenSizes
from perdure.domain.llm.transcript import TranscriptRef
from perdure.domain.run.activity_messages import ModelCallRequest
from perdure.domain.turns.entries import Entry, SayEntry

PLAIN = ModelCallRequest(
    frame="sha256:f", iteration=1, model="m", allowance=Allowance(max_tokens=100)
)
TOLD = PLAIN.model_copy(
    update={
        "role": "evaluator",
        "phase": "evaluating",
        "head": TranscriptRef(hash="sha256:h", messages=3, tokens=TokenSizes(prose=40)),
        "append": (SayEntry(type="say", text="go on"),),
        "tools_off": True,
    }
)
# Written once. A change here makes each call that an upgrade meets in flight be paid for twice.
GOLDEN = {
    "plain": (PLAIN, "ed072324c7cee31ef91324d5f8ac0042774137c30634d2e3346eea50308c2f68"),
    "told": (TOLD, "2587c917786b72c7f92c3329496d57573ed8d817505617edde88b3d5c8621189"),
}


@pytest.mark.parametrize(("asked", "digest"), GOLDEN.values(), ids=GOLDEN)
def test_the_hash_is_that_of_every_version(asked: ModelCallRequest, digest: str) -> None:
    assert request_hash(asked) == digest


def test_a_new_optional_field_changes_no_hash() -> None:
    """As it is with the version after this one."""
    later = create_model("Later", __base__=ModelCallRequest, tone=(str | None, None))
    said = create_model("LaterSay", __base__=SayEntry, language=(str, "any"))
    asked = later.model_validate(TOLD.model_dump())
    asked = asked.model_copy(
        update={"append": tuple(said.model_validate(one.model_dump()) for one in TOLD.append)}
    )
    assert request_hash(asked) == request_hash(TOLD)
    assert request_hash(asked.model_copy(update={"tone": "dry"})) != request_hash(TOLD)


@pytest.mark.parametrize(
    "changes",
    [{"allowance": Allowance(max_tokens=7)}, {"state": {"a": 1}}, {"records": ()}],
    ids=["allowance", "state", "records"],
)
def test_what_no_reply_depends_on_is_no_part_of_it(changes: dict[str, object]) -> None:
    assert request_hash(TOLD.model_copy(update=changes)) == request_hash(TOLD)


@pytest.mark.parametrize("entry", get_args(get_args(Entry)[0]), ids=lambda entry: entry.__name__)
def test_every_entry_travels_and_is_hashed_without_its_defaults(
    entry: type[ActivityMessage],
) -> None:
    assert issubclass(entry, ActivityMessage)
    assert entry.model_fields["type"].is_required(), "the tag would be left out"
