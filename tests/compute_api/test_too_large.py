"""A body that the web server itself refuses is answered in the shape of the service that was asked."""

from __future__ import annotations

import json

import pytest

from portal.api.common import faults
from portal.web import http_requests


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/compute/v2.1/servers", "overLimit"),
        ("/identity/v3/auth/tokens", "error"),
        ("/network/v2.0/ports", "NeutronError"),
    ],
)
def test_the_services_shape(path: str, name: str) -> None:
    kind, body = faults.too_large(path)
    assert kind == "application/json"
    assert "too large" in json.loads(body)[name]["message"]


def test_pages_answer_in_words() -> None:
    assert faults.too_large("/instances/") == ("text/plain", b"The request body is too large.")
    assert http_requests.StreamingRequest.too_large("/x")[1]
