import subprocess
import sys

import pytest

import perdure

PROBE = """
import sys
import perdure
{first}
print(sorted(name for name in sys.modules
             if name in {{'perdure.workflows', 'perdure.activities', 'temporalio', 'anthropic',
                         'sqlalchemy'}}))
"""


def loaded(first: str) -> str:
    script = PROBE.format(first=first)
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_public_names_are_these_and_each_loads() -> None:
    assert sorted(perdure.__all__) == [
        "Adaptation",
        "AgentSpec",
        "CheckResult",
        "Client",
        "DelegationSpec",
        "EndFacts",
        "Event",
        "Flags",
        "IterationFacts",
        "PerdureError",
        "RefineSpec",
        "RolesSpec",
        "RunHandle",
        "RunResult",
        "RunSpec",
        "RunStatus",
        "adapt",
        "check",
        "on_end",
        "on_iteration",
        "tool",
    ]
    assert all(getattr(perdure, name) is not None for name in perdure.__all__)
    assert set(perdure.__all__) <= set(dir(perdure))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Clientt'"):
        _ = perdure.Clientt  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    "first", ["", "perdure.tool", "perdure.check", "perdure.RunSpec", "perdure.RunResult"]
)
def test_importing_loads_no_temporal_no_workflows_no_adapters(first: str) -> None:
    assert loaded(first) == "[]"


def test_the_client_loads_no_workflows_and_no_adapters() -> None:
    assert "workflows" not in (found := loaded("perdure.Client"))
    assert "sqlalchemy" not in found
    assert "anthropic" not in found
