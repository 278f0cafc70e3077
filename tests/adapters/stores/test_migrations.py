"""The numbered SQL files: complete, in order, cut where they are meant to be cut."""

from pathlib import Path

import pytest

from perdure.adapters.stores.migrations import migrations, split_statements
from perdure.adapters.stores.tables import metadata


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_each_number_is_taken_once(dialect: str) -> None:
    numbers = [step.number for step in migrations(dialect)]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_every_table_is_made(dialect: str) -> None:
    made = " ".join(statement for step in migrations(dialect) for statement in step.statements)
    missing = [name for name in metadata.tables if f"CREATE TABLE {name} (" not in made]
    assert missing == []


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_no_migration_serves_code_from_before_the_column_that_says_so(dialect: str) -> None:
    served = [step.serves for step in migrations(dialect) if step.serves is not None]
    assert all(number >= 47 for number in served)


def test_a_file_says_which_code_it_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "schema").mkdir()
    for number, words in ((48, "-- Adds alone.\n-- serves: 0047\n"), (49, "-- Drops.\n")):
        file = tmp_path / "schema" / f"{number:04}_later.sql"
        file.write_text(f"{words}CREATE TABLE a{number} (b TEXT);\n", encoding="utf-8")
    monkeypatch.setattr("perdure.adapters.stores.migrations.resources.files", lambda _: tmp_path)
    found = migrations.__wrapped__("sqlite")
    assert [(step.number, step.serves) for step in found] == [(48, 47), (49, None)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("", ()),
        ("-- only words\n", ()),
        (
            "CREATE TABLE a (b TEXT);\n\nDROP TABLE c;\n",
            ("CREATE TABLE a (b TEXT)", "DROP TABLE c"),
        ),
        (
            "CREATE TRIGGER t BEGIN\n  DELETE FROM a;\n  DELETE FROM b;\nEND;\n\nDROP TABLE c;",
            ("CREATE TRIGGER t BEGIN\n  DELETE FROM a;\n  DELETE FROM b;\nEND", "DROP TABLE c"),
        ),
        ("-- why\nSELECT 1;\n\n-- why\nSELECT 2;", ("SELECT 1", "SELECT 2")),
    ],
    ids=["empty", "comment", "two", "trigger", "comments between"],
)
def test_statements_are_cut_at_blank_lines(sql: str, expected: tuple[str, ...]) -> None:
    assert split_statements(sql) == expected
