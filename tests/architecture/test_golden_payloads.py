"""`golden.json` holds step messages as histories have them: each is read, and written the same."""

import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from perdure.adapters.temporal.data_converter import CompactConverter
from perdure.domain.foundation.base import ActivityMessage
from tests.architecture.step_shapes import (
    PROMPTS,
    REFINE,
    SINGLE,
    TEAMS,
    shapes,
    step_messages,
    untagged,
)

GOLDEN: dict[str, list[dict[str, JsonValue]]] = json.loads(
    (Path(__file__).parent / "golden.json").read_text(encoding="utf-8")
)
MESSAGES = step_messages()
CASES = [(name, payload) for name, payloads in GOLDEN.items() for payload in payloads]


def test_every_message_belongs_somewhere() -> None:
    parts = (SINGLE, REFINE, PROMPTS, TEAMS)
    assert sorted(name for part in parts for name in shapes(part)) == list(MESSAGES)


def test_every_message_has_a_golden_payload() -> None:
    assert sorted(GOLDEN) == sorted(MESSAGES)


@pytest.mark.parametrize(
    ("name", "payload"), CASES, ids=[f"{name}-{number}" for number, (name, _) in enumerate(CASES)]
)
def test_a_golden_payload_is_read_and_written_the_same(
    name: str, payload: dict[str, JsonValue]
) -> None:
    written = CompactConverter().to_payload(MESSAGES[name].model_validate_json(json.dumps(payload)))
    assert written is not None and json.loads(written.data) == payload


@pytest.mark.parametrize("cls", MESSAGES.values(), ids=list(MESSAGES))
def test_tags_of_unions_always_travel(cls: type[ActivityMessage]) -> None:
    assert untagged(cls) == []
