"""Detects work that is delegated twice, by a hash over everything that a worker sees."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence

from pydantic import JsonValue

from perdure.domain.delegation.decisions import Envelope
from perdure.domain.foundation.base import FrozenModel

HASH_CHARACTERS = 24
POOR_BELOW = 0.5
TOLD_IN_A_ROW = 3
KEPT = 400
_SUFFIX = re.compile(r"_(?:repair|retry\d+|v\d+|strict|final|run\d+|subtask_\d+)$", re.IGNORECASE)


class Signature(FrozenModel):
    """Work that went badly: its hash, the iteration, and its confidence (None: it crashed)."""

    hash: str
    iteration: int
    confidence: float | None = None


class PastWork(FrozenModel):
    """What was delegated so far: the work that went badly, and who worked in the newest rounds."""

    poor: tuple[Signature, ...] = ()
    workers: tuple[tuple[str, ...], ...] = ()

    def went_badly(self, hash: str) -> Signature | None:
        """The earlier work of this signature, if its result was poor."""
        return next((item for item in self.poor if item.hash == hash), None)

    def after(
        self, envelopes: Sequence[Envelope], *, iteration: int, confidence: float | None
    ) -> "PastWork":
        """With the work of one more iteration."""
        done = Signature(hash=signature(envelopes), iteration=iteration, confidence=confidence)
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


def signature(envelopes: Iterable[Envelope]) -> str:
    """The hash of all that the workers would see, whatever order it comes in.

    Who does it, how it is called and what it may cost make no other work of it.
    """
    whole = sorted(json.dumps(_seen_by_worker(item), sort_keys=True) for item in envelopes)
    text = "\n".join(whole).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:HASH_CHARACTERS]


def _seen_by_worker(item: Envelope) -> tuple[JsonValue | list[str], ...]:
    return (
        normalised(item.instructions),
        item.inputs,
        normalised(item.expected),
        normalised(item.acceptance),
        sorted(item.inherit),
        sorted(item.tools),
        sorted(item.skills),
        item.model,
        item.temperature,
        item.result_schema,
    )


def normalised(instructions: str) -> str:
    """Instructions without what makes no difference: case, spaces, forms of letters."""
    return " ".join(unicodedata.normalize("NFKC", instructions).casefold().split())


def logical_worker(worker: str) -> str:
    """Who a worker is, whatever try this is: suffixes of retries are stripped, never to nothing."""
    name = worker
    while (shorter := _SUFFIX.sub("", name)) and shorter != name:
        name = shorter
    return name


def repeat_refusal(past: PastWork, envelopes: Sequence[Envelope]) -> str | None:
    """Why this work is not done again; None: it is new, or went well."""
    earlier = past.went_badly(signature(envelopes))
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
