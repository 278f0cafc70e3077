"""The form of a new experiment as the body that it means, and inputs as people paste them."""

from collections.abc import Mapping

import yaml
from pydantic import JsonValue

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput
from perdure.interfaces.experiments.pasted_inputs import inputs_of
from perdure.interfaces.web.api_calls import ApiProblem


class ExperimentForm(FrozenModel):
    """What somebody wrote, as it stands in the fields.

    Args:
        name: for people.
        task: the name of a ready-made task, or the fields of a task file, as YAML.
        inputs: what was pasted, or the text of the file that was uploaded.
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
        """The form as it was sent."""
        known = cls.model_fields.keys() & fields.keys()
        return cls(**{name: fields[name].strip() for name in known})

    def with_file(self, file: bytes) -> "ExperimentForm":
        """The form with a file in place of the inputs that were pasted, if there is one."""
        return self.model_copy(update={"inputs": pasted_or_file(self.inputs, file)})

    def ready_task(self) -> str | None:
        """The name of the ready-made task; None for fields of a task."""
        found = _yaml("task", self.task)
        return found if isinstance(found, str) else None

    def body(self, ready: dict[str, JsonValue] | None) -> dict[str, JsonValue]:
        """The body of a request; the API says what is wrong with its values.

        Args:
            ready: the fields of the ready-made task that was named.

        Raises:
            ApiProblem: a field is no YAML, or the inputs cannot be read.
        """
        task = ready or _yaml("task", self.task)
        if not isinstance(task, dict):
            raise wrong(
                "task", "no fields of a task, such as `goal: Write.`, and no ready-made one"
            )
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
    """The text of a file, or what was pasted where there is none.

    Raises:
        ApiProblem: the file is no UTF-8.
    """
    try:
        return file.decode("utf-8-sig").strip() if file else pasted
    except UnicodeDecodeError as error:
        raise wrong("file", f"no UTF-8 text ({error.reason})") from None


def sent_inputs(text: str, form: str) -> list[JsonValue]:
    """The inputs of a form as data.

    Raises:
        ApiProblem: there are none, or they cannot be read; it names the line.
    """
    if not text:
        raise wrong("inputs", "there are none; paste them, or choose a file")
    try:
        return inputs_of(text, form)
    except InvalidInput as error:
        raise ApiProblem(422, "invalid_input", error.message, error.cure or "") from None


def wrong(field: str, found: str) -> ApiProblem:
    """A field that cannot be sent to the API."""
    return ApiProblem(422, "invalid_input", "The form is not valid.", "", (f"{field}: {found}",))


def _yaml(field: str, text: str) -> JsonValue:
    try:
        found: JsonValue = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise wrong(field, f"no YAML ({' '.join(str(error).split())[:200]})") from None
    return found


def _whole(text: str) -> JsonValue:
    """A number; anything else as it is, for the API to refuse."""
    return int(text) if text.isdecimal() and len(text) < 20 else text
