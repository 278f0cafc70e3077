"""A person's scores: what is asked, and how the answer is read."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from perdure.domain.evaluation.judge_reply_lines import stands_alone
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import IMPORTANT_CAP, DimensionScore, Finding
from perdure.domain.evaluation.trajectory import is_score, rounded
from perdure.domain.foundation.json_extraction import RefusedJson, read_json
from perdure.domain.foundation.refs import BlobRef

# A number on another scale, such as `8/10`, `80 %` or `1.2.3`, is no score: the person is asked
# again.
_NUMBER = re.compile(
    r"\s*(?P<score>[-+]?(\d+(\.\d*)?|\.\d+))(?![\w.,%/]*\d|\s*%)(?P<rest>.*)", re.DOTALL
)
# Words that no number goes on with, whatever they begin with.
_APART = re.compile(r"\s*[:;–—]\s+[^\d\s]")


@dataclass(frozen=True, slots=True)
class BadScores:
    """Why an answer gives no scores, as a sentence."""

    problem: str


def review_prompt(
    rubric: Rubric, *, iteration: int, output: BlobRef | None, files: str | None
) -> str:
    """What a person is asked about the draft of an iteration."""
    lines = [f"Score the draft of iteration {iteration}, each from 0 to 1:"]
    for item in rubric.human:
        asked = " ".join(filter(None, (item.description, item.question)))
        lines.append(f"- {item.name}: {asked}" if asked else f"- {item.name}")
    if output is not None:
        lines.append(f"The text: {output.hash}")
    if files is not None:
        lines.append(f"The files: {files}")
    example = "; ".join(f"{item.name}: 0.8" for item in rubric.human)
    lines.append(f"Answer like this, with words behind a score if you like: {example}")
    return "\n".join(lines)


def read_scores(
    text: str, names: Sequence[str], *, strictly: bool = True
) -> tuple[DimensionScore, ...] | BadScores:
    """One score per name, from `name: 0.8 words; other: 0.5`, JSON, or a number for all.

    What is said behind a score below 1 is what is missing. Unless read `strictly`, a number counts
    whatever stands behind it: `1 of 10` is a 1.
    """
    try:
        given = _from_json(text) or _named(text, names, strictly) or _for_all(text, names, strictly)
    except RefusedJson as error:
        return BadScores(str(error))
    missing = [name for name in names if name not in given]
    if missing:
        example = "; ".join(f"{name}: 0.8" for name in names)
        return BadScores(f"no score for {', '.join(missing)}; answer like {example}")
    for name in names:
        if not is_score(given[name][0]):
            return BadScores(f"the score {given[name][0]:g} of {name} is not between 0 and 1")
    return tuple(_score(name, *given[name]) for name in names)


def _from_json(text: str) -> dict[str, tuple[float, str]]:
    try:
        value = read_json(text)
    # A `ValueError` as well, which below would have it read as words, with whatever numbers it
    # holds.
    except RefusedJson:
        raise
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    return {
        str(name): (float(score), "")
        for name, score in value.items()
        # Of whole numbers only 0 and 1: a 5 is meant on another scale. To Python True is an int.
        if isinstance(score, float) or (type(score) is int and score in {0, 1})
    }


def _named(text: str, names: Sequence[str], strictly: bool) -> dict[str, tuple[float, str]]:
    either = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    starts = re.compile(rf"(?:^|[\n;,])\s*(?:- )?(?P<name>{either})\s*[:=]", re.IGNORECASE)
    marks = list(starts.finditer(text))
    ends = [*(mark.start() for mark in marks), len(text)][1:]
    known = {name.casefold(): name for name in names}
    found: dict[str, tuple[float, str]] = {}
    for mark, end in zip(marks, ends, strict=True):
        number = _number(text[mark.end() : end], strictly)
        # The expression takes `İ` and `ı` for an i, and `casefold` does not.
        name = known.get(mark["name"].casefold())
        if number is not None and name is not None:
            words = number["rest"].strip(" \n\t;,-–—")
            found[name] = (float(number["score"]), words)
    return found


def _for_all(text: str, names: Sequence[str], strictly: bool) -> dict[str, tuple[float, str]]:
    number = _number(text, strictly)
    if number is None or (strictly and len(names) > 1 and _is_for_one(number["rest"], names)):
        return {}
    words = number["rest"].strip(" \n\t;,-–—")
    return dict.fromkeys(names, (float(number["score"]), words))


def _number(text: str, strictly: bool) -> re.Match[str] | None:
    found = _NUMBER.fullmatch(text)
    if found is None or not strictly:
        return found
    # `1. too stiff` is the first entry of a list.
    listed = found["score"].endswith(".") and found["rest"].strip()
    alone = _APART.match(found["rest"]) or stands_alone(found["score"], found["rest"])
    return found if alone and not listed else None


def _is_for_one(words: str, names: Sequence[str]) -> bool:
    """Whether what follows a score says that another dimension has another."""
    either = "|".join(re.escape(name) for name in names)
    return re.search(rf"\d|(?<!\w)(?:{either})(?!\w)", words, re.IGNORECASE) is not None


def _score(name: str, score: float, words: str) -> DimensionScore:
    below = score < 1
    said = words or "a person sees room for improvement"
    finding = Finding(
        id=f"human:{name}",
        # Never one that would cap what the person gave.
        severity="important" if score <= IMPORTANT_CAP else "suggestion",
        dimension=name,
        title=said[:200],
        detail=said,
    )
    return DimensionScore(
        name=name,
        score=rounded(score),
        source="human",
        gap=said if below else "",
        findings=(finding,) if below and words else (),
    )
