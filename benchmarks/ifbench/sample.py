"""Which prompts are run: a fixed draw, with a development sample apart from the one reported."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.ifbench.checks import Prompt

Part = Literal["reported", "development"]
SEED = 20_261_125
MOST_PROMPT_WORDS = 80
MOST_ANSWER_WORDS = 150
REPORTED, DEVELOPMENT = 120, 40


@dataclass(frozen=True, slots=True)
class Sample:
    """The prompts to run, and how many there were to draw from."""

    prompts: Sequence[Prompt]
    eligible: int


def draw(prompts: Sequence[Prompt], *, part: Part, count: int) -> Sample:
    """The first `count` prompts of a part, always the same ones.

    The two parts never share a prompt, however many are drawn. Prompts stay out that the embedded
    model cannot hold: those that are long themselves or ask for a long answer.

    Raises:
        ValueError: there are not so many.
    """
    eligible = sorted((one for one in prompts if _small(one)), key=lambda one: int(one.key))
    random.Random(SEED).shuffle(eligible)
    first = 0 if part == "reported" else REPORTED
    most = REPORTED if part == "reported" else DEVELOPMENT
    if not 0 < count <= most:
        raise ValueError(f"--prompts {count}: found {count}; allowed: 1 to {most} of {part}")
    return Sample(eligible[first : first + count], len(eligible))


def _small(prompt: Prompt) -> bool:
    return len(prompt.prompt.split()) <= MOST_PROMPT_WORDS and _asked(prompt) <= MOST_ANSWER_WORDS


def _asked(prompt: Prompt) -> float:
    """The words that the answer needs at least."""
    bounds = {"count:word_count_range": "max_words", "count:unique_word_count": "N"}
    given = (
        arguments.get(bounds[name])
        for name, arguments in zip(prompt.ids, prompt.arguments, strict=True)
        if name in bounds
    )
    return max((float(value) for value in given if isinstance(value, int | float)), default=0.0)
