"""Path patterns of access rules, as keystonemiddleware reads them."""

from __future__ import annotations

from provisioning.identity.credentials import access_rules
from tests.support.tables import each_row


@each_row(
    ("pattern", "path", "matches"),
    [
        ("/v2.1/servers", "/v2.1/servers", True),
        ("/v2.1/servers", "/v2.1/servers/", False),
        ("/v2.1/servers", "/v2x1/servers", False),
        ("/v2.1/servers/*", "/v2.1/servers/1", True),
        ("/v2.1/servers/*", "/v2.1/servers/", False),
        ("/v2.1/servers/*", "/v2.1/servers/1/action", False),
        ("/v2.1/servers/*/action", "/v2.1/servers/1/action", True),
        ("/v2.1/servers/{server_id}/action", "/v2.1/servers/1/action", True),
        ("/v2.1/servers/{server_id}/action", "/v2.1/servers/1/2/action", False),
        ("/v2.1/**", "/v2.1/servers/1/action", True),
        ("/v2.1/**", "/v2.1/", True),
        ("/v2.1/**", "/v2/servers", False),
        ("/v2.1/**/action", "/v2.1/a/b/action", True),
        ("/v2.1/**/action", "/v2.1/action", False),
        ("/v2.1/s*s", "/v2.1/servers", True),
        ("/[a-z]+", "/abc", False),
        ("/a\nb", "/a\nb", True),
        ("/{", "/{", True),
        ("**", "", True),
    ],
)
def test_patterns(pattern: str, path: str, matches: bool) -> None:
    assert access_rules.matches(pattern, path) is matches


def test_service_and_method_have_to_be_the_rules() -> None:
    rules = [("compute", "GET", "/v2.1/**")]
    assert access_rules.allows(rules, "compute", "GET", "/v2.1/servers")
    assert not access_rules.allows(rules, "compute", "HEAD", "/v2.1/servers")
    assert not access_rules.allows(rules, "image", "GET", "/v2.1/servers")
    assert not access_rules.allows([], "compute", "GET", "/v2.1/servers")


@each_row("pattern", ["/**a" * 32, "**a" * 40, "{a}" * 42, "*a" * 64])
def test_no_pattern_takes_the_processor(pattern: str) -> None:
    steps = 0

    class Counted(str):
        def __eq__(self, other: object) -> bool:
            nonlocal steps
            steps += 1
            return super().__eq__(other)

        __hash__ = str.__hash__

    class Path(str):
        def __iter__(self) -> object:  # type: ignore[override]
            return (Counted(character) for character in str(self))

    assert not access_rules.matches(pattern, Path("/a" * 500 + "b/"))
    assert steps <= len(pattern) * 1002
    assert not access_rules.matches("/**", "/" + "a" * 5000), "no resource has such an address"
