"""Reports of test programs, as the programs print them."""

import pytest

from perdure.adapters.verification.reports import read_suite

PYTEST = """EsFx.                                                                    [100%]
==================================== ERRORS ====================================
>   def test_bad(): assert add(1,2)==4
E   assert 3 == 4
=========================== short test summary info ============================
FAILED tests/test_calc.py::test_bad - assert 3 == 4
ERROR tests/test_calc.py::test_err - RuntimeError: no
1 failed, 1 passed, 1 skipped, 1 xfailed, 1 error in 4.27s
"""
UNITTEST = """FE.s
======================================================================
ERROR: test_err (test_calc.T.test_err)
----------------------------------------------------------------------
ValueError: x

======================================================================
FAIL: test_bad (test_calc.T.test_bad)
----------------------------------------------------------------------
AssertionError: 1 != 2

----------------------------------------------------------------------
Ran 4 tests in 0.015s

FAILED (failures=1, errors=1, skipped=1)
"""
JEST = """  ● bad

    expect(received).toBe(expected) // Object.is equality

Test Suites: 1 failed, 1 total
Tests:       1 failed, 1 skipped, 1 todo, 1 passed, 4 total
Snapshots:   0 total
Time:        2.916 s
Ran all test suites.
"""
VITEST = """ ❯ a.test.js (4 tests | 1 failed | 1 skipped | 1 todo) 111ms
   ✓ good 18ms
   × bad 91ms

⎯⎯⎯⎯⎯⎯⎯ Failed Tests 1 ⎯⎯⎯⎯⎯⎯⎯

 FAIL  a.test.js > bad
AssertionError: expected 1 to be 2 // Object.is equality

 Test Files  1 failed (1)
      Tests  1 failed | 1 passed | 1 skipped | 1 todo (4)
   Start at  02:33:43
"""
MOCHA = """
  s
    ✔ good
    1) bad
    - later


  1 passing (59ms)
  1 pending
  1 failing

  1) s
       bad:
     Error: no
"""
NODE = """TAP version 13
# Subtest: good
ok 1 - good
# Subtest: bad
not ok 2 - bad
  ---
  error: '1 == 2'
  ...
ok 3 - skip # SKIP
1..3
# tests 3
# suites 0
# pass 1
# fail 1
# cancelled 0
# skipped 1
"""
CARGO = """running 3 tests
test tests::good ... ok
test tests::skip ... ignored
test tests::bad ... FAILED

failures:
    tests::bad

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.46s

   Doc-tests calc

running 1 test
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
"""
GO = """=== RUN   TestGood
--- PASS: TestGood (0.00s)
=== RUN   TestBad
    calc_test.go:7: got 3
--- FAIL: TestBad (0.00s)
=== RUN   TestGroup
    --- PASS: TestGroup/one (0.00s)
--- PASS: TestGroup (0.00s)
--- SKIP: TestLater (0.00s)
FAIL
FAIL\texample.com/calc\t0.003s
FAIL\texample.com/other [build failed]
FAIL
"""


@pytest.mark.parametrize(
    ("text", "passed", "total", "names"),
    [
        pytest.param(
            PYTEST, 2, 4, ["tests/test_calc.py::test_bad", "tests/test_calc.py::test_err"],
            id="pytest",
        ),
        pytest.param("===== 3 passed, 2 warnings in 0.01s =====\n", 3, 3, [], id="pytest whole"),
        pytest.param("300 passed in 65.20s (0:01:05)\n", 300, 300, [], id="pytest long"),
        pytest.param("\nno tests ran in 5.63s\n", 0, 0, [], id="pytest without tests"),
        pytest.param(
            "ERROR test_a.py\n!!! Interrupted: 1 error !!!\n1 error in 0.10s\n", 0, 1,
            ["test_a.py"], id="pytest cannot collect",
        ),
        pytest.param(
            UNITTEST, 1, 3, ["test_err (test_calc.T.test_err)", "test_bad (test_calc.T.test_bad)"],
            id="unittest",
        ),
        pytest.param("\nRan 2 tests in 0.000s\n\nOK\n", 2, 2, [], id="unittest passes"),
        pytest.param("\nRan 0 tests in 0.000s\n\nOK\n", 0, 0, [], id="unittest without tests"),
        pytest.param(JEST, 1, 2, ["bad"], id="jest"),
        pytest.param(VITEST, 1, 2, ["a.test.js > bad"], id="vitest"),
        pytest.param(MOCHA, 1, 2, ["bad"], id="mocha"),
        pytest.param(NODE, 1, 2, ["bad"], id="node"),
        pytest.param(CARGO, 2, 3, ["tests::bad"], id="cargo"),
        pytest.param(GO, 2, 4, ["TestBad", "example.com/other"], id="go"),
        pytest.param("ok  \texample.com/calc\t0.003s [no tests to run]\n", 0, 0, [], id="go none"),
    ],
)  # fmt: skip
def test_reports(text: str, passed: int, total: int, names: list[str]) -> None:
    suite = read_suite(text)
    assert suite is not None
    assert (suite.passed, suite.total) == (passed, total)
    assert [failed.name for failed in suite.failures] == names


@pytest.mark.parametrize("text", ["", "All good!", "make: *** [test] Error 2", "5 apples in 3s"])
def test_what_is_no_report_is_not_read(text: str) -> None:
    assert read_suite(text) is None


def test_where_and_why_a_test_failed() -> None:
    suite = read_suite(PYTEST)
    assert suite is not None
    assert (suite.failures[0].location, suite.failures[0].detail) == (
        "tests/test_calc.py",
        "assert 3 == 4",
    )
