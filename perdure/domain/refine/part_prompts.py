"""The words in which parts of an output are asked for: all at once, or one alone."""

import json
from collections.abc import Sequence

from perdure.domain.evaluation.demands import hints
from perdure.domain.evaluation.rubric import Part, PartKind, Rubric, WorkedExample
from perdure.domain.outputs.parts import part_label

Examples = Sequence[tuple[Part, WorkedExample]]


def demands_by_part(rubric: Rubric, kind: PartKind) -> str:
    """What every part must meet, and how the parts are to be put together."""
    each = [(part, hints(rubric.of_part(part))) for part in rubric.parts]
    match kind:
        case "sections":
            lead = "Write it in Markdown, with these sections, each under a heading of level 2:"
            rows = [f"## {part}\n{said}" for part, said in each]
        case "json_keys":
            lead = "Answer with one JSON object and nothing else. It has these keys:"
            rows = [f"- {_quoted_key(part)}: {said}" for part, said in each]
        case _:
            return "\n".join(f"Line {part}: {said}" for part, said in each)
    whole = [item for item in rubric.dimensions if item.part is None]
    if whole:
        rows += [f"As a whole: {said}"] if (said := hints(whole)) else []
    return "\n".join([lead, *rows])


def part_ask(goal: str, part: Part, demands: str, kind: PartKind) -> str:
    """The request for one part alone."""
    match kind:
        case "sections":
            form = f'Write the section "{part}" only, as Markdown without its heading.'
        case "json_keys":
            form = f"Give the value of the key {_quoted_key(part)} only, as JSON."
        case _:
            form = f"Write {part_label(part)} only."
    return f"{goal} {form} {demands}"


def example_asks(examples: Examples, kind: PartKind) -> str:
    """What the worked example of the whole was asked."""
    if kind in {"sections", "json_keys"}:
        return "\n".join(f"{part}: {example.ask}" for part, example in examples)
    return "\n".join(f"Line {part}: {example.ask}" for part, example in examples)


def example_answer(examples: Examples, kind: PartKind) -> str:
    """The right answer of all parts together."""
    match kind:
        case "sections":
            return "\n\n".join(f"## {part}\n\n{example.answer}" for part, example in examples)
        case "json_keys":
            rows = [f"  {_quoted_key(part)}: {_json(item.answer)}" for part, item in examples]
            return "{\n" + ",\n".join(rows) + "\n}"
        case _:
            return "\n".join(example.answer for _, example in examples)


def part_example(example: WorkedExample, kind: PartKind) -> str:
    """The right answer of one part, in the form that is asked for."""
    return _json(example.answer) if kind == "json_keys" else example.answer


def _quoted_key(part: Part) -> str:
    return json.dumps(str(part), ensure_ascii=False)


def _json(answer: str) -> str:
    """The answer as JSON: as it is where it is JSON, else as a text."""
    try:
        json.loads(answer)
    except (ValueError, RecursionError):
        return json.dumps(answer, ensure_ascii=False)
    return answer
