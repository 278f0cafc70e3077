from pathlib import Path

import jsonschema
import pytest

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.run.result import RunResult
from perdure.domain.specs import RUN_SPEC
from perdure.interfaces.schemas import schema_of, schemas, stale_schemas, write_schemas
from perdure.schemas import FILE_FORMATS, main

SHIPPED = Path(__file__).parents[2] / "docs" / "schemas"


def test_the_shipped_schemas_are_those_of_the_models() -> None:
    assert stale_schemas(SHIPPED, FILE_FORMATS) == []


@pytest.mark.parametrize("name", sorted(schemas(FILE_FORMATS)))
def test_every_schema_is_one(name: str) -> None:
    of_schemas = jsonschema.Draft202012Validator(jsonschema.Draft202012Validator.META_SCHEMA)
    wrong = [error.message for error in of_schemas.iter_errors(schema_of(name, FILE_FORMATS))]
    assert wrong == []


def test_what_the_models_write_fits_the_schemas() -> None:
    spec = RUN_SPEC.validate_python({"kind": "agent", "goal": "g"})
    result = RunResult(
        id="a", kind="agent", outcome="accepted", reason="text_answer", explanation="Done."
    )
    jsonschema.validate(spec.model_dump(mode="json"), schema_of("run"))
    jsonschema.validate(result.model_dump(mode="json"), schema_of("result"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"kind": "agent", "goal": "g", "gaol": 1}, schema_of("agent"))


@pytest.mark.long
def test_a_folder_out_of_date_is_told_file_by_file(tmp_path: Path) -> None:
    write_schemas(tmp_path)
    (tmp_path / "run.schema.json").write_text("{}")
    (tmp_path / "status.schema.json").unlink()
    (tmp_path / "old.schema.json").write_text("{}")
    told = "\n".join(stale_schemas(tmp_path))

    assert "run.schema.json differs" in told
    assert "status.schema.json is missing" in told
    assert "old.schema.json belongs to no schema" in told
    write_schemas(tmp_path)
    assert stale_schemas(tmp_path) == []


@pytest.mark.long
def test_the_command_writes_and_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "schemas")
    assert main(["--check", folder]) == 1
    assert "is missing" in capsys.readouterr().err
    assert main([folder]) == 0
    assert main(["--check", folder]) == 0
    assert main([]) == 2


def test_an_unknown_schema_names_the_nearest() -> None:
    with pytest.raises(InvalidInput, match="Did you mean refine"):
        schema_of("refin")
