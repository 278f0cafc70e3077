"""Tells a question, which one answer settles, from work that has a result to be evaluated."""

import re

from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.refine.settings import RefineSettings

MOST_CHARACTERS = 600
ASKING = re.compile(
    r"(what|who|whom|whose|where|when|why|which|how|is|are|was|were|does|do|did|can|could"
    r"|should|would|will|has|have|had|am|may|might)\b"
)
MAKING = re.compile(
    r"\b(add|adapt|apply|build|change|clean|compose|convert|correct|create|delete|deploy|design"
    r"|develop|draft|edit|extend|extract|fill|fix|generate|implement|improve|insert|install|make"
    r"|merge|migrate|modify|move|optimi[sz]e|patch|plan|port|prepare|produce|refactor|remove"
    r"|rename|replace|rewrite|save|send|set|summari[sz]e|translate|turn|update|upgrade|write)\b"
)
EVIDENT_ARTIFACTS = frozenset({"json_schema", "command", "tests", "lint"})
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
# A full stop inside a name (`src/auth.rs`) ends no sentence.
_INNER_STOP = re.compile(r"(?<=\S)\.(?=\S)")


def read_only_reason(
    goal: str, *, writes: bool, rubric: Rubric, settings: RefineSettings
) -> str | None:
    """Why a task only asks and needs no change and no artifact, or None when it is work.

    A cheap rule that rather evaluates once too often: every sentence is a question, none asks for
    something to be made, the tools cannot change anything, and neither rubric nor settings speak of
    an artifact or of more than one try.
    """
    if writes or _demands_artifact(rubric, settings):
        return None
    if len(goal) > MOST_CHARACTERS or not _only_asks(goal):
        return None
    return "the goal is a question, and its tools change nothing"


def _demands_artifact(rubric: Rubric, settings: RefineSettings) -> bool:
    if settings.output.parts != "whole" or settings.pattern != "confidence":
        return True
    if settings.termination is not None or settings.min_iterations > 1:
        return True
    kinds = {getattr(item.evaluator, "check", "") for item in rubric.dimensions}
    return bool(kinds & EVIDENT_ARTIFACTS) or any(item.decides for item in rubric.dimensions)


def _only_asks(goal: str) -> bool:
    text = _INNER_STOP.sub("_", goal.strip())
    sentences = [found.strip() for found in _SENTENCE.findall(text) if found.strip(" .!?")]
    return bool(sentences) and all(_asks(sentence) for sentence in sentences)


def _asks(sentence: str) -> bool:
    said = sentence.lower()
    return sentence.endswith("?") and bool(ASKING.match(said)) and not MAKING.search(said)
