"""A second tree of the product, one minor version ahead: every durable value has a field more."""

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("perdure", "workflows", "activities")
VERSION = "0.2.0"
FIELD = '    novelty: str = "of the next version"\n'
GROWN = {
    "perdure/domain/run/spec.py": (
        "class ModelsSpec",
        "class CommonSpec",
        "class Placement",
        "class LoopInput",
    ),
    "perdure/domain/run/state.py": ("class LoopState",),
    "perdure/domain/refine/state.py": ("class RefineFrame",),
    "perdure/domain/roles/messages.py": ("class StageFrame",),
    "perdure/domain/generated_tools/draft.py": ("class ToolDraft",),
    "perdure/domain/run/status.py": ("class RunStatus",),
    "perdure/domain/turns/records.py": ("class IterationRecord",),
    "perdure/domain/run/result.py": ("class RunResult",),
    "perdure/domain/run/activity_messages.py": ("class Frame",),
    "perdure/domain/llm/transcript.py": ("class Link", "class TranscriptRef"),
    "perdure/domain/llm/requests.py": ("class ModelReply",),
}


def next_version(folder: Path) -> Path:
    """Copy the sources and let every durable value grow; the folder is for `PYTHONPATH`."""
    for name in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored, symlinks=True)
    for name, classes in GROWN.items():
        for opening in classes:
            _grow(folder / name, opening)
    _replace(folder / "perdure/about.py", 'version("perdure")', repr(VERSION))
    # Step messages travel without their defaults: theirs is written all the same.
    _grow(folder / "perdure/domain/foundation/base.py", "class ActivityMessage")
    _replace(
        folder / "perdure/adapters/temporal/data_converter.py",
        "data=value.model_dump_json(exclude_defaults=True).encode()",
        'data=value.model_dump_json(exclude_defaults=True).replace("{", \'{"novelty": "x", \', 1)'
        '.replace(", }", "}", 1).encode()',
    )
    return folder


def other_decisions(folder: Path) -> Path:
    """A next version whose loops also decide otherwise, without a patch: each step waits first.

    A history of this tree does not replay there, nor one of that tree here.
    """
    _replace(
        next_version(folder) / "workflows/engine/step_runner.py",
        "        interrupted = asyncio.create_task(",
        "        await workflow.sleep(0.01)\n        interrupted = asyncio.create_task(",
    )
    return folder


def _grow(path: Path, opening: str) -> None:
    text = path.read_text("utf-8")
    head = re.search(rf'^{opening}\b.*?:\n(?:    """.*?"""\n)?', text, re.DOTALL | re.MULTILINE)
    assert head is not None, (path, opening)
    path.write_text(f"{text[: head.end()]}\n{FIELD}{text[head.end() :]}", "utf-8")


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text, (path, old)
    path.write_text(text.replace(old, new), "utf-8")
