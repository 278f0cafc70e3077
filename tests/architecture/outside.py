"""What others hold on to, as lines of text: names at Temporal, commands, the REST API, errors.

`python -P -m tests.architecture.outside` writes it into `tests/architecture/surface` anew.
"""

import importlib
import inspect
import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from cyclopts import App
from fastapi import FastAPI
from rich.console import Console
from temporalio import activity
from temporalio.workflow import _Definition  # the only place that lists a class's handlers

from perdure.domain.foundation import errors, names
from perdure.domain.llm import errors as llm_errors
from perdure.domain.run.result import RunResult
from perdure.domain.run.status import RunStatus
from perdure.interfaces.cli.app import build
from perdure.interfaces.rest.app import ROUTERS
from perdure.interfaces.rest.openapi import describe
from tests.architecture.sources import modules

FOLDER = Path(__file__).parent / "surface"
HELP_WIDTH = 100


def surface() -> dict[str, Callable[[], str]]:
    """What makes the text of each file, by the file's name."""
    return {
        "temporal.txt": lambda: _text(_temporal()),
        "commands.txt": lambda: _text(_commands()),
        "rest.txt": lambda: _text(_rest()),
        "results.txt": lambda: _text(_fields(RunResult), _fields(RunStatus)),
        "errors.txt": lambda: _text(_errors()),
    }


def _text(*groups: Iterator[str]) -> str:
    return "".join(f"{line}\n" for group in groups for line in group)


def _temporal() -> Iterator[str]:
    for found in _classes("workflows"):
        if (definition := _Definition.from_class(found)) and definition.name:
            yield f"workflow {definition.name}"
            for kind in ("signals", "updates", "queries"):
                of_kind: Mapping[str | None, object] = getattr(definition, kind)
                told = sorted(name for name in of_kind if name is not None)
                yield f"workflow {definition.name} {kind}: {', '.join(told)}"
    yield from sorted(
        f"activity {definition.name}"
        for found in _classes("activities")
        for _, method in inspect.getmembers(found, inspect.isfunction)
        if (definition := activity._Definition.from_callable(method))
    )
    yield from (
        f"search attribute {name}: {kind}" for name, kind in names.SEARCH_ATTRIBUTES.items()
    )


def _classes(folder: str) -> Iterator[type]:
    for module in modules(folder):
        for _, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if found.__module__ == module.name:
                yield found


def _commands() -> Iterator[str]:
    out = io.StringIO()
    console = Console(file=out, width=HELP_WIDTH, no_color=True)
    app = build("0", console, console)
    for path in _paths(app, ()):
        out.seek(0)
        out.truncate()
        app.help_print(path, console=console)
        yield f"$ perdure {' '.join(path)}".rstrip()
        yield from (line.rstrip() for line in out.getvalue().splitlines())


def _paths(app: App, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    for name in app:
        if not name.startswith("-"):
            yield from _paths(app[name], (*path, name))


def _rest() -> Iterator[str]:
    app = FastAPI()
    for router in ROUTERS:
        app.include_router(router)
    document = json.loads(json.dumps(describe(app, "0")))
    for path, operations in sorted(document["paths"].items()):
        for method, operation in sorted(operations.items()):
            asked = [f"{one['in']} {one['name']}" for one in operation.get("parameters", ())]
            body = ["body"] if "requestBody" in operation else []
            answers = ", ".join(sorted(operation["responses"]))
            yield f"{method.upper()} {path} ({', '.join([*asked, *body])}) -> {answers}"
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f"{name}: {', '.join(sorted(schema.get('properties', ())))}".rstrip()


def _fields(model: type[RunResult] | type[RunStatus]) -> Iterator[str]:
    schema = model.model_json_schema(mode="serialization")
    for name, part in ((model.__name__, schema), *sorted(schema["$defs"].items())):
        told = [str(one) for one in part.get("enum", ())] or sorted(part.get("properties", ()))
        yield f"{model.__name__} {name}: {', '.join(told)}".rstrip()


def _errors() -> Iterator[str]:
    for module in (errors, llm_errors):
        for name, found in inspect.getmembers(module, inspect.isclass):
            if issubclass(found, errors.PerdureError) and found.__module__ == module.__name__:
                yield f"{name}: code {found.code}, exit {found.exit_code}"


def main() -> None:
    """Write all files anew."""
    FOLDER.mkdir(exist_ok=True)
    for name, made in surface().items():
        (FOLDER / name).write_text(made(), encoding="utf-8")


if __name__ == "__main__":
    main()
