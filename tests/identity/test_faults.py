"""What the common base of the APIs does: faults in each service's shape, versions, pages, checked bodies."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from pytest_django import Settings
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import ServiceView
from provisioning.identity.services.tokens import issue_token
from tests.support.cast import Api, People
from tests.support.tables import each_row

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.identity.api")]
SERVICES = ("identity", "compute", "image", "network", "volume")
STATUS = {
    "invalid": 400,
    "forbidden": 403,
    "missing": 404,
    "conflict": 409,
    "quota": 403,
    "large": 413,
    "unavailable": 503,
    "django404": 404,
    "djangobig": 413,
}
COMPUTE = {
    400: "badRequest",
    403: "forbidden",
    404: "itemNotFound",
    409: "conflictingRequest",
    413: "overLimit",
    503: "serviceUnavailable",
}


def message_in(service: str, body: Any, status: int) -> str:
    """Return the sentence of a fault, having checked the shape around it."""
    if service == "identity":
        assert set(body) == {"error"}
        assert (body["error"]["code"], set(body["error"])) == (status, {"code", "title", "message"})
        return str(body["error"]["message"])
    if service in {"compute", "volume"}:
        ((name, fault),) = body.items()
        assert name == COMPUTE.get(status, "computeFault")
        assert (fault["code"], set(fault)) == (status, {"code", "message"})
        return str(fault["message"])
    if service == "network":
        assert set(body) == {"NeutronError"}
        assert set(body["NeutronError"]) == {"type", "message", "detail"}
        return str(body["NeutronError"]["message"])
    assert (body["code"], set(body)) == (status, {"code", "title", "message"})
    return str(body["message"])


@each_row("service", SERVICES)
@each_row("error", STATUS)
def test_anticipated_errors(people: People, service: str, error: str) -> None:
    response = Api(people.alice).get(f"/{service}/errors?error={error}")
    status = {("network", "quota"): 409, ("image", "quota"): 413, ("volume", "quota"): 413}.get(
        (service, error), STATUS[error]
    )
    assert response.status_code == status
    assert response["Content-Type"] == "application/json"
    assert response["X-Openstack-Request-Id"].startswith("req-")
    message = message_in(service, response.json(), status)
    assert message
    assert "secret" not in message
    assert "internals" not in message


@pytest.mark.parametrize("service", SERVICES)
def test_bug_is_logged_and_not_shown(people: People, service: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        response = Api(people.alice).get(f"/{service}/errors?error=bug")
    assert response.status_code == 500
    message = message_in(service, response.json(), 500)
    request_id = response["X-Openstack-Request-Id"]
    assert request_id in message
    assert "secret" not in message
    assert "ZeroDivisionError: secret internals" in caplog.text
    assert request_id in caplog.text


def test_neutron_names_its_exceptions(people: People) -> None:
    types = {
        error: Api(people.alice).get(f"/network/errors?error={error}").json()["NeutronError"]["type"]
        for error in ("network", "missing", "quota", "invalid", "conflict")
    }
    assert types == {
        "network": "NetworkNotFound",
        "missing": "NotFound",
        "quota": "OverQuota",
        "invalid": "InvalidInput",
        "conflict": "Conflict",
    }


@pytest.mark.parametrize("service", SERVICES)
def test_401_is_keystones_everywhere(people: People, service: str, settings: Settings) -> None:
    settings.PUBLIC_URL = "https://cloud.example"
    for headers in ({}, {"X-Auth-Token": "nonsense"}):
        response = Api(None, **headers).get(f"/{service}/errors?error=bug")
        assert response.status_code == 401
        assert response["WWW-Authenticate"] == 'Keystone uri="https://cloud.example/identity/v3"'
        message_in("identity", response.json(), 401)


@each_row("service", SERVICES)
def test_no_such_resource_and_no_such_method(people: People, service: str) -> None:
    for method in ("get", "post", "put", "patch", "delete"):
        response = getattr(Api(None), method)(f"/{service}/nothing")
        assert response.status_code == 404
        message_in(service, response.json(), 404)
    response = Api(people.alice).delete(f"/{service}/errors")
    assert response.status_code == 405
    assert response["Allow"] == "GET, HEAD, POST"
    assert Api(people.alice).client.options(f"/{service}/errors", headers=people.alice.headers).status_code == 405


def test_reader_may_not_and_unscoped_may_nothing(people: People) -> None:
    body = {"server": {"name": "web"}}
    assert Api(people.bob).post("/compute/errors", body).status_code == 403
    assert Api(people.alice).post("/compute/errors", body).status_code == 202
    unscoped = issue_token(people.alice.user, None, ("password",)).value
    api = Api(None, **{"X-Auth-Token": unscoped})
    assert api.get("/compute/errors?error=bug").status_code == 403
    assert api.post("/compute/errors", body).status_code == 403


def test_body_of_a_caller_who_may_not_is_not_read(people: People) -> None:
    assert Api(people.bob).post("/compute/errors", "{ no json").status_code == 403


def test_compute_says_its_own_request_id_too(people: People) -> None:
    response = Api(people.alice).get("/compute/errors?error=missing")
    assert response["X-Compute-Request-Id"] == response["X-Openstack-Request-Id"]
    assert "X-Compute-Request-Id" not in Api(people.alice).get("/network/errors?error=missing")


@each_row(
    ("server", "wording"),
    [
        ({"name": ""}, "Invalid input for field/attribute name. Value: ''. '' should be non-empty"),
        ({"name": 7}, "Invalid input for field/attribute name. Value: 7. 7 is not of type 'string'"),
        ({"name": "a" * 11}, "Invalid input for field/attribute name. Value: 'aaaaaaaaaaa'. 'aaaaaaaaaaa' is too long"),
        ({"name": "web", "count": 0}, "field/attribute count. Value: 0. 0 is less than the minimum of 1"),
        ({"name": "web", "ports": ["x"]}, "Invalid input for field/attribute ports.0. Value: 'x'. 'x' is not a 'uuid'"),
        ({"name": "web", "address": "1.2.3"}, "'1.2.3' is not a 'ipv4'"),
        ({"name": "web", "address": "10.0.0.0/8"}, "is not a 'ipv4'"),
        ({"name": "web", "address6": "::1%lo"}, "is not a 'ipv6'"),
        ({}, "Invalid input for field/attribute server. 'name' is a required property"),
        ({"name": "web", "surprise": 1}, "Additional properties are not allowed ('surprise' was unexpected)"),
        ([], "Invalid input for field/attribute server. It is not of type 'object'"),
    ],
)  # fmt: skip
def test_wrong_field_is_named_with_novas_message(people: People, server: Any, wording: str) -> None:
    response = Api(people.alice).post("/compute/errors", {"server": server})
    assert response.status_code == 400
    assert wording in response.json()["badRequest"]["message"]


@each_row(
    "server",
    [
        {"name": "web", "adminPass": ["hunter2"]},
        {"name": "web", "user_data": "hunter2 is no base64!"},
        {"adminPass": "hunter2"},
        {"name": ["hunter2"], "adminPass": "hunter2"},
        ["hunter2"],
    ],
)
def test_secrets_are_not_repeated(people: People, server: Any) -> None:
    response = Api(people.alice).post("/compute/errors", {"server": server})
    assert response.status_code == 400
    assert b"hunter2" not in response.content


@pytest.mark.parametrize(
    "server", [{"name": "a" * 900_000}, {"name": "web", "a" * 900_000: 1}, {"name": ["a"] * 200_000}]
)
def test_huge_values_are_not_repeated(people: People, server: Any) -> None:
    response = Api(people.alice).post("/compute/errors", {"server": server})
    assert response.status_code == 400
    assert len(response.content) < 700


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", ""])
def test_json_by_type_or_without_one(people: People, kind: str) -> None:
    client, body = Api(None).client, json.dumps({"server": {"name": "wéb"}})
    response = client.generic("POST", "/compute/errors", body, content_type=kind, headers=people.alice.headers)
    assert response.status_code == 202
    assert response.json()["server"]["name"] == "wéb"


@each_row("accept", ["text/html", "application/xml", "*/*", ""])
def test_answers_are_json_whatever_is_accepted(people: People, accept: str) -> None:
    response = Api(people.alice).get("/compute/errors?error=missing", Accept=accept)
    assert response.status_code == 404
    assert response["Content-Type"] == "application/json"


def test_huge_body_is_413_in_the_services_shape(people: People, settings: Settings) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    response = Api(people.alice).post("/compute/errors", {"server": {"name": "a" * 1000}})
    assert response.status_code == 413
    assert "1000 bytes" in response.json()["overLimit"]["message"]


@each_row(
    ("headers", "status", "version"),
    [
        ({}, 200, "2.1"),
        ({"OpenStack-API-Version": "compute 2.53"}, 200, "2.53"),
        ({"OpenStack-API-Version": "volume 3.60, compute 2.60"}, 200, "2.60"),
        ({"OpenStack-API-Version": "volume 3.60"}, 200, "2.1"),
        ({"OpenStack-API-Version": "compute latest"}, 200, "2.96"),
        ({"X-OpenStack-Nova-API-Version": "2.9"}, 200, "2.9"),
        ({"X-OpenStack-Nova-API-Version": "2.9", "OpenStack-API-Version": "compute 2.10"}, 200, "2.10"),
        ({"OpenStack-API-Version": "compute 2.97"}, 406, "2.1"),
        ({"OpenStack-API-Version": "compute 1.9"}, 406, "2.1"),
        ({"OpenStack-API-Version": "compute 3.0"}, 406, "2.1"),
        ({"OpenStack-API-Version": "compute two"}, 400, "2.1"),
        ({"OpenStack-API-Version": "compute 2.01"}, 400, "2.1"),
        ({"OpenStack-API-Version": "compute 2.1.0"}, 400, "2.1"),
        ({"OpenStack-API-Version": "compute 2." + "9" * 5000}, 400, "2.1"),
    ],
)
def test_microversions(people: People, headers: dict[str, str], status: int, version: str) -> None:
    response = Api(people.alice, **headers).get("/versioned")
    assert response.status_code == status
    assert response["OpenStack-API-Version"] == f"compute {version}"
    assert response["X-OpenStack-Nova-API-Version"] == version
    assert {"OpenStack-API-Version", "X-OpenStack-Nova-API-Version", "X-Auth-Token"} <= set(
        response["Vary"].split(", ")
    )
    if status == 200:
        assert response.json()["version"] == version
    else:
        fault = response.json()["computeFault" if status == 406 else "badRequest"]
        assert fault["code"] == status
        assert len(fault["message"]) < 200


def test_pages_give_everything_once(people: People) -> None:
    seen, path = [], "/paged?status=ACTIVE"
    for _ in range(9):
        body = Api(people.alice).get(path).json()
        seen += body["items"]
        if not body["links"]:
            break
        ((rel, href),) = ((link["rel"], link["href"]) for link in body["links"])
        assert rel == "next"
        assert "status=ACTIVE" in href
        path = href.replace("http://cloud/items", "/paged")
    assert len(seen) == len(set(seen)) == 7


@each_row(("limit", "count"), [("0", 3), ("1", 1), ("3", 3), ("1000000000", 3)])
def test_limits_of_a_page(people: People, limit: str, count: int) -> None:
    assert len(Api(people.alice).get(f"/paged?limit={limit}").json()["items"]) == count


@each_row("limit", ["-1", "x", "1.5", "", "٣", "1" * 5000])
def test_limit_that_is_no_number_is_400(people: People, limit: str) -> None:
    assert Api(people.alice).get(f"/paged?limit={limit}").status_code == 400


def test_view_without_a_rule_is_refused_when_it_is_written() -> None:
    with pytest.raises(TypeError, match="no rule for DELETE"):

        class Forgotten(ServiceView):
            rules = {"GET": "os_compute_api:servers:detail"}

            def get(self, request: Request) -> Response:
                return Response({})

            def delete(self, request: Request) -> Response:
                return Response(status=204)

    with pytest.raises(TypeError, match="compute:servers:paint"):

        class Misspelt(ServiceView):
            rules = {"GET": "compute:servers:paint"}
