"""Every name that outsiders use: queues, workflow types and ids, handlers, search attributes."""

import hashlib
import re
from typing import Literal

LoopKind = Literal["agent", "refine", "roles", "delegation"]
WORKFLOW_TYPES: dict[str, str] = {
    "agent": "AgentLoop",
    "refine": "RefineLoop",
    "roles": "RoleLoop",
    "delegation": "DelegationLoop",
    "learn": "LearnLoop",
}
MINING_WORKFLOW = "PatternMining"

SEARCH_ATTRIBUTES: dict[str, Literal["Keyword", "Int", "Double"]] = {
    "PerdureKind": "Keyword",
    "PerdureLifecycle": "Keyword",
    "PerdurePhase": "Keyword",
    "PerdureBlockedOn": "Keyword",
    "PerdureLabel": "Keyword",
    "PerdureOutcome": "Keyword",
    "PerdureIteration": "Int",
    "PerdureScore": "Double",
    "PerdureCostUsd": "Double",
}
SEARCH_ATTRIBUTE_LIMIT = 512

VERBS = ("pause", "resume", "stop", "escalate", "answer", "amend", "retry", "add_input")
QUERIES = ("status", "history", "costs", "gates", "events")

READY_ACTIVITY = "ready"
ID_GOAL_WORDS = 3
MEMO_GOAL_CHARACTERS = 400
LOCAL_MODELS = frozenset({"local", "smollm2-135m-instruct"})  # what the embedded model is called
SHOWN_MODEL_CHARACTERS = 28


def loops_queue(installation: str) -> str:
    """The queue of workflows and of the bookkeeping steps."""
    return f"perdure-{installation}-loops"


def models_queue(installation: str) -> str:
    """The queue of model calls and judgements."""
    return f"perdure-{installation}-models"


def tools_queue(installation: str, workspace: str | None) -> str:
    """The queue of tools, checks and snapshots for a workspace, or for scratch folders."""
    middle = f"{installation}-{workspace}" if workspace else installation
    return f"perdure-{middle}-tools"


def run_id(kind: str, goal: str, seed: str) -> str:
    """A readable run id such as `refine-steel-bottle-7f3a`; `seed` makes it unique."""
    words = [word for word in re.findall(r"[a-z0-9]+", goal.lower()) if len(word) > 2]
    words = [word for word in words if word not in _FILLERS][:ID_GOAL_WORDS]
    suffix = hashlib.sha256(seed.encode()).hexdigest()[:6]
    return "-".join([kind, *words, suffix])[:120]


def learn_run_id(run: str) -> str:
    """The id of the run that learns from a run; it does not begin like it, so prefixes stay one."""
    return f"learn-{run}"


def mining_schedule_id(installation: str) -> str:
    """The schedule of pattern mining; a namespace may serve several installations."""
    return f"perdure-{installation}-patterns"


def short_model_name(model: str) -> str:
    """A model's name for one line of text: a script's address is cut to what tells it apart."""
    name, mark, label = model.partition("#")
    if len(name) <= SHOWN_MODEL_CHARACTERS:
        return model
    return f"{name[:SHOWN_MODEL_CHARACTERS]}…{mark}{label}"


_FILLERS = frozenset(
    {"the", "and", "for", "with", "that", "this", "from", "into", "write", "make", "please", "all"}
)
