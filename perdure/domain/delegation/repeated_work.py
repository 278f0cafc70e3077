"""Detects work that is delegated twice, by a hash over everything that a worker is told.

The files that it works on are not part of it: work that changes them would never be the same.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

from perdure.domain.delegation.decisions import Envelope, inherited
from perdure.domain.delegation.skills import SkillCatalog, resolve
from perdure.domain.foundation.base import FrozenModel

HASH_CHARACTERS = 24
# Only poor work is remembered: delegating good work again is allowed, and doing it well clears it.
POOR_BELOW = 0.5
TOLD_IN_A_ROW = 3
# They travel with the state of the run, so they are bounded.
KEPT = 400
_SUFFIX = re.compile(r"_(?:repair|retry\d+|v\d+|strict|final|run\d+|subtask_\d+)$", re.IGNORECASE)


class Surroundings(FrozenModel):
    """What workers are shown beside what their manager writes for them.

    Args:
        said: what people demanded since the task was given.
        tools: the made tools on offer, name to hash.
        skills: those of the run; a worker gets the texts of the ones that it is named.
        inputs: of the run; a worker gets the ones that are handed on by name.
        pitfalls: what reviewers held against earlier results.
    """

    said: tuple[str, ...] = ()
    tools: Mapping[str, str] = {}
    skills: SkillCatalog = SkillCatalog()
    inputs: Mapping[str, JsonValue] = {}
    pitfalls: tuple[str, ...] = ()

    def shown_with(self, envelope: Envelope) -> dict[str, JsonValue]:
        """The part of it that the worker of this envelope is shown."""
        given: dict[str, JsonValue] = {
            "said": [*self.said],
            "tools": dict(self.tools),
            "skills": dict(resolve(envelope.skills, self.skills).known),
            "inherited": inherited(envelope, self.inputs),
            "pitfalls": [*self.pitfalls],
        }
        return {name: value for name, value in given.items() if value}


NOTHING_BESIDE = Surroundings()


class Signature(FrozenModel):
    """Work that went badly: its hash, the iteration, and its confidence (None: it crashed)."""

    hash: str
    iteration: int
    confidence: float | None = None


class PastWork(FrozenModel):
    """What was delegated so far: the work that went badly, and who worked in the newest rounds."""

    poor: tuple[Signature, ...] = ()
    workers: tuple[tuple[str, ...], ...] = ()

    def poor_work_of(self, hash: str) -> Signature | None:
        """The earlier work of this signature, if its result was poor."""
        return next((item for item in self.poor if item.hash == hash), None)

    def after(
        self,
        envelopes: Sequence[Envelope],
        *,
        iteration: int,
        confidence: float | None,
        beside: Surroundings = NOTHING_BESIDE,
    ) -> "PastWork":
        """With the work of one more iteration; `beside` is what its workers were shown as well."""
        name = signature(envelopes, beside)
        done = Signature(hash=name, iteration=iteration, confidence=confidence)
        others = tuple(item for item in self.poor if item.hash != done.hash)
        names = tuple(dict.fromkeys(logical_worker(item.worker) for item in envelopes))
        is_poor = confidence is None or confidence < POOR_BELOW
        return PastWork(
            poor=(*others, done)[-KEPT:] if is_poor else others,
            workers=(*self.workers, names)[-TOLD_IN_A_ROW:],
        )

    @property
    def told_again(self) -> tuple[str, ...]:
        """The workers who were given work three times in a row."""
        if len(self.workers) < TOLD_IN_A_ROW:
            return ()
        first, *others = self.workers
        return tuple(name for name in first if all(name in names for names in others))


def signature(envelopes: Iterable[Envelope], beside: Surroundings = NOTHING_BESIDE) -> str:
    """The hash of all that the workers would be told, whatever order it comes in.

    Who does it, how it is called and what it may cost make no other work of it.
    """
    whole = sorted(json.dumps(_seen_by_worker(item, beside), sort_keys=True) for item in envelopes)
    # A model's text may hold half of a character, which plain UTF-8 refuses.
    text = "\n".join(whole).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:HASH_CHARACTERS]


def _seen_by_worker(item: Envelope, beside: Surroundings) -> list[JsonValue]:
    shown = beside.shown_with(item)
    return [
        # The run's state keeps hashes of this: another order or form forgets all poor work so far.
        normalised(item.instructions),
        item.inputs,
        normalised(item.expected),
        normalised(item.acceptance),
        [*sorted(item.inherit)],
        [*sorted(item.tools)],
        [*sorted(item.skills)],
        item.model,
        item.temperature,
        item.result_schema,
        # Only where there is any: stored hashes of work that was shown nothing else stay valid.
        *([shown] if shown else []),
    ]


def normalised(instructions: str) -> str:
    """Instructions without what makes no difference: case, spaces, forms of letters."""
    return " ".join(unicodedata.normalize("NFKC", instructions).casefold().split())


def logical_worker(worker: str) -> str:
    """A worker's name without the suffixes of its retries; never empty."""
    name = worker
    while (shorter := _SUFFIX.sub("", name)) and shorter != name:
        name = shorter
    return name


def listed_for(worker: str, listed: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """What is listed for a worker, under any of the names of its tries."""
    wanted = logical_worker(worker)
    return tuple(
        item for name, items in listed.items() if logical_worker(name) == wanted for item in items
    )


def repeat_refusal(
    past: PastWork, envelopes: Sequence[Envelope], beside: Surroundings = NOTHING_BESIDE
) -> str | None:
    """Why this work is not done again; None if it is new or went well before."""
    earlier = past.poor_work_of(signature(envelopes, beside))
    if earlier is None:
        return None
    score = "it failed" if earlier.confidence is None else f"confidence {earlier.confidence:g}"
    return (
        f"The same work was done in iteration {earlier.iteration} ({score}). "
        "Change the instructions or the inputs, or do something else."
    )


def repeat_warning(past: PastWork) -> str | None:
    """What the manager is told when the same worker works three times in a row."""
    names = past.told_again
    if not names:
        return None
    return f"Given work three times in a row: {', '.join(names)}. Is it getting anywhere?"
