"""``/v3/regions``, ``/v3/services`` and ``/v3/endpoints``: made, listed, changed and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.identity.models import Endpoint, Region, Service
from provisioning.identity.services.catalog import create_service, update_service
from tests.identity.grants.conftest import V3
from tests.support.cast import Api, People

HOST = f"http://127.0.0.1:8000{V3}"
URL = "https://volume.example/v3/$(project_id)s"


def create(api: Api, kind: str, **values: Any) -> dict[str, Any]:
    answer = api.post(f"{V3}/{kind}s", {kind: values})
    assert answer.status_code == 201, answer.content
    return dict(answer.json()[kind])


OWN_TYPES = ["identity", "compute", "image", "network", "block-storage", "volumev3", "ec2"]
"""This cloud's own services."""


def listed(api: Api, kind: str, query: str = "") -> list[dict[str, Any]]:
    answer = api.get(f"{V3}/{kind}s?{query}")
    assert answer.status_code == 200, answer.content
    return list(answer.json()[f"{kind}s"])


def test_regions(people: People) -> None:
    api = Api(people.operator)
    north = create(api, "region", id="North 1", description="Cold.", parent_region_id="RegionOne", colour="white")
    assert north == {
        "id": "North 1",
        "description": "Cold.",
        "parent_region_id": "RegionOne",
        "colour": "white",
        "links": {"self": f"{HOST}/regions/North 1"},
    }
    named = create(api, "region", description=None)
    assert len(named["id"]) == 32
    assert (named["description"], named["parent_region_id"]) == ("", None)
    assert Api(people.bob).get(f"{V3}/regions/North 1").json()["region"] == north
    assert {each["id"] for each in listed(Api(people.bob), "region")} == {"North 1", "RegionOne", named["id"]}
    assert [each["id"] for each in listed(api, "region", "parent_region_id=RegionOne")] == ["North 1"]
    changed = api.patch(f"{V3}/regions/North 1", {"region": {"description": "Dark.", "parent_region_id": None}})
    assert changed.json()["region"] == north | {"description": "Dark.", "parent_region_id": None}
    assert api.patch(f"{V3}/regions/North 1", {"region": {"id": "South"}}).status_code == 400
    assert api.delete(f"{V3}/regions/North 1").status_code == 204
    assert api.get(f"{V3}/regions/North 1").status_code == 404
    assert api.post(f"{V3}/regions", {"region": {"id": "RegionOne"}}).status_code == 409


def test_a_region_is_made_under_the_address_that_names_it(people: People) -> None:
    api, path = Api(people.operator), f"{V3}/regions/North 1"
    answer = api.put(path, {"region": {"description": "Cold.", "parent_region_id": "RegionOne", "id": "North 1"}})
    assert (answer.status_code, answer.json()["region"]) == (201, api.get(path).json()["region"])
    assert answer.json()["region"]["parent_region_id"] == "RegionOne"
    for name, body, code in [
        ("North 1", {"description": "Warm."}, 409),
        ("South", {"id": "East"}, 400),
        ("South", {"parent_region_id": "nowhere"}, 404),
        ("South", {"description": 1}, 400),
        ("x" * 256, {}, 400),
    ]:
        assert api.put(f"{V3}/regions/{name}", {"region": body}).status_code == code
    assert Api(people.bob).put(f"{V3}/regions/South", {"region": {}}).status_code == 403
    assert set(Region.objects.values_list("id", "description")) == {("North 1", "Cold."), ("RegionOne", "")}


def test_a_region_goes_when_nothing_is_in_it(people: People) -> None:
    api = Api(people.operator)
    create(api, "region", id="outer")
    create(api, "region", id="inner", parent_region_id="outer")
    for name in ("RegionOne", "outer"):
        refused = api.delete(f"{V3}/regions/{name}")
        assert refused.status_code == 403
        assert refused.json()["error"]["message"].startswith(f"Unable to delete region {name} because")
    assert api.delete(f"{V3}/regions/inner").status_code == 204
    assert api.delete(f"{V3}/regions/outer").status_code == 204
    assert Endpoint.objects.filter(region="RegionOne").count() == 21


