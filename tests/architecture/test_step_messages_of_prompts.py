"""Step messages about prompts: what is appended to a conversation, recalled and learned.

Like the messages of every loop, they travel without their defaults.
"""

from inline_snapshot import snapshot
from pydantic import JsonValue

from tests.architecture.step_shapes import PROMPTS, shapes

SHAPES: dict[str, dict[str, JsonValue]] = snapshot(
    {
        "ExtractReport": {"call": "required", "problems": [], "usable": False, "learnings": []},
        "ExtractRequest": {"call": "required"},
        "GoalEntry": {
            "type": "required",
            "iteration": "required",
            "done": "required",
            "tokens": 0,
            "said": [],
            "problems": [],
        },
        "JudgeEntry": {
            "type": "required",
            "output": "required",
            "dimensions": "required",
            "open_findings": [],
            "problems": [],
            "changed": [],
            "earlier": {},
            "said": [],
            "cut": False,
            "adaptation": {},
        },
        "KeepReport": {"kept": 0, "reinforced": 0},
        "KeepRequest": {"source": "required", "learnings": "required"},
        "MineReport": {"events": 0, "found": 0, "proposed": 0, "forgotten": 0},
        "MineRequest": {"now": "required"},
        "PlanEntry": {
            "type": "required",
            "recalled": None,
            "skills": None,
            "problems": [],
            "adaptation": {},
        },
        "RecallReport": {
            "text": None,
            "skills_text": None,
            "learnings": 0,
            "anti_patterns": 0,
            "similar_tasks": 0,
            "skills": [],
            "used": [],
            "left_out": [],
            "left_out_count": 0,
            "missing": [],
            "unreadable": 0,
            "summary": "",
            "seconds": 0.0,
        },
        "RecallRequest": {
            "run": "required",
            "goal": "required",
            "category": None,
            "token_limit": "required",
            "skills": [],
            "now": "required",
        },
        "RecalledSkill": {
            "id": "required",
            "name": "required",
            "version": 1,
            "deterministic": False,
            "score": 0.0,
            "requested": False,
        },
        "RefineEntry": {
            "type": "required",
            "previous": None,
            "evaluation": None,
            "threshold": None,
            "guidance": [],
            "error": None,
            "part": None,
            "tokens": 0,
            "changed": [],
            "plan": "",
            "recalled": None,
            "skills": None,
            "approach": "",
            "adaptation": {},
        },
        "ResultsEntry": {"type": "required", "results": "required"},
        "SayEntry": {
            "type": "required",
            "role": "user",
            "text": "",
            "ref": None,
            "tokens": 0,
            "pinned": False,
        },
        "StageEntry": {
            "type": "required",
            "iteration": "required",
            "limit": None,
            "place": "required",
            "of": "required",
            "done": [],
            "past": [],
            "left_out": 0,
            "findings": [],
            "review": None,
            "goal_reason": "",
            "guidance": [],
            "answer": None,
            "tokens": 0,
        },
        "StageShown": {
            "iteration": "required",
            "name": "required",
            "role": "required",
            "status": "completed",
            "line": "",
            "ref": None,
        },
        "ToolResultEntry": {
            "call_id": "required",
            "name": "required",
            "outcome": "ok",
            "ref": None,
            "note": "",
            "attachments": [],
        },
    }
)


def test_all_step_messages_about_prompts_are_known() -> None:
    assert shapes(PROMPTS) == SHAPES
