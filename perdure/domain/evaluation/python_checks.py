"""Python that judges an output: an expression over `output`, or a function of it."""

import ast
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Snippet:
    """Code that can be run, and the expression whose value is the verdict.

    `setup` is empty for an expression that stands alone.
    """

    setup: str
    verdict: str


def read_snippet(code: str) -> Snippet:
    """How a piece of code is to be run; of several functions the last one is asked.

    Raises:
        ValueError: it is neither an expression nor a function of one argument; says where.
    """
    try:
        ast.parse(code.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _function(code)
    return Snippet(setup="", verdict=f"({code.strip()}\n)")


def _function(code: str) -> Snippet:
    try:
        module = ast.parse(code)
    except SyntaxError as error:
        raise ValueError(f"Python that can be read (line {error.lineno}: {error.msg})") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"Python that can be read ({type(error).__name__})") from None
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    if not functions:
        raise ValueError("an expression over `output`, or a function: def check(output): ...")
    last = functions[-1]
    if len([*last.args.posonlyargs, *last.args.args]) - len(last.args.defaults) != 1:
        raise ValueError(f"a function of one argument, the output ({last.name} takes others)")
    return Snippet(setup=code, verdict=f"{last.name}(output)")
