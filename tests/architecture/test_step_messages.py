"""Step messages travel without their defaults, so a changed default changes old histories.

A new field gets a default and is added to the snapshot; nothing that stands there is altered.
`golden.json` holds payloads as histories have them: each must be read, and written the same.
"""

import json
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from pydantic import JsonValue

from perdure.adapters.temporal.data_converter import CompactConverter
from perdure.domain.foundation.base import ActivityMessage
from tests.architecture.step_shapes import PROMPTS, SINGLE, TEAMS, shapes, step_messages, untagged

GOLDEN: dict[str, list[dict[str, JsonValue]]] = json.loads(
    (Path(__file__).parent / "golden.json").read_text(encoding="utf-8")
)
MESSAGES = step_messages()
SHAPES: dict[str, dict[str, JsonValue]] = snapshot(
    {
        "ActivityCheck": {
            "dimension": "required",
            "check": "required",
            "activity": "required",
            "timeout_s": "required",
            "arguments": "required",
        },
        "ActivityVerdict": {"value": None, "failed": ""},
        "Allowance": {
            "max_tokens": "required",
            "tokens": None,
            "cost_usd": None,
            "factor": 1.0,
            "active_time_s": None,
            "attempts": None,
            "output_tokens": None,
            "tries": 8,
            "tried": 0,
            "typical_output": None,
            "first_step": "",
            "patience_s": None,
            "waited_s": 0.0,
            "least": 16,
        },
        "CheckCallReport": {"left_out": 0, "ref": None, "refused": None, "shown": ""},
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
        "CollectReport": {
            "runs": 0,
            "blobs": 0,
            "bytes": 0,
            "kept": 0,
            "calls": 0,
            "left": 0,
            "left_runs": [],
        },
        "CollectRequest": {},
        "FinishReport": {"stored": True, "output": None, "excerpt": False},
        "FinishRequest": {
            "run": "required",
            "records": [],
            "result": "required",
            "status": None,
            "outcome": "required",
            "lifecycle": "required",
            "ended_at": "required",
            "category": None,
            "remembered": False,
            "state": None,
            "output": None,
            "inline": 0,
        },
        "HookReport": {"adaptation": {}, "seconds": 0.0},
        "HookRequest": {
            "hook": "required",
            "run": "required",
            "loop": "required",
            "frame": None,
            "goal": "",
            "key": "required",
            "record": None,
            "adaptation": {},
            "result": None,
        },
        "JudgeReport": {
            "call": "required",
            "problems": [],
            "usable": False,
            "scores": [],
            "resolved": [],
            "cached": False,
            "cached_from": "",
        },
        "JudgeRequest": {
            "call": "required",
            "dimensions": "required",
            "cache": "run",
            "open_findings": [],
            "next_finding": 1,
            "pass_score": 1.0,
        },
        "ModelCallReport": {
            "status": "required",
            "head": None,
            "before": None,
            "stop_reason": "",
            "text": None,
            "excerpt": "",
            "calls": [],
            "account": {
                "attempts": 0,
                "usage": {
                    "input_tokens": 0,
                    "output_tokens": 0,
                    "cache_read_tokens": 0,
                    "cache_write_5m_tokens": 0,
                    "cache_write_1h_tokens": 0,
                },
                "cost_usd": "0",
                "unconfirmed": {
                    "input_tokens": 0,
                    "output_tokens": 0,
                    "cache_read_tokens": 0,
                    "cache_write_5m_tokens": 0,
                    "cache_write_1h_tokens": 0,
                },
                "unconfirmed_cost_usd": "0",
                "lost_attempts": 0,
                "seconds": 0.0,
            },
            "model": "",
            "request_id": None,
            "prompt_estimate": 0,
            "prompt_tokens": 0,
            "replayed": False,
            "cut_call": "",
            "misfits": None,
            "tools_ref": None,
        },
        "ModelCallRequest": {
            "frame": "required",
            "role": "executor",
            "phase": "executing",
            "iteration": "required",
            "model": "required",
            "head": None,
            "append": [],
            "on_offer": None,
            "tools_off": False,
            "allowance": "required",
            "records": [],
            "compact": False,
            "worker": None,
            "state": None,
            "continues": None,
            "seam": "",
            "room": None,
            "settings": None,
            "shaped": False,
            "followed": None,
        },
        "ModelFailure": {
            "facts": "required",
            "account": "required",
            "failures": 1,
            "again_after_s": None,
            "failing_for_s": 0.0,
        },
        "NotifyReport": {"delivered": False},
        "NoteExperimentRequest": {"experiment": "required", "state": "required", "reason": ""},
        "NotifyRequest": {
            "run": "required",
            "gate": "required",
            "kind": "required",
            "prompt": "required",
            "choices": [],
            "reminder": 0,
        },
        "OpenRunReport": {
            "frame": "required",
            "head": None,
            "cards": {},
            "system_tokens": 0,
            "task_tokens": 0,
            "failing": [],
            "tallies": None,
            "seats": {},
            "notifies": None,
            "task_media": 0,
            "queues": {},
            "blind": {},
        },
        "OpenRunRequest": {
            "run": "required",
            "kind": "required",
            "goal": "required",
            "system": "",
            "context": {},
            "messages": [],
            "transcript": None,
            "converses": False,
            "chains": {},
            "assume_price": None,
            "grant": "required",
            "tools": [],
            "extra": {},
            "root": "",
            "commission": None,
            "goes_on": False,
            "resume": None,
            "now": "required",
            "seats": {},
            "output_schema": None,
            "cache_life": "5m",
        },
        "OpenTaskReport": {"input": None, "queue": "", "memo": {}, "tenant": "", "result": None},
        "OpenTaskRequest": {
            "kind": "required",
            "task": "required",
            "chain": "required",
            "schedule": "",
        },
        "OpenWorkspaceReport": {
            "grant": "required",
            "tools": [],
            "terms": [],
            "base_tree": None,
            "checks": [],
            "seconds": 0.0,
            "seats": {},
            "host": None,
        },
        "OpenTrialReport": {"run": None, "kind": "", "input": None, "queue": "", "memo": {}},
        "OpenTrialRequest": {"experiment": "required", "number": "required"},
        "OpenWorkspaceRequest": {
            "run": "required",
            "source": "required",
            "tools": "required",
            "tool_timeout_s": None,
            "tree": None,
            "base": None,
            "needs": {"programs": {}, "checks": {}, "capabilities": {}},
            "session": "",
            "project": "",
            "root": "",
            "seats": {},
            "orchestrates": False,
            "hooks": {},
        },
        "PairRequest": {"frame": "required", "head": "required", "append": "required"},
        "PlanReport": {
            "call": "required",
            "problems": [],
            "usable": False,
            "plan": {"steps": [], "risks": []},
        },
        "PlanRequest": {"call": "required"},
        "ReadyReport": {
            "version": "required",
            "queue": "required",
            "workspace": None,
            "lacks": {},
            "models": {"default": "", "names": [], "any": False},
            "hooks": {},
        },
        "ReadVerdictsReport": {"dimensions": []},
        "ReadVerdictsRequest": {"frame": "required", "output": "required", "verdicts": "required"},
        "ReconcileRequest": {"activity_id": "required"},
        "ReframeReport": {"frame": "required", "task_tokens": 0},
        "ReframeRequest": {"frame": "required", "extra": None, "goal": None},
        "ServedModels": {"default": "", "names": [], "any": False},
        "SettleChildReport": {"spend": "required"},
        "SettleChildRequest": {"child": "required", "root": "required"},
        "ShelveReport": {"values": "required", "shown": {}},
        "SettleTrialReport": {"cost_usd": "0", "tokens": 0, "more": False, "judge": None},
        "SettleTrialRequest": {
            "experiment": "required",
            "number": "required",
            "run": "required",
            "judge": None,
        },
        "ShelveRequest": {"values": "required"},
        "SnapshotReport": {"tree": "required", "patch": None, "seconds": 0.0},
        "SnapshotRequest": {
            "run": "required",
            "root": "required",
            "patch_from": None,
            "patch_to": None,
        },
        "StageContext": {"frame": "required", "system_tokens": 0, "task_tokens": 0},
        "StageSetup": {"system": "required", "grant": "required", "extra": {}},
        "StageTools": {"level": "required", "allow": None},
        "StructuredReport": {"call": "required", "problems": [], "usable": False},
        "TakeOverReport": {
            "ended": None,
            "booked": {
                "account": {
                    "attempts": 0,
                    "usage": {
                        "input_tokens": 0,
                        "output_tokens": 0,
                        "cache_read_tokens": 0,
                        "cache_write_5m_tokens": 0,
                        "cache_write_1h_tokens": 0,
                    },
                    "cost_usd": "0",
                    "unconfirmed": {
                        "input_tokens": 0,
                        "output_tokens": 0,
                        "cache_read_tokens": 0,
                        "cache_write_5m_tokens": 0,
                        "cache_write_1h_tokens": 0,
                    },
                    "unconfirmed_cost_usd": "0",
                    "lost_attempts": 0,
                    "seconds": 0.0,
                },
                "by_phase": {},
                "by_model": {},
            },
            "orphans": [],
            "children": 0,
            "tool_calls": 0,
        },
        "TakeOverRequest": {
            "run": "required",
            "root": "required",
            "before": "required",
            "children": 0,
            "records": 0,
            "held": [],
        },
        "KeepResultRequest": {
            "name": "required",
            "outcome": "required",
            "value": "required",
            "seconds": 0.0,
        },
        "ToolCallReport": {
            "outcome": "ok",
            "ref": None,
            "code": "",
            "seconds": 0.0,
            "number": None,
            "told": "",
            "held": None,
            "handed_over": None,
            "attachments": [],
            "tree": None,
            "tree_at": 0,
        },
        "ToolCallRequest": {
            "frame": "required",
            "head": "required",
            "call_id": "required",
            "name": "required",
            "iteration": "required",
            "args_hash": "required",
            "idempotent": False,
            "timeout_s": 30.0,
            "active_time_s": None,
            "stage": "",
            "root": "",
            "takes_snapshot": False,
        },
        "ToolInvocation": {
            "run": "required",
            "call_id": "required",
            "idempotency_key": "required",
            "name": "required",
            "arguments": "required",
            "conversation": "",
            "timeout_s": None,
            "iteration": 0,
            "stage": "",
        },
        "VerifyReport": {"dimensions": [], "interrupted": None, "seconds": 0.0},
        "VerifyRequest": {"frame": "required", "output": None, "tree": None, "active_time_s": None},
        "WantedHook": {"kind": "required", "name": "required", "parameters": {}},
    }
)
CASES = [(name, payload) for name, payloads in GOLDEN.items() for payload in payloads]


def test_all_step_messages_of_single_loops_are_known() -> None:
    assert shapes(SINGLE) == SHAPES


def test_every_message_belongs_somewhere() -> None:
    assert sorted([*shapes(SINGLE), *shapes(PROMPTS), *shapes(TEAMS)]) == list(MESSAGES)


def test_every_message_has_a_golden_payload() -> None:
    assert sorted(GOLDEN) == sorted(MESSAGES)


@pytest.mark.parametrize(
    ("name", "payload"), CASES, ids=[f"{name}-{number}" for number, (name, _) in enumerate(CASES)]
)
def test_a_golden_payload_is_read_and_written_the_same(
    name: str, payload: dict[str, JsonValue]
) -> None:
    written = CompactConverter().to_payload(MESSAGES[name].model_validate_json(json.dumps(payload)))
    assert written is not None and json.loads(written.data) == payload


@pytest.mark.parametrize("cls", MESSAGES.values(), ids=list(MESSAGES))
def test_tags_of_unions_always_travel(cls: type[ActivityMessage]) -> None:
    assert untagged(cls) == []