def test_regions_are_in_no_circle(people: People) -> None:
    api = Api(people.operator)
    create(api, "region", id="a")
    create(api, "region", id="b", parent_region_id="a")
    create(api, "region", id="c", parent_region_id="b")
    for parent in ("a", "b", "c"):
        assert api.patch(f"{V3}/regions/a", {"region": {"parent_region_id": parent}}).status_code == 400
    assert api.patch(f"{V3}/regions/c", {"region": {"parent_region_id": "a"}}).status_code == 200
    assert api.patch(f"{V3}/regions/c", {"region": {"parent_region_id": "nowhere"}}).status_code == 404
    assert api.post(f"{V3}/regions", {"region": {"parent_region_id": "nowhere"}}).status_code == 404


def test_services(people: People) -> None:
    api = Api(people.operator)
    made = create(api, "service", type="sharev2", name="manila", description="Disks.", size="large")
    assert made == {
        "id": made["id"],
        "type": "sharev2",
        "name": "manila",
        "description": "Disks.",
        "enabled": True,
        "size": "large",
        "links": {"self": f"{HOST}/services/{made['id']}"},
    }
    where = f"{V3}/services/{made['id']}"
    assert api.get(where).json()["service"] == made
    assert [each["type"] for each in listed(api, "service")] == [*OWN_TYPES, "sharev2"]
    assert listed(api, "service", "type=sharev2") == listed(api, "service", "name=manila") == [made]
    changed = api.patch(where, {"service": {"name": "disks", "enabled": False}})
    assert changed.json()["service"] == made | {"name": "disks", "enabled": False}
    assert [each["name"] for each in listed(api, "service", "enabled=false")] == ["disks"]
    assert api.patch(where, {"service": {"name": None}}).json()["service"]["name"] == ""
    create(api, "endpoint", service_id=made["id"], interface="public", url=URL)
    assert api.delete(where).status_code == 204
    assert api.get(where).status_code == 404
    assert not Endpoint.objects.filter(url=URL).exists()


def test_endpoints(people: People) -> None:
    api = Api(people.operator)
    service, other = create(api, "service", type="sharev2"), create(api, "service", type="object-store")
    made = create(
        api, "endpoint", service_id=service["id"], interface="public", url=URL, region_id="RegionOne", note=[1]
    )
    assert made == {
        "id": made["id"],
        "interface": "public",
        "service_id": service["id"],
        "region": "RegionOne",
        "region_id": "RegionOne",
        "url": URL,
        "enabled": True,
        "note": [1],
        "links": {"self": f"{HOST}/endpoints/{made['id']}"},
    }
    where = f"{V3}/endpoints/{made['id']}"
    assert api.get(where).json()["endpoint"] == made
    assert listed(api, "endpoint", f"service_id={service['id']}") == [made]
    assert len(listed(api, "endpoint", "interface=admin")) == 7
    assert len(listed(api, "endpoint", "region_id=RegionOne")) == 22
    assert listed(api, "endpoint", "region_id=nowhere") == []
    changed = api.patch(
        where, {"endpoint": {"service_id": other["id"], "interface": "internal", "enabled": False, "region_id": None}}
    )
    expected = {"service_id": other["id"], "interface": "internal", "enabled": False, "region": None, "region_id": None}
    assert changed.json()["endpoint"] == made | expected
    assert api.delete(where).status_code == 204
    assert api.delete(where).status_code == 404


def test_an_endpoint_that_names_a_region_in_the_older_way_makes_it(people: People) -> None:
    api, service = Api(people.operator), create(Api(people.operator), "service", type="x")
    made = create(api, "endpoint", service_id=service["id"], interface="public", url="http://x/", region="South")
    assert (made["region"], made["region_id"]) == ("South", "South")
    assert Region.objects.filter(id="South").exists()
    again = create(api, "endpoint", service_id=service["id"], interface="admin", url="http://x/", region="South")
    assert again["region_id"] == "South"
    body = {"service_id": service["id"], "interface": "admin", "url": "nowhere", "region": "West"}
    assert api.post(f"{V3}/endpoints", {"endpoint": body}).status_code == 400
    assert not Region.objects.filter(id="West").exists()


