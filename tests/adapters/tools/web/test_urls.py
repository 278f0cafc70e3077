"""URLs are read once and strictly; whatever else a browser would make of them is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.adapters.tools.web.urls import allows, read_url
from perdure.domain.foundation.errors import ToolFailure

REFUSED = {
    "no scheme": "example.com/x",
    "file": "file:///etc/passwd",
    "gopher": "gopher://example.com/",
    "data": "data:text/html,x",
    "user": "https://me@example.com/",
    "password": "https://me:secret@example.com/",
    "host hidden behind a user": "https://example.com@127.0.0.1/",
    "encoded at sign": "https://example.com%40127.0.0.1/",
    "backslash": "https://example.com\\@127.0.0.1/",
    "space": "https://example.com /x",
    "tab": "https://exam\tple.com/",
    "newline": "https://example.com/\r\nHost: evil",
    "NUL": "https://example.com/\0",
    "other port": "http://example.com:8080/",
    "Temporal's port": "http://example.com:7233/",
    "decimal address": "http://2130706433/",
    "octal address": "http://0177.0.0.1/",
    "octal number": "http://017700000001/",
    "hex address": "http://0x7f000001/",
    "hex parts": "http://0x7f.0x0.0x0.0x1/",
    "short address": "http://127.1/",
    "number behind a name": "http://example.1/",
    "hex behind a name": "http://example.0x1/",
    "too large": "http://256.1.1.1/",
    "localhost": "http://localhost/",
    "localhost with a dot": "http://localhost./",
    "upper case": "http://LOCALHOST/",
    "below localhost": "http://x.localhost/",
    "metadata": "http://metadata.google.internal/",
    "multicast DNS": "http://printer.local/",
    "one word": "http://intranet/",
    "empty host": "http:///x",
    "empty label": "http://example..com/",
    "two dots at the end": "http://example.com../",
    "percent in the host": "http://exam%70le.com/",
    "zone": "http://[fe80::1%25eth0]/",
    "star": "http://*.example.com/",
    "long": "https://example.com/" + "x" * 2_000,
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refused(case: str) -> None:
    with pytest.raises(ToolFailure) as caught:
        read_url(REFUSED[case])
    assert caught.value.reason == "refused"
    assert caught.value.message.startswith("Not fetched: ")


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("https://example.com", "example.com"),
        ("HTTPS://Example.COM:443/a?b=c#d", "example.com"),
        ("http://example.com.:80/", "example.com"),
        ("https://bücher.example/ä", "xn--bcher-kva.example"),
        ("https://93.184.216.34/", "93.184.216.34"),
        ("https://[2606:4700::1111]/", "2606:4700::1111"),
        ("https://a_b.example.org/", "a_b.example.org"),
    ],
    ids=["plain", "case and port", "dot at the end", "IDN", "address", "IPv6", "underscore"],
)
def test_read(text: str, host: str) -> None:
    url = read_url(text)
    assert url.raw_host.decode().strip("[]") == host
    assert url.fragment == ""


@given(st.sampled_from(sorted(REFUSED)), st.sampled_from([" ", "\n", "\t"]))
def test_space_around_changes_nothing(case: str, space: str) -> None:
    with pytest.raises(ToolFailure):
        read_url(f"{space}{REFUSED[case]}{space}")


# Letters and digits of other scripts that become plain ones when a name is looked up.
WIDE = str.maketrans("0123456789.abcdefx", "０１２３４５６７８９．ａｂｃｄｅｆｘ")


@given(
    st.sampled_from(["127.0.0.1", "0x7f000001", "2130706433", "169.254.169.254", "10.0.0.1"]),
    st.integers(min_value=1, max_value=2**18 - 1),
)
def test_wide_spellings_of_addresses_are_no_names(address: str, mask: int) -> None:
    spelt = "".join(
        letter.translate(WIDE) if mask >> place & 1 else letter
        for place, letter in enumerate(address)
    )
    if spelt == address:
        return
    try:
        host = read_url(f"http://{spelt}/").host
    except ToolFailure:
        return
    assert host == address  # then the address itself is looked at, and refused as not public


@pytest.mark.parametrize(
    ("patterns", "host", "allowed"),
    [
        (["docs.python.org"], "docs.python.org", True),
        (["Docs.Python.org."], "docs.python.org", True),
        (["docs.python.org"], "evil-docs.python.org", False),
        (["docs.python.org"], "docs.python.org.evil.example", False),
        (["*.python.org"], "docs.python.org", True),
        (["*.python.org"], "python.org", False),
        (["*.python.org"], "evilpython.org", False),
        (["*"], "anything.example", True),
        (["bücher.example"], "xn--bcher-kva.example", True),
        (["*.BÜCHER.example"], "www.xn--bcher-kva.example", True),
        (["*.bücher.example"], "xn--bcher-kva.example", False),
        (["xn--bcher-kva.example"], "xn--bcher-kva.example", True),
        (["straße.example"], "strasse.example", False),
        (["*ü.example"], "xn--bcher-kva.example", False),
        ([], "anything.example", False),
        ([""], "anything.example", False),
    ],
)
def test_the_list_of_hosts(patterns: list[str], host: str, allowed: bool) -> None:
    assert allows(patterns, host) is allowed
