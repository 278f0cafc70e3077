"""`validate` and `run` use one check: what the one refuses the other refuses, in the same words."""

import io
from dataclasses import replace
from pathlib import Path

import pytest

from perdure.adapters.settings.variables import Settings
from perdure.cli_wiring import app_context
from perdure.interfaces.cli.app import main

REFINE = "kind: refine\ngoal: g\nmodels: {executor: local}\n"
NOWHERE = f"sha256:{0:064}"
REFUSED = {
    "a check of no plugin": REFINE + "rubric: [{name: a, evaluator: {check: acme.plain}}]",
    "a pattern that is none": REFINE + "rubric: [{name: a, evaluator: {check: regex, all: ['(']}}]",
    "an unknown model": "kind: agent\ngoal: g\nmodels: {executor: gpt-nothing}",
    "an unknown tool": "kind: agent\ngoal: g\nmodels: {executor: claude-sonnet-4-5}\n"
    "tools: {allow: [acme.price]}",
    "tools for a model without": "kind: agent\ngoal: g\nmodels: {executor: local}\n"
    "tools: {access: readonly, allow: [fs.read]}",
    "a judge that does not judge": REFINE
    + "rubric: [{name: a, evaluator: {judge: {model: local}}}]",
    "an unknown loop": "kind: roles\ngoal: g\nroles: {definition: harnes}",
    "a transcript that the store lacks": "kind: agent\ngoal: g\nmodels: {executor: local}\n"
    f"agent: {{transcript: '{NOWHERE}'}}",
    "a transcript that is no address": "kind: agent\ngoal: g\nmodels: {executor: local}\n"
    "agent: {transcript: yesterday}",
    "a picture that the store lacks": "kind: agent\ngoal: g\n"
    "models: {executor: claude-sonnet-4-5}\n"
    f"context: {{p: {{ref: '{NOWHERE}', media_type: image/png, bytes: 9}}}}",
    "an unknown session": "kind: roles\ngoal: g\nmodels: {executor: claude-sonnet-4-5}\n"
    "roles: {definition: harness, session: gone}",
    "an unknown project": "kind: roles\ngoal: g\nmodels: {executor: claude-sonnet-4-5}\n"
    "roles: {definition: harness, project: gone}",
    "a field of nobody": REFINE + "rubrik: []",
}


def told(tmp_path: Path, *argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    context = app_context(Settings.load(home=tmp_path / "home", anthropic_api_key="k"))
    context = replace(context, folder=tmp_path, stdout=out, stderr=err)
    return main(context, argv), out.getvalue(), err.getvalue()


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_run_refuses_validate_refuses(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody listens there: nothing is started for a run that were not refused.
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:9")
    (tmp_path / "task.yaml").write_text(text)
    ran, validated = told(tmp_path, "run", "task.yaml"), told(tmp_path, "validate", "task.yaml")
    assert (ran[0], validated[0]) == (2, 2), (ran, validated)
    problems = [row for row in ran[2].splitlines() if row.startswith("  ")]
    assert problems
    assert all(row in validated[2] for row in problems)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "kind: refine\nrubric: [{name: built, evaluator: {check: command, argv: [make]}}]",
            "it may run the programs of built; has what answers for claude-sonnet-4-5",
        ),
        (
            "kind: delegation\ndelegation: {smoke_test: [nope]}",
            "it may run the programs of delegation.smoke_test;",
        ),
        ("kind: agent\ntools: {mcp: [time]}", "it has the MCP servers time;"),
    ],
)
def test_what_only_a_worker_knows_is_said(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "task.yaml").write_text(
        f"{text}\ngoal: g\nmodels: {{executor: claude-sonnet-4-5}}\n"
    )
    code, out, err = told(tmp_path, "validate", "task.yaml")
    assert code == 0, err
    assert f"Only a worker can tell whether {said}" in " ".join(out.split())
