"""The alerts over series of a test, by `promtool test rules`: what fires, and what must not."""

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from prometheus import ALERTS

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(
    PROMTOOL is None, reason="there is no promtool on PATH: make prometheus-setup"
)
COST = 'perdure_model_cost_usd_total{instance="a",job="perdure-api",model="m"}'
UNCONFIRMED = 'perdure_model_calls_unconfirmed_total{instance="a",job="perdure-api",model="m"}'
FAILED = (
    'perdure_run_ends_total{instance="a",job="perdure-api",kind="agent",lifecycle="failed",'
    'outcome="failed"}'
)
UP = 'up{job="perdure-api",instance="a"}', 'up{job="perdure-worker",instance="b"}'
# The series of an installation that is well.
WELL: dict[str, str] = dict.fromkeys(UP, "1x120")


class Case(NamedTuple):
    """Series by name, in Prometheus' notation with a value a minute; `fires` after 1 h 40."""

    series: dict[str, str]
    fires: tuple[str, ...] = ()


CASES = {
    "all is well": Case(WELL),
    "no target of an API": Case({UP[1]: "1x120"}, ("PerdureApiDown",)),
    "no target of a worker": Case({UP[0]: "1x120"}, ("PerdureWorkerDown",)),
    "an API that left": Case(WELL | {UP[0]: "1x60 _x60"}, ("PerdureApiDown",)),
    "a worker that left": Case(WELL | {UP[1]: "1x60 _x60"}, ("PerdureWorkerDown",)),
    "one API of two": Case(
        WELL | {'up{job="perdure-api",instance="c"}': "0x120"}, ("PerdureApiDown",)
    ),
    "money spent long ago": Case(WELL | {COST: "5005x120"}),
    "money that is spent": Case(WELL | {COST: "5005+3x120"}, ("PerdureSpendsFast",)),
    "an API that started again": Case(WELL | {COST: "5005x50 _x10 5005x60"}),
    "a second API": Case(WELL | {COST: "5005x120", COST.replace('"a"', '"c"'): "_x90 5005x30"}),
    "sums that have caught up": Case(WELL | {COST: "_x70 6005x50"}),
    "calls lost long ago": Case(WELL | {UNCONFIRMED: "41x120"}),
    "calls that are lost": Case(WELL | {UNCONFIRMED: "41+1x120"}, ("PerdureCallsUnconfirmed",)),
    "runs that fail": Case(WELL | {FAILED: "200+1x120"}, ("PerdureRunsFail",)),
    "runs of a lost build": Case(
        WELL | {'perdure_runs_stranded{instance="a"}': "0x60 2x60"}, ("PerdureRunsStranded",)
    ),
    "runs of every build are served": Case(WELL | {'perdure_runs_stranded{instance="a"}': "0x120"}),
    "a notice that was given up": Case(
        WELL | {'perdure_notices_dead{instance="a"}': "0x60 1x60"}, ("PerdureNoticesDead",)
    ),
    "a notice that was sent again": Case(
        WELL | {'perdure_notices_dead{instance="a"}': "1x60 0x60"}
    ),
    "a start that was refused": Case(
        WELL | {'perdure_schedule_starts_refused{instance="a",schedule="s"}': "_x60 1x60"},
        ("PerdureStartsRefused",),
    ),
    "starts that were refused before": Case(
        WELL | {'perdure_schedule_starts_refused{instance="a",schedule="s"}': "1x60 _x60"}
    ),
    "starts that came too late": Case(
        WELL | {'perdure_schedule_starts_missed_total{instance="a",schedule="s"}': "4x60 6x60"},
        ("PerdureStartsMissed",),
    ),
    "starts that came too late long ago": Case(
        WELL | {'perdure_schedule_starts_missed_total{instance="a",schedule="s"}': "4x120"}
    ),
    "a collection that fails": Case(
        WELL | {'perdure_collection_failing{instance="a"}': "0x60 1x60"},
        ("PerdureCollectionsFail",),
    ),
    "a collection that is overdue": Case(
        WELL
        | {
            'perdure_collection_failing{instance="a"}': "0x120",
            'perdure_collection_overdue_seconds{instance="a"}': "0x60 0+60x60",
        },
        ("PerdureCollectionsFail",),
    ),
    "collections on time": Case(
        WELL
        | {
            'perdure_collection_failing{instance="a"}': "0x120",
            'perdure_collection_overdue_seconds{instance="a"}': "0x120",
        }
    ),
    "runs that failed": Case(WELL | {FAILED: "200x120"}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_the_alerts_tell_what_is_so(case: Case, tmp_path: Path) -> None:
    shutil.copy(ALERTS, tmp_path / "alerts.yaml")
    tests = {
        "rule_files": ["alerts.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": values} for name, values in case.series.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                        "eval_time": "100m",
                        "exp_samples": [
                            {"labels": f'{{alertname="{name}"}}', "value": 1} for name in case.fires
                        ],
                    }
                ],
            }
        ],
    }
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests), "utf-8")
    assert PROMTOOL is not None
    told = subprocess.run(
        [PROMTOOL, "test", "rules", "tests.yaml"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr
