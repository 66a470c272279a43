"""Version documents, and v2.0 for old clients."""

from __future__ import annotations

import pytest
from django.test import Client

from portal.api.compute.dialect import pruned
from tests.compute_api.conftest import V21, server_body
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
V20 = "/compute/v2"


def test_both_versions_are_listed() -> None:
    nobody = Api(None)
    for path in ("/compute", "/compute/"):
        answer = nobody.get(path)
        assert answer.status_code == 200
        old, new = answer.json()["versions"]
        assert (old["id"], old["status"], old["version"], old["min_version"]) == ("v2.0", "SUPPORTED", "", "")
        assert (new["id"], new["status"], new["version"], new["min_version"]) == ("v2.1", "CURRENT", "2.96", "2.1")
        assert [each["links"][0]["href"].partition("/compute")[2] for each in (old, new)] == ["/v2/", "/v2.1/"]
        assert [len(each["links"]) for each in (old, new)] == [1, 1]


@each_row(("path", "ident"), [(V20, "v2.0"), (f"{V20}/", "v2.0"), (V21, "v2.1"), (f"{V21}/", "v2.1")])
def test_each_version_has_a_document(path: str, ident: str) -> None:
    shown = Api(None).get(path).json()["version"]
    assert shown["id"] == ident
    assert [link["rel"] for link in shown["links"]] == ["self", "describedby"]
    assert shown["media-types"][0]["base"] == "application/json"


@each_row("path", ["/v3", "/v2.5/servers", "/v2.0", "/v1.1/", "/nothing", "/v2.10/servers/x"])
def test_what_is_of_no_version_is_a_choice(api: Api, path: str) -> None:
    for send in (Api(None).get, api.get, api.delete, lambda url: api.post(url, {"server": {}}), api.put):
        answer = send(f"/compute{path}")
        assert answer.status_code == 300
        old, new = answer.json()["choices"]
        assert (old["id"], new["id"]) == ("v2.0", "v2.1")
        assert [each["links"][0]["href"].partition("/compute")[2] for each in (old, new)] == [
            f"/v2{path}",
            f"/v2.1{path}",
        ]
        assert old.keys() == new.keys() == {"id", "status", "links", "media-types"}
    assert api.head(f"/compute{path}").status_code == 300


@each_row(
    ("path", "status"),
    [
        ("/compute/", 200),
        ("/compute/v2.1/", 200),
        ("/compute/v2.1/servers", 200),
        ("/identity/", 300),
        ("/identity/v3", 200),
        ("/identity/v3/users", 200),
        ("/identity/v4/users", 404),
        ("/image/", 300),
        ("/image/v2/images", 200),
        ("/image/v9/images", 300),
        ("/network/", 200),
        ("/network/v2.0/networks", 200),
        ("/network/v3.0/networks", 404),
        ("/volume/", 300),
        ("/volume/v3/volumes", 200),
        ("/volume/v9/volumes", 404),
    ],
)
def test_every_service_answers_in_json_whatever_is_accepted(people: People, path: str, status: int) -> None:
    for accept in ("application/xml", "text/html;q=0.9, application/xml", "nonsense"):
        answer = Api(people.operator).get(path, Accept=accept)
        assert (answer.status_code, answer.headers["Content-Type"].partition(";")[0]) == (status, "application/json")
        assert answer.json()


@each_row("service", ["compute", "identity", "image", "network", "volume"])
def test_no_service_reads_xml(people: People, service: str) -> None:
    path = {
        "compute": "/compute/v2.1/servers",
        "identity": "/identity/v3/projects",
        "image": "/image/v2/images",
        "network": "/network/v2.0/networks",
        "volume": "/volume/v3/volumes",
    }[service]
    answer = Client().generic("POST", path, "<a/>", "application/xml", headers=people.operator.headers)
    assert answer.status_code == (400 if service == "identity" else 415)
    assert answer.json()


@each_row(
    ("service", "wrong", "status"),
    [
        ("compute", "2.97", 406),
        ("compute", "2.0", 406),
        ("compute", "3.1", 406),
        ("compute", "2", 400),
        ("compute", "2.1.1", 400),
        ("volume", "3.72", 406),
        ("volume", "2.0", 406),
        ("volume", "new", 400),
    ],
)
def test_unknown_microversions(people: People, service: str, wrong: str, status: int) -> None:
    path = {"compute": "/compute/v2.1/servers", "volume": "/volume/v3/volumes"}[service]
    answer = Api(people.alice).get(path, OpenStack_API_Version=f"{service} {wrong}")
    assert answer.status_code == status, answer.content
    [fault] = [each for each in answer.json().values() if isinstance(each, dict)]
    assert fault["code"] == status


