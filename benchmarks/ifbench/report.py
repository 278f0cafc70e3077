"""The figures of IFBench from the trials of an experiment: strict accuracy with intervals."""

import argparse
import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import fmean

from benchmarks.ifbench.sample import MOST_ANSWER_WORDS, MOST_PROMPT_WORDS, Sample
from perdure.interfaces.experiments.statistics import Interval, interval

LOCK = Path(__file__).parent / "requirements.lock"


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

    def instruction_level(self, arm: str) -> dict[str, float]:
        """By prompt: what it adds to the share of all instructions that were followed.

        The mean over prompts is that share. A prompt counts by the number of its instructions,
        and only with what it deviates, or the numbers alone would widen the interval (the
        linearized estimate of a ratio).
        """
        shares = _means((row.key, row.share) for row in self.of(arm))
        count = {row.key: row.instructions for row in self.rows}
        mean = fmean(count[key] for key in shares)
        whole = sum(share * count[key] for key, share in shares.items()) / mean / len(shares)
        return {key: whole + (share - whole) * count[key] / mean for key, share in shares.items()}


def _means(values: Iterable[tuple[str, float]]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for key, value in values:
        found.setdefault(key, []).append(value)
    return {key: fmean(each) for key, each in found.items()}


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
    seeds = f"{repeats:.1f} repeats on average" if repeats != 1 else "one repeat"
    planned = f"{options.prompts} prompts and {options.seeds} repeats"
    return [
        "# IFBench",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, model `{options.model}`, {package}, perdure "
        f"{version('perdure')}: {len(trials.keys)} prompts, {seeds} (asked for: {planned}), "
        f"{options.part} sample, drawn from the {sample.eligible} prompts of at most "
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
    prompts = interval(list(trials.prompt_level(arm).values()))
    instructions = interval(list(trials.instruction_level(arm).values()))
    rows = trials.of(arm)
    cells = [
        arm,
        f"{prompts.mean:.3f}",
        _between(prompts, least=0),
        f"{instructions.mean:.3f}",
        _between(instructions, least=0),
        f"{fmean(row.calls for row in rows):.2f}",
        f"{fmean(row.tokens for row in rows):.0f}",
        str(sum(row.failed for row in rows)),
    ]
    return f"| {' | '.join(cells)} |"


def _pair(trials: Trials, other: str) -> str:
    """The loop less another arm, paired by prompt."""
    prompts = _difference(trials.prompt_level("loop"), trials.prompt_level(other))
    instructions = _difference(trials.instruction_level("loop"), trials.instruction_level(other))
    told = "a difference" if prompts.differs else "no difference can be told"
    return (
        f"loop less {other}: prompts {prompts.mean:+.3f} ({_between(prompts)}), instructions "
        f"{instructions.mean:+.3f} ({_between(instructions)}); by prompts {told}."
    )


def _difference(ours: Mapping[str, float], theirs: Mapping[str, float]) -> Interval:
    return interval([ours[key] - theirs[key] for key in ours])


def _between(found: Interval, *, least: int = -1) -> str:
    """The interval in words, within what a share or a difference of two can be."""
    if found.low is None or found.high is None:
        return "–"
    return f"{max(found.low, least):.3f} to {min(found.high, 1):.3f}"


def _command(options: argparse.Namespace) -> str:
    given = [
        f"--model {options.model}" if options.model != "local" else "",
        f"--prompts {options.prompts} --seeds {options.seeds} --iterations {options.iterations}",
        f"--max-output-tokens {options.max_output_tokens}" if options.max_output_tokens else "",
        f"--part {options.part}" if options.part != "reported" else "",
    ]
    return f'make bench-ifbench ARGS="{" ".join(word for word in given if word)}"'
