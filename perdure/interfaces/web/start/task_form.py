"""The form of a new run: its fields, and the task that they make."""

from collections.abc import Collection, Mapping

import yaml
from pydantic import JsonValue

from perdure.domain.evaluation.rubric import Dimension
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.refine.checks_from_goal import derive, judged_goal
from perdure.domain.roles.definition import text_of
from perdure.domain.run.loop_api import LoopParameter
from perdure.interfaces.rest.tasks import ReadyTask
from perdure.interfaces.web.api_calls import ApiProblem
from perdure.interfaces.web.start.files import ChosenFiles, free_name, kept_of, kept_values
from perdure.strict_yaml import parse
from perdure.submission.layers import over

NAME_CHARACTERS = 60
INPUT = "input:"
PARAMETER = "parameter:"
# Field groups that are read apart from the plain fields.
PARTS = frozenset({"inputs", "parameters", "kept", "contents"})
Task = dict[str, JsonValue]


class TaskForm(FrozenModel):
    """The fields of the form as a person filled them in.

    Args:
        kind: of the run.
        goal: what is to be done.
        definition: the loop of roles, for runs of that kind.
        demands: one for each line; a judge scores each.
        mention: words that the result must contain, separated by commas.
        most_words: the longest result.
        model: the model that does the work; empty: the installation's default.
        cost_usd: the most that it may spend.
        max_iterations: after how many it ends.
        label: to find it again.
        ready: the ready-made task that the form was filled from.
        folder: where the run works, as an absolute path.
        inputs: by name, those that a ready-made task leaves open.
        parameters: values of the parameters of `definition` that were filled in.
        kept: images and PDFs that were taken before, by input; see `files`.
        contents: those that came with the form, by input, as values of a task.
        more: any other fields of a task file, as YAML.
    """

    kind: str = "refine"
    goal: str = ""
    definition: str = ""
    demands: str = ""
    mention: str = ""
    most_words: str = ""
    model: str = ""
    cost_usd: str = ""
    max_iterations: str = ""
    label: str = ""
    ready: str = ""
    folder: str = ""
    inputs: Mapping[str, str] = {}
    parameters: Mapping[str, str] = {}
    kept: Mapping[str, str] = {}
    contents: Mapping[str, JsonValue] = {}
    more: str = ""

    @classmethod
    def read(cls, fields: Mapping[str, str]) -> "TaskForm":
        known = cls.model_fields.keys() & fields.keys() - PARTS
        parameters = {
            name.removeprefix(PARAMETER): text.strip()
            for name, text in fields.items()
            if name.startswith(PARAMETER)
        }
        inputs = {
            name.removeprefix(INPUT): text.strip()
            for name, text in fields.items()
            if name.startswith(INPUT)
        }
        written = {name: fields[name].strip() for name in known}
        made = cls(inputs=inputs, parameters=parameters, kept=kept_of(fields))
        return made.model_copy(update=written)

    def for_loop(self, takes: Collection[LoopParameter]) -> "TaskForm":
        """The form without values for parameters of another loop."""
        names = {one.name for one in takes} if self.kind == "roles" else set[str]()
        parameters = {name: text for name, text in self.parameters.items() if name in names}
        return self.model_copy(update={"parameters": parameters})

    def with_files(self, files: ChosenFiles) -> "TaskForm":
        """The form with the files that came with it; texts become inputs."""
        inputs = {**self.inputs, **files.texts}
        return self.model_copy(update={"inputs": inputs, "contents": files.contents})

    @property
    def input_names(self) -> tuple[str, ...]:
        return (*self.inputs, *self.kept, *self.contents)

    @classmethod
    def of(cls, task: ReadyTask) -> "TaskForm":
        """The form of a ready-made task: its inputs are empty, all other fields are filled in."""
        rest = {name: value for name, value in task.fields.items() if name not in {"goal", "kind"}}
        context = rest.get("context")
        if isinstance(context, dict):
            rest["context"] = {name: text for name, text in context.items() if text is not None}
        # A value with its own field must not stay in `more`, which would override what people type.
        visible = {
            "definition": _pop_text(rest, "roles", "definition") if task.kind == "roles" else "",
            "model": _pop_text(rest, "models", "executor"),
            "cost_usd": _pop_text(rest, "budget", "cost_usd"),
            "max_iterations": _pop_text(rest, task.kind, "max_iterations"),
            "label": _pop_text(rest, "metadata", "label"),
        }
        return cls(
            kind=task.kind,
            goal=str(task.fields.get("goal", "")).strip(),
            ready=task.name,
            inputs=dict.fromkeys(task.inputs, ""),
            parameters=_pop_parameters(rest) if task.kind == "roles" else {},
            more=_as_yaml({name: value for name, value in rest.items() if value != {}}),
        ).model_copy(update=visible)

    def task(self) -> Task:
        """The task; fields in `more` override the others.

        Raises:
            ApiProblem: `more` is not YAML, or has no fields.
        """
        task: Task = {"kind": self.kind, "goal": self.goal}
        if self.label:
            task["metadata"] = {"label": self.label}
        if self.model:
            task["models"] = {"executor": self.model}
        if self.cost_usd:
            # As it was typed: a float would not be the same amount.
            task["budget"] = {"cost_usd": self.cost_usd}
        if self.folder:
            task["workspace"] = self.folder
        if self.input_names:
            # An empty input is sent as null, and the API names it in its refusal.
            texts = {name: text or None for name, text in self.inputs.items()}
            task["context"] = {**texts, **kept_values(self.kept), **self.contents}
        inner: Task = {"definition": self.definition} if self.kind == "roles" else {}
        if self.kind == "roles" and any(self.parameters.values()):
            # An empty parameter is left out and gets its default; the API names those without one.
            inner["parameters"] = {name: text for name, text in self.parameters.items() if text}
        if self.max_iterations:
            inner["max_iterations"] = _number(self.max_iterations)
        if inner:
            task[self.kind] = inner
        more = self._more()
        if self.kind == "refine" and "rubric" not in more:
            task["rubric"] = self._rubric()
        return over(task, more)

    def _rubric(self) -> list[JsonValue]:
        """The rubric from the demands; without any, the checks derived from the goal."""
        stated: list[JsonValue] = []
        if words := [word.strip() for word in self.mention.split(",") if word.strip()]:
            check: JsonValue = {"check": "contains", "all": [*words]}
            stated.append({"name": "mentions", "evaluator": check})
        if self.most_words:
            long: JsonValue = {"check": "length", "unit": "words", "max": _number(self.most_words)}
            stated.append({"name": "length", "evaluator": long})
        names = {"mentions", "length"}
        for line in filter(None, (line.strip() for line in self.demands.splitlines())):
            # Long demands may begin alike, and a rubric has each name once.
            name = free_name(line[:NAME_CHARACTERS].rstrip(".:;, ") or "demand", names, between=" ")
            names.add(name)
            stated.append({"name": name, "description": line, "evaluator": {"judge": {}}})
        return stated or [_fields(one) for one in (*derive(self.goal), judged_goal())]

    def _more(self) -> Task:
        if not self.more:
            return {}
        try:
            found = parse(self.more, named="this")
        except InvalidInput as error:
            raise _wrong("more", error.message) from None
        if not isinstance(found, dict):
            raise _wrong("more", "no fields of a task, such as `budget: {tokens: 50000}`")
        return found


