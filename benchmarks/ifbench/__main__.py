"""Run IFBench as an experiment and write its report: `make bench-ifbench`.

It can be ended at any time; the same command goes on where it was.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from benchmarks.ifbench.checks import FOLDER, Prompt, checkers
from benchmarks.ifbench.report import Trials, write_report
from benchmarks.ifbench.sample import Part, Sample, draw

ROOT = FOLDER.parents[1]
LOCAL_TOKENS, OTHER_TOKENS = 128, 2_048
WORK_S = 3_600  # ample: a busy machine must not decide between the arms
ARMS: dict[str, JsonValue] = {
    "loop": {},
    "single": {"refine.max_iterations": 1},
    "same_calls": {"best_of": "same_calls"},
    "same_tokens": {"best_of": "same_tokens"},
}


def main() -> int:
    """Prepare the experiment, run it, write the report."""
    options = _options()
    try:
        sample = draw(
            list(checkers().prompts.values()),
            part=cast("Part", options.part),
            count=options.prompts,
        )
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    work = options.home.absolute()
    work.mkdir(parents=True, exist_ok=True)
    file = work / f"{_name(options)}.json"
    file.write_text(json.dumps(experiment(sample, options), indent=1), encoding="utf-8")
    if not options.report_only:
        ended = _perdure(work, "experiment", str(file), "--id", _name(options))
        if ended not in {0, 1}:
            return ended
    rows = work / f"{_name(options)}.csv"
    ended = _perdure(
        work, "experiment", "report", _name(options), "--format", "csv", "--to", str(rows)
    )
    if ended:
        return ended
    trials = Trials.read(rows, {one.key: len(one.ids) for one in sample.prompts})
    target = options.to or FOLDER / "report.md"
    write_report(target, trials, sample, options)
    print(target.read_text(encoding="utf-8"))
    return 0


def experiment(sample: Sample, options: argparse.Namespace) -> dict[str, JsonValue]:
    """The experiment's file: the prompt is the goal, each instruction a check."""
    inputs: list[JsonValue] = [
        {"id": one.key, "goal": one.prompt, "set": {"rubric": rubric(one)}}
        for one in sample.prompts
    ]
    tokens = options.max_output_tokens or (
        LOCAL_TOKENS if options.model == "local" else OTHER_TOKENS
    )
    task: dict[str, JsonValue] = {
        "kind": "refine",
        "goal": sample.prompts[0].prompt,
        "models": {
            "executor": options.model,
            "settings": {"executor": {"max_output_tokens": tokens}},
        },
        # A reply that reaches the limit is scored as it is, as IFBench scores it.
        "agent": {"max_iterations": 1},
        "rubric": rubric(sample.prompts[0]),
        "refine": {
            "plan": "off",
            "classify": "off",
            "max_iterations": options.iterations,
            # A prompt counts when all its instructions are followed; nothing less ends the loop.
            "quality_threshold": 1.0,
            "improvement_threshold": None,
            "abort_on_regression": False,
        },
        "budget": {
            "active_time": WORK_S,
            "wall_time": 24 * WORK_S,
            **({"cost_usd": options.run_usd} if options.model != "local" else {}),
        },
    }
    return {
        "name": "ifbench",
        "task": task,
        "inputs": inputs,
        "arms": ARMS,
        "repeats": options.seeds,
        "parallel": options.parallel,
        **({"budget": {"cost_usd": options.usd}} if options.usd else {}),
    }


def rubric(prompt: Prompt) -> list[JsonValue]:
    """One check for each instruction.

    They are secret: the prompt says already what is wanted, and the first draft of each arm is
    asked for with the prompt alone, as IFBench does.
    """
    return [
        {
            "name": f"{number}. {name}",
            "secret": True,
            "evaluator": {"check": "ifbench.follows", "key": prompt.key, "instruction": number - 1},
        }
        for number, name in enumerate(prompt.ids, start=1)
    ]


def _perdure(home: Path, *words: str) -> int:
    around = {"PERDURE_HOME": str(home / "home"), "PERDURE_PLUGINS": str(FOLDER / "checks.py")}
    command = [sys.executable, "-P", "-m", "perdure", *words]
    return subprocess.run(command, env={**os.environ, **around}, check=False).returncode


def _name(options: argparse.Namespace) -> str:
    """The same options are the same experiment."""
    model = "".join(sign if sign.isalnum() else "-" for sign in options.model)
    tokens = f"-{options.max_output_tokens}" if options.max_output_tokens else ""
    return (
        f"ifbench-{model}-{options.part}-{options.prompts}x{options.seeds}"
        f"-{options.iterations}{tokens}{options.suffix}"
    )


def _options() -> argparse.Namespace:
    read = argparse.ArgumentParser(prog="benchmarks.ifbench", description=__doc__)
    add = read.add_argument
    add("--model", default="local", help="any model that a task can name; default: local")
    add("--prompts", type=int, default=100, help="how many of the sample")
    add("--seeds", type=int, default=3, help="how often each prompt runs in each arm")
    add("--iterations", type=int, default=3, help="most iterations of the loop")
    add("--parallel", type=int, default=2, help="trials at a time; the engine answers two")
    add("--max-output-tokens", type=int, help=f"{LOCAL_TOKENS} for local, else {OTHER_TOKENS}")
    add("--part", choices=["reported", "development"], default="reported")
    add("--usd", type=float, help="what all runs together may cost")
    add("--run-usd", type=float, default=0.5, help="what one run may cost")
    add("--home", type=Path, default=ROOT / "build" / "ifbench", help="services and data")
    add("--to", type=Path, help="the report; default: benchmarks/ifbench/report.md")
    add("--suffix", default="", help="run the same once more under another name")
    add("--report-only", action="store_true", help="write the report of what has run so far")
    return read.parse_args()


if __name__ == "__main__":
    sys.exit(main())
