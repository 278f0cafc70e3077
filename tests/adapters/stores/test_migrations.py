"""The numbered SQL files: complete, in order, cut where they are meant to be cut."""

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
