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
    kind, body = faults.refusal(path, 413)
    assert kind == "application/json"
    assert "too large" in json.loads(body)[name]["message"]


def test_the_services_shape_of_a_type_that_is_refused() -> None:
    kind, body = faults.refusal("/compute/v2.1/servers", 415)
    assert kind == "application/json"
    assert json.loads(body)["badMediaType"]["code"] == 415


def test_pages_answer_with_a_message() -> None:
    assert faults.refusal("/instances/", 413) == ("text/plain", b"The request body is too large.")
    assert http_requests.StreamingRequest.refusal("/x", 413)[1]
