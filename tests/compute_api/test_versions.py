"""Version documents, and v2.0 for old clients."""

from __future__ import annotations

import pytest

from portal.api.compute.legacy import pruned
from tests.compute_api.conftest import V21, launch, server_body
from tests.support.cast import Api, People
from tests.support.clouds import Cloud

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


@pytest.mark.parametrize(("path", "ident"), [(V20, "v2.0"), (f"{V20}/", "v2.0"), (V21, "v2.1"), (f"{V21}/", "v2.1")])
def test_each_version_has_a_document(path: str, ident: str) -> None:
    shown = Api(None).get(path).json()["version"]
    assert shown["id"] == ident
    assert [link["rel"] for link in shown["links"]] == ["self", "describedby"]
    assert shown["media-types"][0]["base"] == "application/json"


@pytest.mark.parametrize("asked", ["", "compute 2.96", "compute 2.9999", "compute nonsense"])
def test_v2_has_no_microversions(api: Api, cloud: Cloud, asked: str) -> None:
    answer = api.get(f"{V20}/flavors/1", OpenStack_API_Version=asked)
    assert answer.status_code == 200
    assert "OpenStack-API-Version" not in answer.headers
    assert "X-OpenStack-Nova-API-Version" not in answer.headers
    flavor = answer.json()["flavor"]
    assert "description" not in flavor
    assert flavor["links"][0]["href"].endswith("/compute/v2/flavors/1")
    assert flavor["links"][1]["href"].endswith("/compute/flavors/1")


def test_v2_is_the_same_cloud(api: Api, cloud: Cloud, people: People) -> None:
    ident = launch(api, cloud)
    assert api.get(f"{V20}/servers/{ident}").json()["server"]["status"] == "ACTIVE"
    assert Api(people.charlie).get(f"{V20}/servers/{ident}").status_code == 404
    assert Api(people.bob).delete(f"{V20}/servers/{ident}").status_code == 403
    assert Api(None).get(f"{V20}/servers").status_code == 401
    assert api.get(f"{V20}/nothing").status_code == 404
    assert api.patch(f"{V20}/flavors/1", {}).status_code == 405
    assert api.head(f"{V20}/flavors").status_code == 200
    assert api.delete(f"{V20}/servers/{ident}").status_code == 204


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
