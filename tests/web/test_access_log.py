"""Daphne's access log shows no token of a console."""

from __future__ import annotations

import io

import pytest
from daphne.access import AccessLogGenerator

from portal.web import daphne_internals


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/console/vnc?path=ws%2Fconsole%3Ftoken%3Dsecret", "/console/vnc"),
        ("/ws/console?token=secret", "/ws/console"),
        ("/compute/v2.1/os-console-auth-tokens/secret", "/compute/v2.1/os-console-auth-tokens/-"),
        ("/compute/v2/os-console-auth-tokens/secret", "/compute/v2/os-console-auth-tokens/-"),
        ("/identity/v2.0/t%6fkens/secret", "/identity/v2.0/tokens/-"),
        ("/identity/v2.0/tokens/secret", "/identity/v2.0/tokens/-"),
        ("/identity/v2.0/tokens/secret/endpoints", "/identity/v2.0/tokens/-"),
        ("/instances/?q=web", "/instances/?q=web"),
    ],
)
def test_what_is_written_down(monkeypatch: pytest.MonkeyPatch, path: str, shown: str) -> None:
    monkeypatch.setattr(AccessLogGenerator, "__call__", daphne_internals.log)
    stream = io.StringIO()
    details = {"client": "192.0.2.1:1", "method": "GET", "path": path, "status": 200, "size": 1}
    AccessLogGenerator(stream)("http", "complete", details)
    assert f'"GET {shown}"' in stream.getvalue()
    assert "secret" not in stream.getvalue()
