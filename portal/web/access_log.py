"""Daphne's access log without the tokens in addresses of consoles and of Identity v2.0."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from daphne.access import AccessLogGenerator

HIDDEN = (
    "/console/", "/ws/console", "/compute/v2.1/os-console-auth-tokens/", "/compute/v2/os-console-auth-tokens/",
    "/identity/v2.0/tokens/",
)  # fmt: skip
"""Path prefixes after which the rest of the path is not logged."""

_write = AccessLogGenerator.__call__


def shown(path: str) -> str:
    """Return the part of an address that may be logged."""
    read = unquote(path)  # as in routing
    hidden = next((each for each in HIDDEN if read.startswith(each)), None)
    if hidden is None:
        return path
    return f"{hidden}-" if hidden.endswith("tokens/") else path.partition("?")[0]


def log(self: Any, protocol: str, action: str, details: Mapping[str, Any]) -> None:
    """Write a line in Daphne's format."""
    _write(self, protocol, action, {**details, "path": shown(str(details.get("path", "")))})
