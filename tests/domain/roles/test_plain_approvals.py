"""Words alone approve when they are an approval and nothing else; everything else is asked."""

import inspect
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perdure.domain.roles import review_reply_words
from perdure.domain.roles.review_reply import read_verdict
from tests.domain.roles.test_spoilt_approvals import SPOILT

PLAIN = (
    "APPROVED",
    "approved.",
    "LGTM!",
    "LGTM, ship it!",
    "Looks good to me, thanks!",
    "**Verdict:** APPROVED",
    "## Verdict\n\nAPPROVED",
    "✅ APPROVED",
    "I approve this change.",
    "I found no issues. APPROVED",
    "Approved, no changes needed.",
    "LGTM, go",
    "Accepted, requirements met",
    "Accepted. Requirements are met.",
    "All requirements met; approved.",
    "Approved: all tests pass.",
    "APPROVED\n\nAll the acceptance criteria are met and the quality is good.",
    "Alright, looks good. Approved.",
    "LGTM, go ahead",
    "LGTM, go ahead.",
    "Looks good, ship it",
    "Looks good to me. Go ahead and merge.",
    "Approved, please merge",
    "Approved, you can merge this",
    "Approved; feel free to merge it!",
    "Looks good and please proceed",
    "Yes, go on",
    "Yes, please go ahead.",
    "OK, ship it",
    "app\u200broved",
    "\uff21\uff30\uff30\uff32\uff2f\uff36\uff25\uff24",
)
MORE = (
    "Approved — rejected",
    "APPROVED. Do not merge.",
    "LGTM... not",
    "approved… on second thought, no",
    "APPROVED, ignore the failing tests",
    "Approved: a lie",
    "approved. nope",
    "A\u0336P\u0336P\u0336R\u0336O\u0336V\u0336E\u0336D\u0336",
    "I read it all.\n\nAPPROVED",
    "APPROVED\n\nJust this once.",
    "All requirements met",
    "APPROVED. Few requirements met.",
    "APPROVED. Failing tests pass.",
    "Approved, requirements partly met",
    "Approved, 1 of 3 tests pass",
    "approved. none of the requirements met",
    "approved, unmet requirements met",
    "Approved, requirements met?",
    "LGTM, go back",
    "LGTM, go ahead with the fix",
    "LGTM, go ahead once CI is green",
    "Approved, please merge after the rebase",
    "Approved, please do not merge",
    "Approved, go ahead?",
    "If it looks good, go ahead",
    "Looks good to the author, please merge",
    "Approved or go ahead",
    "Go on",
    "Please merge",
    "Yes, go on fixing it",
    "Yes, but go on",
    "Yes, go on. The tests fail.",
    "Does it need work? Yes, go on.",
    "No. Yes, go on",
    "> Yes, go on",
    '"Yes, go on"',
    "Yes, go away",
    "Rejected. Yes, go on",
    "Not approved, go ahead",
)


@pytest.mark.parametrize("text", PLAIN)
def test_a_plain_approval_approves(text: str) -> None:
    assert read_verdict(text).decision == "approved"


@pytest.mark.parametrize("text", MORE)
def test_anything_beside_it_is_asked(text: str) -> None:
    assert read_verdict(text).decision in {"unclear", "rejected"}


@pytest.mark.parametrize("approval", ["LGTM, go ahead", "approved, please merge", "Yes, go on"])
def test_leave_to_go_on_survives_nothing_that_takes_it_back(approval: str) -> None:
    for spoilt in SPOILT:
        text = spoilt.format(a=approval)
        assert read_verdict(text).decision != "approved", text


@pytest.mark.parametrize("text", ["re\u00adjected", "un\u00adapproved", "not\u2060 approved"])
def test_signs_without_a_shape_hide_no_rejection(text: str) -> None:
    assert read_verdict(text).decision == "rejected"


# All words of the forms: some may follow an approval ("approved by me"), alone or with others.
KNOWN = frozenset(re.findall(r"[^\W\d_]+", inspect.getsource(review_reply_words)))


@given(
    approval=st.sampled_from(PLAIN),
    after=st.text("abcdefghijklmnopqrstuvwxyz \u0301но不", min_size=1, max_size=12),
)
def test_no_word_of_its_own_goes_with_an_approval(approval: str, after: str) -> None:
    strange = {word for word in after.split() if word not in KNOWN}
    assume(not after.lstrip().startswith("and "))  # "approved and ready for the next step"
    if any(len(word) > 1 and word.isalpha() for word in strange):
        assert read_verdict(f"{approval} {after}").decision != "approved"
