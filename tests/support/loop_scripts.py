"""A loop of two stages and a script that plays it, for tests of doors."""

import json

APPROVED = json.dumps(
    {"requirements_met": True, "quality_pass": True, "findings": [], "rationale": "it does"}
)
PAIR = {
    "name": "pair",
    "description": "Writes and reviews.",
    "roles": [
        {
            "name": "write",
            "role": "writer",
            "prompt": "Write about {{topic}}.",
            "access": "minimal",
        },
        {"name": "review", "role": "reviewer", "prompt": "Review it.", "access": "minimal"},
    ],
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
