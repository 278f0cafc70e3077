"""The form of a new experiment: its fields, the request body, and pasted inputs."""

from collections.abc import Mapping

from pydantic import JsonValue

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput
from perdure.interfaces.experiments.pasted_inputs import inputs_of
from perdure.interfaces.web.api_calls import ApiProblem
from perdure.strict_yaml import parse


class ExperimentForm(FrozenModel):
    """The fields of the form as a person filled them in.

    Args:
        name: for people.
        task: the name of a ready-made task, or the fields of a task file, as YAML.
        inputs: what was pasted, or the text of the uploaded file.
        input_form: a key of `pasted_inputs.INPUT_FORMS`.
        arms: as YAML; empty: the usual three.
        score: as YAML; empty: the task's own rubric.
        repeats: of each input in each arm.
        parallel: trials at the same time.
        cost_usd: what all runs may spend together.
    """

    name: str = ""
    task: str = ""
    inputs: str = ""
    input_form: str = "auto"
    arms: str = ""
    score: str = ""
    repeats: str = ""
    parallel: str = ""
    cost_usd: str = ""

    @classmethod
    def read(cls, fields: Mapping[str, str]) -> "ExperimentForm":
        known = cls.model_fields.keys() & fields.keys() - {"inputs"}
        written = {name: fields[name].strip() for name in known}
        return cls(inputs=fields.get("inputs", ""), **written)

    def with_file(self, file: bytes) -> "ExperimentForm":
        """The form with the uploaded file, if there is one, in place of the pasted inputs."""
        return self.model_copy(update={"inputs": pasted_or_file(self.inputs, file)})

    def ready_task(self) -> str | None:
        """The name of the ready-made task; None if the fields of a task were given."""
        found = _yaml("task", self.task)
        return found if isinstance(found, str) else None

    def body(self, ready: dict[str, JsonValue] | None) -> dict[str, JsonValue]:
        """The request body; the API checks its values.

        Args:
            ready: the fields of the ready-made task that was named.

        Raises:
            ApiProblem: a field is not YAML, or the inputs cannot be read.
        """
        task = ready or _yaml("task", self.task)
        if not isinstance(task, dict):
            example = "`{kind: refine, goal: Write.}`"
            raise wrong("task", f"no fields of a task, such as {example}, and no ready-made one")
        body: dict[str, JsonValue] = {
            "task": task,
            "inputs": sent_inputs(self.inputs, self.input_form),
        }
        given: dict[str, JsonValue] = {
            "name": self.name,
            "arms": _yaml("arms", self.arms),
            "score": _yaml("score", self.score),
            "repeats": _whole(self.repeats),
            "parallel": _whole(self.parallel),
            "budget": {"cost_usd": self.cost_usd} if self.cost_usd else None,
        }
        return {**body, **{name: value for name, value in given.items() if value not in (None, "")}}


def pasted_or_file(pasted: str, file: bytes) -> str:
    """The text of the file, or the pasted text without a file.

    Raises:
        ApiProblem: the file is not UTF-8.
    """
    try:
        return file.decode("utf-8-sig") if file else pasted
    except UnicodeDecodeError as error:
        raise wrong("file", f"no UTF-8 text ({error.reason})") from None


def sent_inputs(text: str, form: str) -> list[JsonValue]:
    """Parse the inputs of a form.

    Raises:
        ApiProblem: there are none, or they cannot be read; the message names the line.
    """
    if not text.strip():
        raise wrong("inputs", "there are none; paste them, or choose a file")
    try:
        return inputs_of(text, form)
    except InvalidInput as error:
        raise ApiProblem(422, "invalid_input", error.message, error.cure or "") from None


def wrong(field: str, found: str) -> ApiProblem:
    """The refusal of a field that cannot be sent to the API."""
    return ApiProblem(422, "invalid_input", "The form is not valid.", "", (f"{field}: {found}",))


def _yaml(field: str, text: str) -> JsonValue:
    try:
        return parse(text, named="this")
    except InvalidInput as error:
        raise wrong(field, error.message) from None


def _whole(text: str) -> JsonValue:
    """A number; other text stays as it is, and the API refuses it."""
    # Python refuses to read a number of thousands of digits.
    return int(text) if text.isdecimal() and len(text) < 20 else text
