"""IFBench's own checkers as a program: JSON lines in, JSON lines out.

It runs in the environment of the benchmark (`make bench-ifbench` builds it) and nothing of Perdure
is there. One request a line, `{"key": …, "instruction": 0, "response": …}`; the answer is
`{"followed": true}`, after a first line that says what there is to ask about.

The package wants spaCy and three data sets of NLTK from the network. spaCy is imported for a
download that no checker uses, two data sets come with `llama-index-core`, and the third, a tagger,
serves one kind of instruction, which is left out.
"""

import contextlib
import importlib.util
import json
import os
import sys
import types
from pathlib import Path
from typing import Protocol

WITHOUT_TAGGER = "words:start_verb"


class Asked(Protocol):
    """A prompt as IFBench's package reads it."""

    key: str
    prompt: str
    instruction_id_list: list[str]
    kwargs: list[dict[str, object]]


def _offline() -> None:
    """Put what the package would fetch in its place, before it is imported."""
    spacy, command_line = types.ModuleType("spacy"), types.ModuleType("spacy.cli")
    vars(command_line)["download"] = lambda _name: None
    sys.modules |= {"spacy": spacy, "spacy.cli": command_line}
    import nltk  # only this environment has it

    nltk.download = lambda *_names, **_options: True
    found = importlib.util.find_spec("llama_index.core")
    if found is None or found.origin is None:
        raise RuntimeError("llama-index-core is not installed: run `make bench-ifbench` again")
    nltk.data.path.insert(0, str(Path(found.origin).parent / "_static" / "nltk_cache"))


class Checkers:
    """All prompts of IFBench with the checkers of their instructions."""

    def __init__(self) -> None:
        from ifbench import evaluation_lib, instructions_registry

        self._library, self._classes = evaluation_lib, instructions_registry.INSTRUCTION_DICT
        data = Path(evaluation_lib.__file__).parent / "data" / "IFBench_test.jsonl"
        listed: list[Asked] = evaluation_lib.read_prompt_list(data)
        self.prompts = {one.key: one for one in listed}

    def listed(self) -> list[dict[str, object]]:
        """Every prompt whose checkers all run here."""
        return [
            {
                "key": key,
                "prompt": one.prompt,
                "ids": one.instruction_id_list,
                "descriptions": [
                    self._description(one, index) for index in range(len(one.instruction_id_list))
                ],
                "arguments": [_given(arguments) for arguments in one.kwargs],
            }
            for key, one in self.prompts.items()
            if WITHOUT_TAGGER not in one.instruction_id_list
        ]

    def followed(self, key: str, instruction: int, response: str) -> bool:
        """Whether a response follows one instruction of a prompt, as IFBench's strict score has it.

        A checker that raises (some divide by the number of words) did not find it followed.
        """
        one = self.prompts[key]
        alone = self._library.InputExample(
            key=key,
            instruction_id_list=[one.instruction_id_list[instruction]],
            prompt=one.prompt,
            kwargs=[dict(one.kwargs[instruction])],
        )
        try:
            found = self._library.test_instruction_following_strict(alone, {one.prompt: response})
        except Exception:
            return False
        return bool(found.follow_all_instructions)

    def _description(self, prompt: Asked, index: int) -> str:
        """The instruction in the words of its checker."""
        checker = self._classes[prompt.instruction_id_list[index]]
        built = checker(prompt.instruction_id_list[index]).build_description(
            **_given(prompt.kwargs[index])
        )
        return " ".join((built or checker.__doc__ or "").split())


def _given(arguments: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in arguments.items() if value is not None}


def main() -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with contextlib.redirect_stdout(sys.stderr):
        _offline()
        checkers = Checkers()
        print(json.dumps(checkers.listed()), file=answers, flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            followed = checkers.followed(asked["key"], asked["instruction"], asked["response"])
            print(json.dumps({"followed": followed}), file=answers, flush=True)


if __name__ == "__main__":
    main()
