"""A loop of two stages and a script that plays it, for tests of doors."""

import json

APPROVED = json.dumps(
    {"requirements_met": True, "quality_pass": True, "findings": [], "rationale": "it does"}
)
STAGES = [
    {"role": "writer", "name": "write", "prompt": "Tell of {{topic}}.", "access": "minimal"},
    {"role": "reviewer", "name": "review", "prompt": "Review it.", "access": "minimal"},
]
PAIR = {
    "name": "pair",
    "description": "Writes and reviews.",
    "roles": STAGES,
    "termination_condition": {"type": "evaluation_bound", "criteria": "it is about the topic"},
    "parameters": [{"name": "topic"}],
}


def pair_script(**first: object) -> dict[str, object]:
    """A writer that writes and a reviewer that approves; `first` adds to the writer's reply."""
    return {
        "replies": [
            {"when": {"role": "writer"}, "text": "Rust is iron oxide.", "times": 9, **first},
            {"when": {"role": "reviewer"}, "text": APPROVED, "times": 9},
        ]
    }
