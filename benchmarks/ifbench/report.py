"""The figures of IFBench from the trials of an experiment: strict accuracy with intervals."""

import argparse
import csv
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from math import sqrt
from pathlib import Path
from statistics import fmean

from benchmarks.ifbench.sample import MOST_ANSWER_WORDS, MOST_PROMPT_WORDS, Sample
from perdure.interfaces.experiments.statistics import interval

LOCK = Path(__file__).parent / "requirements.lock"
Z = 1.96
RESAMPLES, SEED = 4_000, 20_260
Pairs = Mapping[str, tuple[float, int]]
"""By prompt: the instructions followed, and how many it has."""


@dataclass(frozen=True, slots=True)
class Row:
    """One trial: the share of instructions that it followed, out of how many, and its spend."""

    key: str
    arm: str
    share: float
    instructions: int
    tokens: int
    calls: int
    failed: bool

    @property
    def all_followed(self) -> float:
        """The strict score of the prompt."""
        return float(self.share >= 1.0)


@dataclass(frozen=True, slots=True)
class Trials:
    """All counted trials of the prompts that every arm has run."""

    rows: Sequence[Row]

    @classmethod
    def read(cls, path: Path, instructions: Mapping[str, int]) -> "Trials":
        """The trials as `perdure experiment report --format csv` writes them."""
        with path.open(encoding="utf-8", newline="") as file:
            rows = [
                Row(
                    key=line["input"],
                    arm=line["arm"],
                    share=float(line["score"]),
                    instructions=instructions[line["input"]],
                    tokens=int(line["tokens"]),
                    calls=int(line["model_calls"]),
                    failed=line["outcome"] == "failed",
                )
                for line in csv.DictReader(file)
                if line["counted"] == "1"
            ]
        arms = {row.arm for row in rows}
        seen = {key: {row.arm for row in rows if row.key == key} for key in {r.key for r in rows}}
        return cls([row for row in rows if seen[row.key] == arms])

    @property
    def arms(self) -> list[str]:
        """Their names, in the order of the experiment."""
        return list(dict.fromkeys(row.arm for row in self.rows))

    @property
    def keys(self) -> list[str]:
        """The prompts, each once."""
        return list(dict.fromkeys(row.key for row in self.rows))

    def of(self, arm: str) -> list[Row]:
        """The trials of one arm."""
        return [row for row in self.rows if row.arm == arm]

    def prompt_level(self, arm: str) -> dict[str, float]:
        """By prompt: the share of repeats in which all its instructions were followed."""
        return _means((row.key, row.all_followed) for row in self.of(arm))

    def instruction_level(self, arm: str) -> dict[str, tuple[float, int]]:
        """By prompt: how many of its instructions were followed, and how many it has."""
        count = {row.key: row.instructions for row in self.rows}
        shares = _means((row.key, row.share) for row in self.of(arm))
        return {key: (share * count[key], count[key]) for key, share in shares.items()}