def _pop_text(fields: Task, part: str, name: str) -> str:
    """Remove a value from a part of a task and return it as text; empty if it is no plain value."""
    inner = fields.get(part)
    value = inner.get(name) if isinstance(inner, dict) else None
    if not isinstance(inner, dict) or not isinstance(value, str | int | float):
        return ""
    fields[part] = {key: other for key, other in inner.items() if key != name}
    return str(value)


def _pop_parameters(fields: Task) -> dict[str, str]:
    """Remove the parameters of a loop from a task and return them as texts."""
    inner = fields.get("roles")
    given = inner.get("parameters") if isinstance(inner, dict) else None
    if not isinstance(inner, dict) or not isinstance(given, dict):
        return {}
    fields["roles"] = {key: other for key, other in inner.items() if key != "parameters"}
    return {name: text_of(value) for name, value in given.items()}


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines, such as code, as block literals."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _as_yaml(fields: Task) -> str:
    return yaml.dump(fields, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def _number(text: str) -> JsonValue:
    """A whole number; other text stays as it is, and the API refuses it."""
    return int(text) if text.isdecimal() and len(text) < 10 else text


def _fields(dimension: Dimension) -> JsonValue:
    return dimension.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _wrong(field: str, found: str) -> ApiProblem:
    return ApiProblem(422, "invalid_input", "The form is not valid.", "", (f"{field}: {found}",))
