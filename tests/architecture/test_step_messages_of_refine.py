"""Step messages of a refining loop: checks, plans, verdicts and what changes the prompt.

Like the messages of every loop, they travel without their defaults.
"""

from inline_snapshot import snapshot
from pydantic import JsonValue

from tests.architecture.step_shapes import REFINE, shapes

SHAPES: dict[str, dict[str, JsonValue]] = snapshot(
    {
        "CheckReport": {
            "output": "required",
            "output_hash": None,
            "dimensions": [],
            "changes": None,
            "seconds": 0.0,
            "activities": [],
        },
        "CheckRequest": {
            "frame": "required",
            "pieces": [],
            "stored": False,
            "known": None,
            "kept": None,
            "kept_evaluation": None,
            "replies": {},
            "previous": None,
            "evidence": {},
            "tree": None,
            "adaptation": {},
        },
        "PlanReport": {
            "call": "required",
            "problems": [],
            "usable": False,
            "plan": {"steps": [], "risks": []},
        },
        "PlanRequest": {"call": "required"},
        "ReadVerdictsReport": {"dimensions": []},
        "ReadVerdictsRequest": {"frame": "required", "output": "required", "verdicts": "required"},
        "ReframeReport": {"frame": "required", "task_tokens": 0},
        "ReframeRequest": {"frame": "required", "extra": None, "goal": None},
        "VerifyReport": {"dimensions": [], "interrupted": None, "seconds": 0.0},
        "VerifyRequest": {"frame": "required", "output": None, "tree": None, "active_time_s": None},
    }
)


def test_all_step_messages_of_refining_loops_are_known() -> None:
    assert shapes(REFINE) == SHAPES
