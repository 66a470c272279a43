"""Tokens of the metadata service."""

from __future__ import annotations

import base64

import pytest

from compute_agent.metadata.service import MOST_SECONDS, Tokens, read_ttl


def test_a_token_is_good_for_its_guest_until_its_end() -> None:
    now = 1000.0
    tokens = Tokens(lambda: now)
    made = tokens.make("one", 60)
    assert tokens.is_good("one", made)
    assert not tokens.is_good("two", made)
    assert not Tokens(lambda: now).is_good("one", made), "it ends with the service"
    now += 59.9
    assert tokens.is_good("one", made)
    now += 0.2
    assert not tokens.is_good("one", made)


def test_no_end_is_written_into_a_token() -> None:
    tokens = Tokens(lambda: 0.0)
    made = base64.urlsafe_b64decode(tokens.make("one", 1))
    later = base64.urlsafe_b64decode(tokens.make("one", MOST_SECONDS))
    for forged in (later[:8] + made[8:], made[:8], b"", made[8:]):
        assert not tokens.is_good("one", base64.urlsafe_b64encode(forged).decode())


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1", 1),
        ("21600", 21600),
        ("21601", None),
        ("0", None),
        (None, None),
        ("", None),
        (chr(0x661), None),
        ("1e3", None),
    ],
)
def test_lifetimes_are_those_of_ec2(text: str | None, seconds: int | None) -> None:
    assert read_ttl(text) == seconds
