"""The demo: its own home, its ending, and the comparison from its own runs."""

import json

from perdure.domain.llm.usage import Usage
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.run.result import Mark, RunResult, SpendReport
from perdure.domain.specs import Spec
from perdure.interfaces.cli.best_of_n import best_so_far, calls_by_iteration
from tests.interfaces.cli.memory import Installation
from tests.interfaces.cli.samples import record, result


def test_the_demo_lives_in_a_home_that_goes_afterwards(perdure: Installation) -> None:
    assert perdure.run("demo") == 0
    [home] = perdure.homes
    assert home.name.startswith("perdure-demo-")
    assert not home.exists()
    assert perdure.calls == ["connect and start", "disconnect", "down"]
    [spec] = perdure.gateway.started
    assert isinstance(spec, RefineSpec)
    assert spec.models.executor == "local"
    assert len(spec.rubric) == 17
    assert "1 of 2 checks pass: stopped after 2 iterations, the best one is kept." in perdure.out
    assert "What to try next" in perdure.out


def test_a_home_that_is_named_stays(perdure: Installation) -> None:
    home = perdure.folder / "kept"
    assert perdure.run("demo", "--home", str(home)) == 0
    assert perdure.homes == [home]
    assert "down" not in perdure.calls


def test_services_are_stopped_after_ctrl_c_too(perdure: Installation) -> None:
    perdure.gateway.follow_error = KeyboardInterrupt()
    assert perdure.run("demo") == 130
    assert perdure.calls[-1] == "down"
    assert "The run goes on" not in perdure.err


def test_seeds_compare_both_arms_with_as_many_calls(perdure: Installation) -> None:
    def made(spec: Spec, number: int) -> RunResult:
        assert isinstance(spec, RefineSpec)
        is_loop = spec.refine.max_iterations > 1
        scores = (0.5, 0.8, 1.0) if is_loop else (0.5 + number / 100,)
        records = tuple(
            record(
                index,
                value,
                model_calls=1 if index == 1 else 2,
                usage=Usage(output_tokens=10 if index == 1 else 20),
            )
            for index, value in enumerate(scores, start=1)
        )
        calls = sum(item.model_calls for item in records)
        usage = Usage(output_tokens=10 * calls)
        tokens = 10 * calls if is_loop else 20
        return result(
            id=f"r{number}",
            iterations=records,
            iteration_count=len(records),
            best=Mark(iteration=len(records), score=scores[-1]),
            spend=SpendReport(model_calls=calls, tokens=tokens, usage=usage),
        )

    perdure.gateway.make_result = made
    assert perdure.run("demo", "--seeds", "2", "--json") == 0
    compared = json.loads(perdure.out)
    assert len(perdure.gateway.started) == 2 * (1 + 5)
    assert compared["loop"]["full_passes"] == 2
    assert compared["loop"]["scores"][:3] == [0.5, 0.8, 1.0]
    assert compared["best_of_n"]["calls"] == compared["loop"]["calls"] == 5
    assert compared["best_of_n"]["full_passes"] == 0
    # 10, 30 and 50 tokens of the loop pay for 1, 1 and 2 tries of 20.
    assert compared["same_tokens"]["calls"] == 2
    assert compared["same_tokens"]["scores"][:3] == [0.55, 0.55, 0.56]
    assert compared["single"]["scores"][0] == compared["single"]["scores"][-1] == 0.55
    assert perdure.run("demo", "--seeds", "1") == 0
    assert "best of n" in perdure.out
    assert perdure.run("demo", "--seeds", "0") == 2
    assert perdure.run("demo", "--plot", "a.svg") == 2
    assert perdure.run("demo", "--seeds", "1", "--plot", "out/a.svg") == 0
    assert "same tokens" in (perdure.folder / "out" / "a.svg").read_text(encoding="utf-8")


def test_curves_stand_still_after_the_end() -> None:
    assert best_so_far([0.5, None, 0.4, 0.9], 6) == (0.5, 0.5, 0.5, 0.9, 0.9, 0.9)
    ended = result(iterations=(record(1, 0.5), record(2, 0.7)))
    assert calls_by_iteration(ended, 4) == (2, 4, 4, 4)
