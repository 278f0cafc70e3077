"""Reports of test programs, as the programs write them."""

from io import BytesIO

import pytest

from perdure.adapters.verification.reports import Failed, TooLarge, read_junit, read_unittest

PYTEST = b"""<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests">
<testsuite name="pytest" errors="1" failures="1" skipped="1" tests="4" time="0.240">
<testcase classname="" name="test_imp" file="test_imp.py" time="0.000">
<error message="collection failure">ImportError while importing test module</error></testcase>
<testcase classname="test_calc" name="test_ok" file="test_calc.py" line="2" time="0.002" />
<testcase classname="test_calc" name="test_s" file="test_calc.py" line="3" time="0.000">
<skipped type="pytest.skip" message="unconditional skip">skipped</skipped></testcase>
<testcase classname="test_calc" name="test_bad" file="test_calc.py" line="1" time="0.005">
<failure message="assert (1 + 2) == 4&#10; + where">&gt;   def test_bad(): assert 1+2==4</failure>
</testcase></testsuite></testsuites>"""
NODE = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites>
	<testsuite name="group" tests="1">
		<testcase name="good" time="0.001473" classname="test"/>
	</testsuite>
	<testcase name="bad" time="0.008799" classname="test" failure="x">
		<failure type="testCodeFailure">
[Error [ERR_TEST_FAILURE]: x] {
}
		</failure>
	</testcase>
	<!-- tests 2 -->
</testsuites>"""
NESTED = b"""<testsuites><testsuite><testsuite>
<testcase name="loud"><system-out><![CDATA[<!DOCTYPE html>]]></system-out></testcase>
<testcase name="twice"><error>first <b>of</b> two</error><failure message="second"/></testcase>
<testcase name="beside"><properties><failure message="no test"/></properties></testcase>
</testsuite></testsuite><system-out>&lt;!DOCTYPE html&gt; <!-- <!DOCTYPE html> --></system-out>
</testsuites>"""
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


@pytest.mark.parametrize(
    ("report", "passed", "total", "failures"),
    [
        pytest.param(
            PYTEST, 1, 3,
            [
                Failed("test_imp.py::test_imp", "test_imp.py", "collection failure"),
                Failed("test_calc.py::test_bad", "test_calc.py", "assert (1 + 2) == 4"),
            ],
            id="pytest",
        ),
        pytest.param(
            NODE, 1, 2, [Failed("test::bad", "", "[Error [ERR_TEST_FAILURE]: x] {")], id="node",
        ),
        pytest.param(NESTED, 2, 3, [Failed("twice", "", "first")], id="nested"),
        pytest.param(b"<testsuite tests='0'></testsuite>", 0, 0, [], id="no tests"),
    ],
)  # fmt: skip
def test_junit(report: bytes, passed: int, total: int, failures: list[Failed]) -> None:
    suite = read_junit(BytesIO(report))
    assert suite is not None
    assert (suite.passed, suite.total, list(suite.failures)) == (passed, total, failures)


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(PYTEST[:-9], id="cut"),
        pytest.param(b"<html></html>", id="another format"),
        pytest.param(b"<?xml version='1.0' encoding='none'?><testsuite/>", id="unknown encoding"),
        pytest.param(b"<!DOCTYPE a [<!ENTITY b 'c'>]><testsuite>&b;</testsuite>", id="entities"),
        pytest.param(b"<testsuite>" * 600 + b"</testsuite>" * 600, id="too deep"),
        pytest.param(
            b"<testsuite>%s</testsuite>" % b"".join(b"<a%d/>" % one for one in range(600)),
            id="too many names",
        ),
    ],
)
def test_what_is_not_junit_is_not_read(report: bytes) -> None:
    assert read_junit(BytesIO(report)) is None


def test_a_tag_without_an_end_is_not_read_to_its_end() -> None:
    report = BytesIO(b"<testsuite a='" + b"a" * 6_000_000 + b"'/>")
    with pytest.raises(TooLarge):
        read_junit(report)
    assert report.tell() < 6_000_000


@pytest.mark.parametrize(
    ("text", "passed", "total", "names"),
    [
        pytest.param(
            UNITTEST, 1, 3, ["test_err (test_calc.T.test_err)", "test_bad (test_calc.T.test_bad)"],
            id="fails",
        ),
        pytest.param("\nRan 2 tests in 0.000s\n\nOK\n", 2, 2, [], id="passes"),
        pytest.param("\nRan 0 tests in 0.000s\n\nOK\n", 0, 0, [], id="without tests"),
    ],
)  # fmt: skip
def test_unittest(text: str, passed: int, total: int, names: list[str]) -> None:
    suite = read_unittest(text)
    assert suite is not None
    assert (suite.passed, suite.total) == (passed, total)
    assert [failed.name for failed in suite.failures] == names


@pytest.mark.parametrize("text", ["", "All good!", "make: *** [test] Error 2", "3 passed in 3s"])
def test_what_is_not_unittest_is_not_read(text: str) -> None:
    assert read_unittest(text) is None
