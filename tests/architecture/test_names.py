"""Names that outsiders use are spelled as `perdure.domain.foundation.names` spells them."""

import re

import pytest

from perdure.domain.foundation import names
from perdure.domain.run import metrics
from perdure.domain.run.events import EventType
from perdure.domain.run.messages import VERBS
from perdure.domain.run.metrics import METRICS
from tests.architecture.sources import PACKAGES, modules, texts

ATTRIBUTE = re.compile(r"\bPerdure[A-Z]\w*")
CLASSES = {"PerdureError", "PerdureEnvironment", "PerdurePlugin"}  # names of Python
QUEUE = re.compile(r"^perdure-[\w{}-]*-?(loops|models|tools)$|^-(loops|models|tools)$")
HOME = "perdure.domain.foundation.names"


def spelled(pattern: re.Pattern[str]) -> dict[str, list[str]]:
    """Where product code outside of the names' own module spells what the pattern finds."""
    found: dict[str, list[str]] = {}
    for module in modules(*PACKAGES):
        for text, line in texts(module.tree) if module.name != HOME else ():
            for match in pattern.finditer(text):
                found.setdefault(match.group(), []).append(f"{module.name}:{line}")
    return found


def test_every_search_attribute_in_the_code_is_registered() -> None:
    unknown = set(spelled(ATTRIBUTE)) - set(names.SEARCH_ATTRIBUTES) - CLASSES
    assert {name: spelled(ATTRIBUTE)[name] for name in unknown} == {}


def test_every_registered_search_attribute_is_used() -> None:
    assert set(names.SEARCH_ATTRIBUTES) - set(spelled(ATTRIBUTE)) == set()


def test_search_attributes_fit_a_server_with_sql_stores() -> None:
    kinds = list(names.SEARCH_ATTRIBUTES.values())
    assert kinds.count("Keyword") <= 10
    assert kinds.count("Int") <= 3
    assert kinds.count("Double") <= 3


def test_queues_are_named_in_one_place() -> None:
    assert spelled(QUEUE) == {}


@pytest.mark.parametrize(
    "text", ["perdure-x-loops", "-tools", "perdure--models"], ids=["whole", "end", "without id"]
)
def test_the_pattern_of_queues_sees(text: str) -> None:
    assert QUEUE.search(text)


def test_queues_of_installations_and_workspaces_are_apart() -> None:
    made = [
        names.loops_queue("a"),
        names.models_queue("a"),
        names.tools_queue("a", None),
        names.tools_queue("a", "b"),
        names.tools_queue("b", None),
    ]
    assert len(set(made)) == len(made)


def test_metrics_are_named_once_and_plainly() -> None:
    spelled_names = [metric.name for metric in METRICS]
    assert len(set(spelled_names)) == len(spelled_names)
    assert all(re.fullmatch(r"perdure_[a-z_]+", name) for name in spelled_names)
    constants = {value for value in vars(metrics).values() if isinstance(value, metrics.Metric)}
    assert constants == set(METRICS)
    assert spelled(re.compile(rf"\b({'|'.join(spelled_names)})\b")).keys() == set(spelled_names)


def test_verbs_queries_and_events_are_words() -> None:
    words = [*VERBS, *names.QUERIES, *EventType.__args__]
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", word) for word in words)
    assert len(set(EventType.__args__)) == len(EventType.__args__)