@each_row("requested", ["", "compute 2.96", "compute 2.9999", "compute nonsense"])
def test_v2_has_no_microversions(api: Api, cloud: Cloud, requested: str) -> None:
    answer = api.get(f"{V20}/flavors/1", OpenStack_API_Version=requested)
    assert answer.status_code == 200
    assert "OpenStack-API-Version" not in answer.headers
    assert "X-OpenStack-Nova-API-Version" not in answer.headers
    flavor = answer.json()["flavor"]
    assert "description" not in flavor
    assert flavor["links"][0]["href"].endswith("/compute/v2/flavors/1")
    assert flavor["links"][1]["href"].endswith("/compute/flavors/1")


def test_v2_is_the_same_cloud(api: Api, cloud: Cloud, people: People, server: str) -> None:
    assert api.get(f"{V20}/servers/{server}").json()["server"]["status"] == "ACTIVE"
    assert Api(people.charlie).get(f"{V20}/servers/{server}").status_code == 404
    assert Api(people.bob).delete(f"{V20}/servers/{server}").status_code == 403
    assert Api(None).get(f"{V20}/servers").status_code == 401
    assert api.get(f"{V20}/nothing").status_code == 404
    assert api.patch(f"{V20}/flavors/1", {}).status_code == 405
    assert api.head(f"{V20}/flavors").status_code == 200
    assert api.delete(f"{V20}/servers/{server}").status_code == 204


def test_v2_looks_at_known_fields_only(api: Api, cloud: Cloud) -> None:
    body = server_body(cloud, colour="red")
    body["shape"] = "round"
    assert api.post(f"{V21}/servers", body).status_code == 400
    assert api.post(f"{V20}/servers", body).status_code == 202
    keypair = {"keypair": {"name": "k", "type": "nonsense"}, "more": 1}
    assert api.post(f"{V21}/os-keypairs", keypair).status_code == 400
    assert api.post(f"{V20}/os-keypairs", keypair).status_code == 200
    assert api.post(f"{V20}/os-keypairs", {"keypair": {"name": ""}}).status_code == 400


def test_only_names_that_a_closed_object_lacks_are_left_out() -> None:
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "known": {"type": "array", "items": {"additionalProperties": False, "properties": {"a": {}}}},
            "open": {"properties": {"a": {}}},
            "keys": {"additionalProperties": False, "patternProperties": {"^a": {}}},
        },
    }
    body = {"known": [{"a": 1, "b": 2}, 5], "open": {"b": 1}, "keys": {"a": 1, "b": 2}, "more": 1}
    assert pruned(body, schema) == {"known": [{"a": 1}, 5], "open": {"b": 1}, "keys": {"a": 1, "b": 2}}
    assert pruned("text", schema) == "text"


@pytest.mark.parametrize("version", ["v2.1", "v2"])
@each_row("dashed", [False, True])
def test_the_project_may_stand_in_the_address(
    api: Api, cloud: Cloud, people: People, version: str, dashed: bool
) -> None:
    project = str(people.alice.project_id) if dashed else people.alice.project_id.hex
    base = f"/compute/{version}/{project}"
    made = api.post(f"{base}/servers", server_body(cloud))
    assert made.status_code == 202
    ident = made.json()["server"]["id"]
    ends = [link["href"].partition("/compute")[2] for link in made.json()["server"]["links"]]
    assert ends == [f"/{version}/{project}/servers/{ident}", f"/{project}/servers/{ident}"]
    shown = api.get(f"{base}/servers/{ident}").json()["server"]
    assert shown["flavor"]["links"][0]["href"].endswith(f"/compute/{project}/flavors/1")
    assert (
        api.get(f"{base}/servers?limit=1")
        .json()["servers_links"][0]["href"]
        .partition("?")[0]
        .endswith(f"{base}/servers")
    )
    assert api.get(f"{base}/limits").status_code == 200
    assert api.get(f"{base}/nothing").status_code == 404
    assert Api(None).get(f"{base}/servers").status_code == 401
    other = Api(people.charlie).get(f"{base}/servers/{ident}")
    assert (other.status_code, "doesn't match" in other.json()["badRequest"]["message"]) == (400, True)
    assert api.delete(f"{base}/servers/{ident}").status_code == 204
