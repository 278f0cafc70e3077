"""Documents that repeat what the code says must say the same."""

import importlib
import inspect
import re
from dataclasses import is_dataclass
from pathlib import Path

import pytest

from perdure.domain.foundation.names import (
    SEARCH_ATTRIBUTES,
    loops_queue,
    models_queue,
    tools_queue,
)
from perdure.domain.run.metrics import METRICS
from perdure.workflows.engine.input import Given
from perdure.workflows.engine.run import Run
from tests.architecture.sources import PACKAGES, ROOT, modules

OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
MONITORING = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")


def rows(document: str) -> list[list[str]]:
    """The cells of all table rows, without the marks of code."""
    lines = (line for line in document.splitlines() if line.startswith("| "))
    return [
        [cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines
    ]


def test_every_metric_is_documented_with_kind_and_labels() -> None:
    told = {tuple(row[:3]) for row in rows(MONITORING) if row[0].startswith("perdure_")}
    assert told == {(metric.name, metric.kind, ", ".join(metric.labels)) for metric in METRICS}


def test_every_search_attribute_can_be_made_by_hand() -> None:
    told = dict(re.findall(r"--name (\w+) --type (\w+)", OPERATIONS))
    assert told == SEARCH_ATTRIBUTES


def test_every_queue_is_documented() -> None:
    made = [loops_queue("<installation>"), models_queue("<installation>")]
    made += [tools_queue("<installation>", workspace) for workspace in (None, "<workspace>")]
    assert [name for name in made if f"`{name}`" not in OPERATIONS] == []


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_links_inside_the_documents_lead_somewhere(path: Path) -> None:
    targets = LINK.findall(path.read_text(encoding="utf-8"))
    missing = [
        target
        for target in targets
        if not any((path.parent / f"{target}{end}").exists() for end in ("", ".md"))
    ]
    assert missing == []


def test_the_product_cites_nothing_that_a_reader_does_not_have() -> None:
    cited = re.compile(r"\bseeds? \d{3}\b|common section|(?:outside )?contract, section")
    files = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    assert len(files) > 400
    assert [str(path) for path in files if cited.search(path.read_text(encoding="utf-8"))] == []


def test_the_picture_of_the_loops_names_every_class_that_they_are_made_of() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    parts = {
        found.__name__
        for module in modules("workflows")
        for _, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
        if found.__module__ == module.name
        and (issubclass(found, Given | Run) or {"run", "engine"} & _parameters(found))
    }
    assert len(parts) > 40
    assert [name for name in sorted(parts) if not re.search(rf"\b{name}\b", text)] == []


def _parameters(found: type) -> set[str]:
    return set() if is_dataclass(found) else set(inspect.signature(found).parameters)
