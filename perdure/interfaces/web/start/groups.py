"""The folded groups of the start form: what has a default stays out of the way until it matters."""

import re
from dataclasses import dataclass

from perdure.interfaces.formatting import one_line
from perdure.interfaces.web.api_calls import ApiProblem
from perdure.interfaces.web.start.task_form import TaskForm


@dataclass(frozen=True, slots=True)
class Group:
    """Fields that are folded together.

    Args:
        fields: of the form, by name.
        words: what a refusal that is about them names: fields of the form or of a task.
    """

    fields: tuple[str, ...]
    words: tuple[str, ...]


GROUPS: dict[str, Group] = {
    "quality": Group(
        ("demands", "mention", "most_words"), ("demands", "mention", "most_words", "rubric")
    ),
    "material": Group(
        ("folder", "kept"), ("files", "file", "folder", "workspace", "context", "kept")
    ),
    "limits": Group(
        ("model", "cost_usd", "max_iterations", "label"),
        ("models", "model", "budget", "cost_usd", "max_iterations", "metadata", "label"),
    ),
    "rest": Group(("more",), ("more", "yaml")),
}
_WORD = re.compile(r"[a-z_]+")


def open_groups(
    form: TaskForm, *, base: TaskForm, problem: ApiProblem | None = None, lost: bool = False
) -> frozenset[str]:
    """The groups that are unfolded: those that a person filled in, or that a refusal is about.

    Args:
        form: as it is shown.
        base: as it was before anybody wrote in it: empty, or of a ready-made task.
        problem: why it was refused.
        lost: whether files have to be chosen again.
    """
    told = set[str]()
    if problem is not None:
        text = " ".join((problem.detail, problem.cure, *problem.problems)).lower()
        told = set(_WORD.findall(text))
    opened = {
        name
        for name, group in GROUPS.items()
        if any(
            _plain(getattr(form, field)) != _plain(getattr(base, field)) for field in group.fields
        )
        or told & set(group.words)
    }
    return frozenset(opened | ({"material"} if lost else set()))


def _plain(value: object) -> object:
    """A value as it would come back from a browser, which ends lines in its own way."""
    return value.replace("\r\n", "\n").strip() if isinstance(value, str) else value


def limit_words(form: TaskForm) -> str:
    """What stands in the group of model and limits, for whoever has it folded."""
    told = [
        one_line(form.model, 60) or "the default model",
        f"at most ${one_line(form.cost_usd, 20) or '2'}",
    ]
    if form.max_iterations:
        told.append(f"{one_line(form.max_iterations, 20)} iterations")
    if form.label:
        told.append(f"label {one_line(form.label, 40)}")
    return ", ".join(told)
