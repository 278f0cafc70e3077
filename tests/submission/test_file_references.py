"""Scripts that strategies name: read with the task, and known to any store."""

from pathlib import Path

import pytest
from pydantic import JsonValue

from perdure.submission.file_references import References, with_addresses
from perdure.submission.layers import Fields, Layer


def task(*models: JsonValue) -> Fields:
    given: list[JsonValue] = [
        "plain",
        *({"name": f"s{n}", "model": m} for n, m in enumerate(models)),
    ]
    return {"refine": {"pattern": "strategies", "strategies": given}}


def models_of(fields: Fields) -> list[JsonValue]:
    refine = fields["refine"]
    assert isinstance(refine, dict)
    strategies = refine["strategies"]
    assert isinstance(strategies, list)
    return [one["model"] for one in strategies if isinstance(one, dict)]


def test_scripts_of_strategies_are_read_and_moved(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("replies: []", encoding="utf-8")
    references = References()
    given = task("scripted:script.yaml#a", ["claude-x", "scripted:script.yaml"])
    found = references.resolved(Layer(name="task", fields=given, folder=tmp_path))
    (address,) = references.blobs
    assert models_of(found.fields) == [
        f"scripted:{address}#a",
        ["claude-x", f"scripted:{address}#script"],  # no label: its name tells which it is
    ]
    moved = with_addresses(found.fields, lambda one: one.replace("sha256", "hmac"))
    assert str(models_of(moved)[0]).startswith("scripted:hmac:")
    assert references.problems == []


def test_a_missing_script_is_told_with_its_place(tmp_path: Path) -> None:
    references = References()
    references.resolved(Layer(name="task", fields=task("scripted:no.yaml"), folder=tmp_path))
    assert [problem.path for problem in references.problems] == ["refine.strategies[1].model"]


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"], ids=["a null", "half of a character"])
def test_a_name_that_no_file_has_is_told_with_its_place(tmp_path: Path, name: str) -> None:
    references = References()
    given: Fields = {"context": {"a": f"file:{name}"}, "models": {"executor": f"scripted:{name}"}}
    references.resolved(Layer(name="task", fields=given, folder=tmp_path))
    assert [problem.path for problem in references.problems] == ["context.a", "models.executor"]


def test_scripts_of_judges_are_read_and_moved(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("replies: []", encoding="utf-8")
    references = References()
    judge: JsonValue = {"name": "a", "evaluator": {"judge": {"model": "scripted:script.yaml"}}}
    plain: JsonValue = {"name": "b", "evaluator": {"judge": {}}}
    given: Fields = {"rubric": [judge, plain]}
    found = references.resolved(Layer(name="task", fields=given, folder=tmp_path)).fields
    (address,) = references.blobs
    moved = with_addresses(found, lambda one: one.replace("sha256", "hmac"))
    named: JsonValue = {**judge, "evaluator": {"judge": {"model": f"scripted:{address}#script"}}}
    assert found["rubric"] == [named, plain]
    assert str(moved["rubric"]).count("scripted:hmac:") == 1
