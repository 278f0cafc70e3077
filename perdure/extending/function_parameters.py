"""Reads the parameters of a function of others, and says what cannot be used, and where."""

import inspect
import typing
import warnings
from collections.abc import Callable, Mapping
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import format_value

R = TypeVar("R")

BY_NAME = frozenset({inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY})
JSON_TYPES = "str, int, float, bool, list, dict, Literal, a dataclass or a pydantic model"
_NO_TYPE = (PydanticUserError, PydanticUndefinedAnnotation)


def hints_of(function: Callable[..., object], *, what: str) -> dict[str, object]:
    """The annotations of a function, with the types that their names mean.

    Args:
        function: what was decorated.
        what: what it is, for people, such as `tool acme.price`.

    Raises:
        InvalidInput: it is no function, or a type is not known where it stands.
    """
    if inspect.isclass(function) or not hasattr(function, "__annotations__"):
        raise InvalidInput(
            f"The {what} is made of {format_value(function)}, which is no function.",
            cure="Write a function with `def` that calls it, and decorate that.",
        )
    try:
        return typing.get_type_hints(function, include_extras=True)
    except SyntaxError as error:
        raise InvalidInput(
            f"The annotations of {what} cannot be read: {error.msg}.",
            cure="Annotate parameters with types; words about one belong into the docstring.",
        ) from error
    # What evaluating a text as a type may raise; all of it is a fault of the annotations.
    except (NameError, AttributeError, TypeError) as error:
        raise InvalidInput(
            f"The annotations of {what} cannot be read: {error}.",
            cure="Import every type for real, not under TYPE_CHECKING.",
        ) from error


def require_usable(
    parameter: inspect.Parameter, hints: Mapping[str, object], *, what: str, cure: str
) -> None:
    """Refuse a parameter that nobody can give a value.

    Args:
        parameter: of the function.
        hints: the annotations of the function.
        what: what the function is, for people.
        cure: what an annotation is for, for people.

    Raises:
        InvalidInput: it has no annotation, takes no value by name, or has a name that is taken.
    """
    name = parameter.name
    if name not in hints:
        raise InvalidInput(f"The parameter {name!r} of {what} has no type annotation.", cure=cure)
    if parameter.kind not in BY_NAME:
        raise InvalidInput(
            f"The parameter {name!r} of {what} cannot be passed by name.",
            cure="Use plain parameters, no *args, **kwargs or positional-only ones.",
        )
    if name.startswith("_") or (name.startswith("model_") and hasattr(BaseModel, name)):
        raise InvalidInput(
            f"The parameter {name!r} of {what} has a name that pydantic keeps for itself.",
            cure="Call it otherwise: no underscore in front, and none of pydantic's model_….",
        )


def arguments_model(
    name: str, fields: Mapping[str, tuple[object, object]], *, what: str
) -> type[BaseModel]:
    """The model that reads the values of parameters.

    Args:
        name: of the model.
        fields: annotation and default of each parameter, by name.
        what: what the function is, for people.

    Raises:
        InvalidInput: a type is one that no value of JSON can be read as.
    """
    build: Callable[..., type[BaseModel]] = create_model

    def made() -> type[BaseModel]:
        with warnings.catch_warnings():
            # Parameters such as `schema` and `copy` hide old methods of models, which nobody calls.
            warnings.filterwarnings("ignore", "Field name .* shadows an attribute", UserWarning)
            # Forbidden, so that a misspelt name is told to the model or author who wrote it.
            return build(name, __config__=ConfigDict(extra="forbid"), **fields)

    return described(made, fields, what=what, read=adapter)


def adapter(annotation: object) -> TypeAdapter[object]:
    """What reads values by one annotation."""
    return TypeAdapter(typing.cast("type[object]", annotation))


def described(
    make: Callable[[], R],
    fields: Mapping[str, tuple[object, object]],
    *,
    what: str,
    read: Callable[[object], object],
) -> R:
    """What `make` makes of parameters; an error names the parameter whose type is no good.

    Args:
        make: makes something of all parameters.
        fields: annotation and default of each, by name.
        what: what the function is, for people.
        read: does the same with one annotation.
    """
    try:
        return make()
    except _NO_TYPE as error:
        name, why = next(_culprits(fields, read), ("", error))
        place = f"The parameter {name!r} of {what}" if name else f"A parameter of {what}"
        # pydantic goes on with a setting of its own, which nobody can make here.
        said = str(why).splitlines()[0].partition(". Set `")[0].rstrip(".")
        raise InvalidInput(
            f"{place} has a type that no value of JSON can have: {said}.", cure=f"Use {JSON_TYPES}."
        ) from error


def _culprits(
    fields: Mapping[str, tuple[object, object]], read: Callable[[object], object]
) -> typing.Iterator[tuple[str, Exception]]:
    for name, (annotation, _) in fields.items():
        try:
            read(annotation)
        except _NO_TYPE as error:
            yield name, error
