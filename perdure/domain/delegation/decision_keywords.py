"""The words by which models name a decision, and what a decision without a name looks like."""

import re
from collections.abc import Mapping

from pydantic import JsonValue

from perdure.domain.delegation.decisions import DECISION_NAMES, DecisionName

# In the order in which they are looked for: "final plan" completes, "plan to delegate" delegates.
_STEMS: tuple[tuple[DecisionName, re.Pattern[str]], ...] = (
    ("delegate", re.compile(r"(?<!not )(?<!never )\b(?:re-?)?(?:delegat|assign)")),
    ("complete", re.compile(r"(?<!not )(?<!never )\b(?:complet|done\b|finish|final)")),
    ("plan", re.compile(r"(?<!not )(?<!never )\b(?:re-?)?plan(?:s\b|n|\b)")),
    ("diagnose", re.compile(r"(?<!not )(?<!never )\b(?:diagnos|hypothes)")),
    ("fail", re.compile(r"(?<!not )(?<!never )\b(?:fail|impossib|give up|giving up)")),
    ("escalate", re.compile(r"(?<!not )(?<!never )\b(?:escalat|ask)")),
)
_BY_NAME: Mapping[str, DecisionName] = {name: name for name in DECISION_NAMES}
_LABEL = re.compile(r"^\W{0,4}(?:my\s+)?decision\W{1,4}(?P<said>[^\n]{1,60})$", re.I | re.M)
_OPENING = re.compile(r"\A\W{0,4}(?P<said>[a-z-]{4,20})\W{0,3}(?::|\n|\Z)", re.I)

_LISTS: tuple[tuple[str, DecisionName], ...] = (
    ("subtasks", "plan"),
    ("hypotheses", "diagnose"),
    ("delegations", "delegate"),
)
RESULTS = ("final_result", "final_report", "report", "summary")


def decision_named(words: str) -> DecisionName | None:
    """The decision that words stand for, by stems and synonyms; None when they stand for none."""
    said = " ".join(words.casefold().replace("_", " ").split())
    if said in _BY_NAME:
        return _BY_NAME[said]
    return next((name for name, stem in _STEMS if stem.search(said)), None)


def decision_inferred(fields: Mapping[str, JsonValue]) -> DecisionName | None:
    """The decision that an object without a decision field means, by what it holds."""
    for key, name in _LISTS:
        if fields.get(key):
            return name
    return "complete" if any(fields.get(key) for key in RESULTS) else None


def decision_in_words(text: str) -> tuple[DecisionName, str] | None:
    """The decision that a text without JSON names, and the rest of the text.

    Only a line "Decision: ..." or an opening word counts: a text that merely mentions a plan
    decides nothing.
    """
    found = _LABEL.search(text) or _OPENING.search(text)
    name = decision_named(found["said"]) if found else None
    if found is None or name is None:
        return None
    rest = f"{text[: found.start()]}{text[found.end() :]}"
    return name, rest.strip()
