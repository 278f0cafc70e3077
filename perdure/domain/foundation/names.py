"""Every name that outsiders use: queues, workflow types and ids, handlers, search attributes."""

import base64
import hashlib
import re
import unicodedata
from collections.abc import Iterable
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
EXPERIMENT_WORKFLOW = "Experiment"
COLLECTION_WORKFLOW = "Collection"
TASK_QUEUE = "perdure"
"""Where any Temporal client starts a loop with nothing but its task."""

SEARCH_ATTRIBUTES: dict[str, Literal["Keyword", "Int", "Double"]] = {
    "PerdureKind": "Keyword",
    "PerdureLifecycle": "Keyword",
    "PerdurePhase": "Keyword",
    "PerdureBlockedOn": "Keyword",
    "PerdureLabel": "Keyword",
    "PerdureTenant": "Keyword",
    "PerdureOutcome": "Keyword",
    "PerdureIteration": "Int",
    "PerdureScore": "Double",
    "PerdureCostUsd": "Double",
}
SEARCH_ATTRIBUTE_LIMIT = 512

OPEN_EXECUTION = "ExecutionStatus IN ('Running', 'Paused')"
"""In a visibility query: every execution that has not ended, also one paused at the server."""
_RUNNING_EXECUTION = "ExecutionStatus = 'Running'"
_REFUSED_STATUS = "ExecutionStatus value"  # the server's words

BETWEEN_RUNS = ("questions_below",)
"""Signals that runs of one tree send each other; no interface and no person sends them."""
ANSWERED_ABOVE = "answered_above"
"""In the memo of a run: the workflow that awaits it answers its gates, and is told of them."""
MEMO_NAMES = frozenset(
    {"goal", "spec", "label", "tenant", "definition", "parent", "schedule", ANSWERED_ABOVE}
)
"""What the memo of a run has of ours."""
QUERIES = ("status", "history", "costs", "gates", "events")

SCHEDULED_BY = "TemporalScheduledById"
"""What the server tells a workflow that a schedule started: the schedule's id."""

ALL = "all"
"""Stands for every open run where commands and tools take an id."""
RESERVED_IDS = frozenset({ALL, "new", "definitions"})
"""No id of a run, experiment or schedule: an address or a command has this word there."""

LONGEST_ID = 120
"""How many characters an id may have that a caller chooses."""
LONGEST_RUN_ID = 1_000
"""The most that the server takes for any workflow id; each level of a tree makes ids longer."""
# Colons are allowed because Temporal's schedules append the time to ids.
_ID_CHARACTERS = "A-Za-z0-9._:@+=-"
# At the beginning, `@` marks `@last` and the like, and `-` an option.
_USABLE_ID = re.compile(rf"(?![@-])(?=.*[A-Za-z0-9])[{_ID_CHARACTERS}]{{1,{LONGEST_ID}}}")
RUN_ID = re.compile(rf"[{_ID_CHARACTERS}]{{1,{LONGEST_RUN_ID}}}")
"""What the id of a run anywhere in a tree looks like, or the beginning of one."""
_UNUSABLE = re.compile(rf"[^{_ID_CHARACTERS}]")

_OWN = re.compile(r"perdure-[0-9a-f]{8}-")
READY_ACTIVITY = "ready"
ID_GOAL_WORDS = 3
ID_WORD_CHARACTERS = 30
ID_BYTES = 8
MEMO_GOAL_CHARACTERS = 400
LOCAL_MODELS = frozenset({"local", "smollm2-135m-instruct"})  # what the embedded model is called
COMPATIBLE = "compat"
# What a model's name may have in front, with a colon.
PROVIDERS = frozenset({"anthropic", "bedrock", "vertex", "foundry", "openai", "azure", COMPATIBLE})
SHOWN_MODEL_CHARACTERS = 28


def without_pauses(query: str, refusal: str) -> str | None:
    """The query for a server from before executions could be paused, which refuses that status.

    None if the server refused the query for another reason.
    """
    if _REFUSED_STATUS not in refusal or OPEN_EXECUTION not in query:
        return None
    return query.replace(OPEN_EXECUTION, _RUNNING_EXECUTION)


def loops_queue(installation: str) -> str:
    """The queue of workflows and of the bookkeeping steps."""
    return f"perdure-{installation}-loops"


def is_loops_queue(queue: str) -> bool:
    """Whether runs live on a queue; on others, Temporal clients start them with their task."""
    return queue.startswith("perdure-") and queue.endswith("-loops")


def is_own_queue(queue: str) -> bool:
    """Whether a queue is one of an installation, and no queue that somebody named."""
    return _OWN.match(queue) is not None


def models_queue(installation: str) -> str:
    """The queue of model calls and judgements."""
    return f"perdure-{installation}-models"


def tools_queue(installation: str, workspace: str | None) -> str:
    """The queue of tools, checks and snapshots for a workspace, or for scratch folders."""
    middle = f"{installation}-{workspace}" if workspace else installation
    return f"perdure-{middle}-tools"


