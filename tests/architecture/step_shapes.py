"""All step messages, and the parts of them that histories depend on."""

import importlib
import re

from pydantic import JsonValue
from pydantic_core import PydanticUndefined, to_jsonable_python

from perdure.domain.foundation.base import ActivityMessage
from tests.architecture.sources import modules

REQUIRED = "required"
TEAMS = re.compile(r"perdure\.domain\.(roles|delegation|generated_tools)\b")
REFINE = re.compile(r"perdure\.domain\.refine\b")
PROMPTS = re.compile(r"perdure\.domain\.(turns\.entries|memory)\b")
SINGLE = re.compile(
    r"perdure\.domain\.(?!(roles|delegation|generated_tools|turns\.entries|memory|refine)\b)"
)


def step_messages() -> dict[str, type[ActivityMessage]]:
    """Every class of step messages by name."""
    for module in modules("perdure/domain"):
        importlib.import_module(module.name)
    found: dict[str, type[ActivityMessage]] = {}
    waiting = list(ActivityMessage.__subclasses__())
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if cls.__module__.startswith("perdure."):
            found[cls.__name__] = cls
    return dict(sorted(found.items()))


def shapes(modules: re.Pattern[str]) -> dict[str, dict[str, JsonValue]]:
    """The shapes of the messages that such modules define, by name."""
    messages = step_messages().items()
    return {name: shape(cls) for name, cls in messages if modules.match(cls.__module__)}


def shape(cls: type[ActivityMessage]) -> dict[str, JsonValue]:
    """Each field with its default, or `required`."""
    return {
        name: REQUIRED
        if field.is_required()
        else to_jsonable_python(field.get_default(call_default_factory=True, validated_data={}))
        for name, field in cls.model_fields.items()
        if field.default is not PydanticUndefined or field.default_factory or field.is_required()
    }


def untagged(cls: type[ActivityMessage]) -> list[str]:
    """Members of unions whose tag may be left out, so that nobody could read them again."""
    schema = cls.model_json_schema(mode="validation")
    definitions = schema.get("$defs", {})
    found: list[str] = []

    def look(node: object) -> None:
        match node:
            case {"discriminator": {"propertyName": str(tag), "mapping": dict(members)}, **rest}:
                for reference in members.values():
                    name = str(reference).removeprefix("#/$defs/")
                    if tag not in definitions[name].get("required", ()):
                        found.append(f"{name}.{tag}")
                look(rest)
            case dict():
                for value in node.values():
                    look(value)
            case list():
                for value in node:
                    look(value)
            case _:
                pass

    look(schema)
    return sorted(set(found))