URLS = {
    "http://a.example": True,
    "https://a.example:8776/v3/%(tenant_id)s?x=%20": True,
    "wss://a/": True,
    "$(public_url)s": True,
    "$(public_url)s/volume/$(project_id)s": True,
    "%(public_url)s/x": True,
    "$(public_url)sx": False,
    "http://a/$(user_id)s": False,
    "http://a/%(password)s": False,
    "http://a/$()s": False,
    "http://a/$(project_id)": False,
    "http://a/$(project_id": False,
    "http://a b/": False,
    "http://a/\n": False,
    "ftp://a/": False,
    "javascript:alert(1)": False,
    "http://": False,
    "/volume": False,
    "": False,
    "http://" + "a" * 1024: False,
}


@pytest.mark.slow
def test_addresses_of_endpoints(people: People) -> None:
    api, service = Api(people.operator), Service.objects.get(type="image")
    endpoint = Endpoint.objects.filter(service=service)[0]
    for url, good in URLS.items():
        body = {"endpoint": {"service_id": service.id.hex, "interface": "public", "url": url}}
        assert api.post(f"{V3}/endpoints", body).status_code == (201 if good else 400), url
        changed = api.patch(f"{V3}/endpoints/{endpoint.id.hex}", {"endpoint": {"url": url}})
        assert changed.status_code == (200 if good else 400), url


WRONG: list[tuple[str, Any]] = [
    ("region", []),
    ("region", {"id": 5}),
    ("region", {"id": "a/b"}),
    ("region", {"id": "x" * 256}),
    ("region", {"id": "a\nb"}),
    ("region", {"id": ".."}),
    ("region", {"id": "a\0"}),
    ("region", {"description": 5}),
    ("region", {"parent_region_id": ["x"]}),
    ("service", {}),
    ("service", {"type": ""}),
    ("service", {"type": None}),
    ("service", {"type": "x" * 256}),
    ("service", {"type": "x", "enabled": "true"}),
    ("service", {"type": "x", "name": 5}),
    ("service", {"type": "x", "name": "x" * 256}),
    ("endpoint", {}),
    ("endpoint", {"interface": "public", "url": "http://a"}),
    ("endpoint", {"interface": "secret", "url": "http://a", "service_id": "<image>"}),
    ("endpoint", {"interface": ["public"], "url": "http://a", "service_id": "<image>"}),
    ("endpoint", {"interface": "public", "url": 5, "service_id": "<image>"}),
    ("endpoint", {"interface": "public", "url": "http://a", "service_id": "x"}),
    ("endpoint", {"interface": "public", "url": "http://a", "service_id": "0" * 32}),
    ("endpoint", {"interface": "public", "url": "http://a", "service_id": "<image>", "region_id": "nowhere"}),
    ("endpoint", {"interface": "public", "url": "http://a", "service_id": "<image>", "region_id": {}}),
    ("endpoint", {"interface": "public", "url": "http://a", "service_id": "<image>", "region": "a/b"}),
    ("endpoint", {"interface": "public", "url": "http://a", "service_id": "<image>", "enabled": 1}),
]


def test_a_body_that_makes_nothing_is_400(people: People) -> None:
    api, image = Api(people.operator), Service.objects.get(type="image").id.hex
    before = [model.objects.count() for model in (Region, Service, Endpoint)]
    for kind, values in WRONG:
        named = isinstance(values, dict) and values.get("service_id") == "<image>"
        body = {kind: values | {"service_id": image} if named else values}
        assert api.post(f"{V3}/{kind}s", body).status_code == 400, body
    assert [model.objects.count() for model in (Region, Service, Endpoint)] == before


@pytest.mark.parametrize("kind", ["region", "service", "endpoint"])
def test_what_is_not_there_is_404(people: People, kind: str) -> None:
    api = Api(people.operator)
    for text in ("x", "%00", "0" * 32, "a" * 300):
        where = f"{V3}/{kind}s/{text}"
        assert api.get(where).status_code == 404
        assert api.patch(where, {kind: {"description": "x"}}).status_code == 404
        assert api.delete(where).status_code == 404


def test_attributes_are_added_one_after_the_other(people: People) -> None:
    service = create_service("x", extra={"a": 1})
    update_service(service, extra={"b": 2})
    assert Service.objects.get(id=service.id).extra == {"a": 1, "b": 2}
    with pytest.raises(TypeError, match="colour"):
        update_service(service, colour="x")