def host_queue(installation: str, host: str) -> str:
    """The queue of steps in working folders that one host has; `host` is the id of its home."""
    return f"perdure-{installation}-at-{host}-tools"


def host_probe_queue(queue: str) -> str:
    """Where the workers of a host's queue answer that they are there, however busy they are."""
    return f"{queue}-probe"


def worker_identity(process: str, installation: str) -> str:
    """What the server shows of a worker: its process and host, and whose runs it opens."""
    return f"{process} perdure-{installation}"


def installation_of(identity: str) -> str | None:
    """The installation that a worker's identity names; None for workers of others."""
    _, mark, installation = identity.rpartition(" perdure-")
    return installation if mark else None


def run_id(kind: str, goal: str, seed: str) -> str:
    """A readable run id such as `refine-steel-bottle-mzxw6ytboi7ab`; `seed` makes it unique.

    The end is 64 bits of the seed's hash: two runs do not meet by chance, however many there are.
    Without a goal the id has no words.
    """
    words = [word for word in re.findall(r"[a-z0-9]+", plain_letters(goal)) if len(word) > 2]
    words = [word[:ID_WORD_CHARACTERS] for word in words if word not in _FILLERS]
    digest = hashlib.sha256(seed.encode()).digest()[:ID_BYTES]
    suffix = base64.b32encode(digest).decode().rstrip("=").lower()
    return "-".join([kind, *words[:ID_GOAL_WORDS], suffix])


def plain_letters(text: str) -> str:
    """A text in lower case whose letters have lost their accents: `résumé` becomes `resume`."""
    apart = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in apart if not unicodedata.combining(letter))


def learn_run_id(run: str) -> str:
    """The id of the run that learns from a run; it does not begin like it, so prefixes stay one."""
    return f"learn-{run}"


def mining_schedule_id(installation: str) -> str:
    """The schedule of pattern mining; a namespace may serve several installations."""
    return f"perdure-{installation}-patterns"


def collection_schedule_id(installation: str) -> str:
    return f"perdure-{installation}-gc"


def schedule_id(installation: str, name: str) -> str:
    """The Temporal schedule behind one of ours; a namespace may serve several installations."""
    return f"{_schedules(installation)}{name}"


def scheduled_name(schedule: str, installation: str) -> str | None:
    """The name of our schedule behind a Temporal schedule's id; None for those of others."""
    own = _schedules(installation)
    return schedule.removeprefix(own) if schedule.startswith(own) else None


def is_own_schedule(schedule: str) -> bool:
    """Whether a Temporal schedule is one of an installation, for its tasks or its upkeep."""
    return _OWN.match(schedule) is not None


def _schedules(installation: str) -> str:
    return f"perdure-{installation}-schedule-"


def short_model_name(model: str) -> str:
    """A model's name for one line of text: a script's address is cut to what tells it apart."""
    name, mark, label = model.partition("#")
    if len(name) <= SHOWN_MODEL_CHARACTERS:
        return model
    return f"{name[:SHOWN_MODEL_CHARACTERS]}…{mark}{label}"


_FILLERS = frozenset(
    {"the", "and", "for", "with", "that", "this", "from", "into", "write", "make", "please", "all"}
)


def attributes_command(namespace: str, names: Iterable[str] = SEARCH_ATTRIBUTES) -> str:
    """The command of Temporal's CLI that adds search attributes to a namespace."""
    words = " ".join(f"--name {name} --type {SEARCH_ATTRIBUTES[name]}" for name in names)
    return f"temporal operator search-attribute create --namespace {_quoted(namespace)} {words}"


def retyping_commands(namespace: str, names: Iterable[str]) -> str:
    """The commands of Temporal's CLI that give search attributes of another type ours."""
    wrong = list(names)
    words = " ".join(f"--name {name}" for name in wrong)
    place = f"--namespace {_quoted(namespace)} --yes"
    remove = f"temporal operator search-attribute remove {place} {words}"
    return f"{remove} && {attributes_command(namespace, wrong)}"


def _quoted(namespace: str) -> str:
    from shlex import quote  # every command loads this module, and hardly one quotes

    return quote(namespace)


def is_usable_id(run: str) -> bool:
    """Whether a run can have this id: URLs, names of files and commands have to hold it."""
    return _USABLE_ID.fullmatch(run) is not None


def fitting(given: str, ids: Iterable[str]) -> list[str]:
    """The ids that a person means: the whole id, else those that begin so; by nothing, none."""
    known = list(ids)
    if given in known:
        return [given]
    # Every id begins with an empty text, which a script has of a variable that nobody set.
    return [id for id in known if given and id.startswith(given)]


def usable_id(above: str, suffix: str) -> str:
    """The id of a workflow with a suffix, cut and with hyphens where a run's id has no place.

    Args:
        above: any text.
        suffix: what tells this id from others; it is kept, and must be usable after its hyphens.
    """
    made = _UNUSABLE.sub("-", above)[: LONGEST_ID - len(suffix)] + suffix
    return made.lstrip("@-")