def _means(values: Iterable[tuple[str, float]]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for key, value in values:
        found.setdefault(key, []).append(value)
    return {key: fmean(each) for key, each in found.items()}


def wilson(share: float, count: int) -> tuple[float, float]:
    """Where a share that was found in `count` prompts lies with 95 % confidence; never 0 wide.

    Repeats and several instructions of one prompt count as one: they say little about others.
    """
    z2 = Z**2
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    margin = Z * sqrt(share * (1 - share) / count + z2 / (4 * count**2)) / (1 + z2 / count)
    return max(0.0, middle - margin), min(1.0, middle + margin)


def _share(followed: Iterable[tuple[float, int]]) -> float:
    pairs = list(followed)
    return sum(one for one, _ in pairs) / sum(count for _, count in pairs)


def _resampled(ours: Pairs, theirs: Pairs) -> tuple[float, float]:
    """The interval of a difference in instructions, by drawing prompts anew with fixed draws."""
    draw, keys = random.Random(SEED), list(ours)
    found = sorted(
        _share(ours[key] for key in drawn) - _share(theirs[key] for key in drawn)
        for drawn in (draw.choices(keys, k=len(keys)) for _ in range(RESAMPLES))
    )
    return found[round(0.025 * (RESAMPLES - 1))], found[round(0.975 * (RESAMPLES - 1))]


def write_report(target: Path, trials: Trials, sample: Sample, options: argparse.Namespace) -> None:
    """Write the report as Markdown."""
    target.write_text("\n".join(_lines(trials, sample, options)) + "\n", encoding="utf-8")


def _lines(trials: Trials, sample: Sample, options: argparse.Namespace) -> list[str]:
    if not trials.rows:
        return ["# IFBench", "", "No prompt has run in all arms yet."]
    package = next(
        line.split(" ")[0].replace("==", " ")
        for line in LOCK.read_text(encoding="utf-8").splitlines()
        if line.startswith("nvidia-ifbench==")
    )
    repeats = len(trials.rows) / len(trials.keys) / len(trials.arms)
    seeds = "one repeat" if repeats == 1 else f"{round(repeats, 1):g} repeats each"
    return [
        "# IFBench",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, model `{options.model}`, {package}, perdure "
        f"{version('perdure')}: the first {len(trials.keys)} of {options.prompts} prompts, "
        f"{seeds}, {options.part} sample, drawn from the {sample.eligible} prompts of at most "
        f"{MOST_PROMPT_WORDS} words that ask for at most {MOST_ANSWER_WORDS}. Made by",
        "",
        f"    {_command(options)}",
        "",
        "| arm | prompts | 95 % | instructions | 95 % | calls | tokens | failed |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *(_arm(trials, arm) for arm in trials.arms),
        "",
        *(f"- {_pair(trials, other)}" for other in trials.arms if other != "loop"),
    ]


def _arm(trials: Trials, arm: str) -> str:
    rows, count = trials.of(arm), len(trials.keys)
    prompts = fmean(trials.prompt_level(arm).values())
    instructions = _share(trials.instruction_level(arm).values())
    cells = [
        arm,
        f"{prompts:.3f}",
        _between(*wilson(prompts, count)),
        f"{instructions:.3f}",
        _between(*wilson(instructions, count)),
        f"{fmean(row.calls for row in rows):.2f}",
        f"{fmean(row.tokens for row in rows):.0f}",
        str(sum(row.failed for row in rows)),
    ]
    return f"| {' | '.join(cells)} |"


def _pair(trials: Trials, other: str) -> str:
    """The loop less another arm, paired by prompt."""
    ours, theirs = trials.prompt_level("loop"), trials.prompt_level(other)
    prompts = interval([ours[key] - theirs[key] for key in ours])
    pairs = trials.instruction_level("loop"), trials.instruction_level(other)
    instructions = _share(pairs[0].values()) - _share(pairs[1].values())
    told = "a difference" if prompts.differs else "no difference can be told"
    between = (
        "too few"
        if prompts.low is None or prompts.high is None
        else _between(max(-1.0, prompts.low), min(1.0, prompts.high))
    )
    return (
        f"loop less {other}: prompts {prompts.mean:+.3f} ({between}), instructions "
        f"{instructions:+.3f} ({_between(*_resampled(*pairs))}); by prompts {told}."
    )


def _between(low: float, high: float) -> str:
    return f"{low:.3f} to {high:.3f}"


def _command(options: argparse.Namespace) -> str:
    given = [
        f"--model {options.model}" if options.model != "local" else "",
        f"--prompts {options.prompts} --seeds {options.seeds} --iterations {options.iterations}",
        f"--max-output-tokens {options.max_output_tokens}" if options.max_output_tokens else "",
        f"--part {options.part}" if options.part != "reported" else "",
    ]
    return f'make bench-ifbench ARGS="{" ".join(word for word in given if word)}"'
