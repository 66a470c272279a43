"""What every resource of the Networking API does alike, seen at networks."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import quote

import pytest
from django.http import HttpResponse
from django.test import Client

from provisioning.network import services
from provisioning.network.models import Network, Tag
from provisioning.quotas.models import QuotaLimit
from tests.support.cast import Api, Person
from tests.support.tables import each_row

V2 = "/network/v2.0"


def make(person: Person, **values: Any) -> Any:
    answer = Api(person).post(f"{V2}/networks", {"network": values})
    assert answer.status_code == 201, answer.content
    return answer.json()["network"]


def fault(answer: HttpResponse, status: int) -> Any:
    assert answer.status_code == status, answer.content
    return answer.json()["NeutronError"]  # type: ignore[attr-defined]


def put(person: Person, path: str, body: Any, **headers: str) -> Any:
    client = Client()
    return client.put(
        V2 + path, body, content_type="application/json", headers={"X-Auth-Token": person.token, **headers}
    )


def test_a_network_is_made_changed_and_deleted(alice: Person) -> None:
    made = make(alice, name="mine", description="of mine", mtu=1400)
    assert (made["name"], made["mtu"], made["revision_number"], made["status"]) == ("mine", 1400, 0, "ACTIVE")
    assert made["project_id"] == alice.project_id.hex
    answer = put(alice, f"/networks/{made['id']}", {"network": {"name": "other", "admin_state_up": "False"}})
    changed = answer.json()["network"]
    assert (changed["name"], changed["admin_state_up"], changed["revision_number"]) == ("other", False, 1)
    assert Api(alice).delete(f"{V2}/networks/{made['id']}").status_code == 204
    assert fault(Api(alice).get(f"{V2}/networks/{made['id']}"), 404)["type"] == "NetworkNotFound"


def test_several_are_made_at_once_all_or_none(alice: Person) -> None:
    bodies = [{"name": "a"}, {"name": "b"}]
    answer = Api(alice).post(f"{V2}/networks", {"networks": bodies})
    assert [network["name"] for network in answer.json()["networks"]] == ["a", "b"]
    QuotaLimit.objects.create(project_id=alice.project_id, resource="networks", limit=3)
    refused = Api(alice).post(f"{V2}/networks", {"networks": bodies})
    assert fault(refused, 409)["type"] == "OverQuota"
    assert Network.objects.count() == 2


def test_too_many_at_once_are_refused_before_the_first_is_made(
    alice: Person, net: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(*args: object, **kwargs: object) -> None:
        raise AssertionError("one was made")

    monkeypatch.setattr(services, "create_port", made)
    QuotaLimit.objects.create(project_id=alice.project_id, resource="ports", limit=3)
    port = {"network_id": str(net.id)}
    error = fault(Api(alice).post(f"{V2}/ports", {"ports": [port] * 4}), 409)
    assert error["type"] == "OverQuota"
    assert "Requested 4, but already used 0 of 3" in error["message"]


@each_row(
    ("body", "words"),
    [
        ({}, "Resource body required"),
        ({"networks": []}, "Resources required"),
        ({"port": {}}, "Unable to find 'network' in request body"),
        ({"network": []}, "invalid data"),
        ({"network": {"colour": "red"}}, "Unrecognized attribute(s) 'colour'"),
        ({"network": {"status": "ACTIVE"}}, "Attribute 'status' not allowed in POST"),
        ({"network": {"name": "x" * 256}}, "Invalid input for name. Reason: "),
        ({"network": {"name": 5}}, "Invalid input for name. Reason: '5' is not a valid string."),
        ({"network": {"admin_state_up": "perhaps"}}, "cannot be converted to boolean"),
        ({"network": {"mtu": 20}}, "Requested MTU is too small"),
        ({"network": {"tenant_id": "0" * 31}}, "is not a valid UUID"),
        ({"network": {"dns_domain": "..."}}, "is not a valid domain"),
        ({"network": {"dns_domain": "a b.org"}}, "is not a valid domain"),
    ],
)
def test_a_wrong_body_is_refused_with_neutrons_message(alice: Person, body: Any, words: str) -> None:
    error = fault(Api(alice).post(f"{V2}/networks", body), 400)
    assert error["type"] in {"HTTPBadRequest", "InvalidInput"}
    assert words in error["message"]
    assert not Network.objects.exists()


def test_what_is_read_only_is_not_changed(alice: Person, net: Network) -> None:
    error = fault(put(alice, f"/networks/{net.id}", {"network": {"project_id": alice.project_id.hex}}), 400)
    assert "Cannot update read-only attribute project_id" in error["message"]


def test_if_match_holds_the_revision(alice: Person, net: Network) -> None:
    path, body = f"/networks/{net.id}", {"network": {"name": "x"}}
    stale = put(alice, path, body, **{"If-Match": "revision_number=7"})
    assert fault(stale, 412)["type"] == "RevisionNumberConstraintFailed"
    assert put(alice, path, body, **{"If-Match": "revision_number=0"}).json()["network"]["revision_number"] == 1
    assert fault(put(alice, path, body, **{"If-Match": "revision_number=-1"}), 412)
    for wrong in ("revision_number=x", "revision_number=1, revision_number=2"):
        assert fault(put(alice, path, body, **{"If-Match": wrong}), 400)["type"] == "BadRequest"
    assert put(alice, path, body, **{"If-Match": 'W/"1", "x"'}).status_code == 200
    headers = {"X-Auth-Token": alice.token, "If-Match": "revision_number=0"}
    assert Client().delete(V2 + path, headers=headers).status_code == 412
    assert Network.objects.get().name == "x"


def test_what_only_operators_set_is_refused(alice: Person, operator: Person, net: Network) -> None:
    for name, value in (("shared", True), ("router:external", True), ("provider:network_type", "vxlan")):
        answer = Api(alice).post(f"{V2}/networks", {"network": {name: value}})
        assert fault(answer, 403)["type"] == "PolicyNotAuthorized"
    assert make(alice, shared=False)["shared"] is False
    assert fault(put(alice, f"/networks/{net.id}", {"network": {"shared": False}}), 403)
    assert put(operator, f"/networks/{net.id}", {"network": {"shared": True}}).json()["network"]["shared"] is True


def test_a_project_changes_only_its_own(alice: Person, charlie: Person, net: Network) -> None:
    path, body = f"/networks/{net.id}", {"network": {"name": "x"}}
    assert fault(put(charlie, path, body), 404)["type"] == "NetworkNotFound"
    services.update_network(Network.objects.get(), {"shared": True})
    assert fault(put(charlie, path, body), 403)["type"] == "PolicyNotAuthorized"
    assert Api(charlie).delete(V2 + path).status_code == 403
    assert put(charlie, f"{path}/tags/x", None).status_code == 403
    assert Network.objects.get().name == "net"


def test_operators_make_networks_for_other_projects(alice: Person, charlie: Person, operator: Person) -> None:
    assert make(operator, project_id=alice.project_id.hex)["project_id"] == alice.project_id.hex
    answer = Api(charlie).post(f"{V2}/networks", {"network": {"tenant_id": alice.project_id.hex}})
    assert "requires admin privileges" in fault(answer, 400)["message"]


def test_tags(alice: Person, net: Network) -> None:
    path = f"/networks/{net.id}/tags"
    api = Api(alice)
    assert put(alice, path, {"tags": ["red", "blue"]}).json() == {"tags": ["blue", "red"]}
    assert api.post(V2 + path, {"tags": ["green", "red"]}).json() == {"tags": ["blue", "green", "red"]}
    assert put(alice, f"{path}/tall", None).status_code == 201
    assert api.get(f"{V2}{path}/tall").status_code == 204
    assert api.delete(f"{V2}{path}/tall").status_code == 204
    assert fault(api.delete(f"{V2}{path}/tall"), 404)["type"] == "TagNotFound"
    assert fault(api.get(f"{V2}{path}/tall"), 404)["type"] == "TagNotFound"
    shown = api.get(f"{V2}/networks/{net.id}").json()["network"]
    assert (shown["tags"], shown["revision_number"]) == (["blue", "green", "red"], 4)
    assert fault(put(alice, path, {"tags": [f"t{number}" for number in range(51)]}), 400)
    assert fault(put(alice, path, {"tags": ["a,b"]}), 400)
    assert api.delete(V2 + path).status_code == 204
    assert api.get(V2 + path).json() == {"tags": []}


def test_tags_go_with_their_record(alice: Person) -> None:
    network = services.create_network(alice.project_id, "n")
    services.set_tags(network, ["x"])
    services.delete_network(network)
    assert not Tag.objects.exists()


def test_lists_are_filtered_by_tags(alice: Person) -> None:
    for name, tags in (("a", ["x", "y"]), ("b", ["x"]), ("c", [])):
        services.set_tags(services.create_network(alice.project_id, name), tags)

    def names(query: str) -> str:
        networks = Api(alice).get(f"{V2}/networks?{query}&sort_key=name").json()["networks"]
        return "".join(network["name"] for network in networks)

    assert (names("tags=x"), names("tags=x,y"), names("tags-any=y,z"), names("tags-any=x,y")) == ("ab", "a", "a", "ab")
    assert (names("not-tags=x,y"), names("not-tags-any=x,y"), names("not-tags=x")) == ("bc", "c", "c")


def test_filters_by_time(alice: Person, net: Network) -> None:
    api = Api(alice)
    assert len(api.get(f"{V2}/networks?changed_since=2020-01-01T00:00:00").json()["networks"]) == 1
    assert api.get(f"{V2}/networks?changed_since=2120-01-01T00:00:00Z").json()["networks"] == []
    assert fault(api.get(f"{V2}/networks?changed_since=yesterday"), 400)["type"] == "InvalidInput"


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "x"])
def test_a_time_that_cannot_be_is_refused(alice: Person, moment: str) -> None:
    answer = Api(alice).get(f"{V2}/networks?changed_since={quote(moment)}")
    assert (answer.status_code, answer.json()["NeutronError"]["type"]) == (400, "InvalidInput")


def test_pages_go_both_ways(alice: Person) -> None:
    for name in "abcde":
        services.create_network(alice.project_id, name)
    api = Api(alice)

    def page(path: str) -> tuple[str, dict[str, str]]:
        body = api.get(path).json()
        links = {link["rel"]: V2 + link["href"].partition(V2)[2] for link in body.get("networks_links", [])}
        return "".join(network["name"] for network in body["networks"]), links

    first, links = page(f"{V2}/networks?limit=2&sort_key=name&fields=name")
    second, links = page(links["next"])
    third, last = page(links["next"])
    assert (first, second, third, "next" in last) == ("ab", "cd", "e", False)
    back, links = page(last["previous"])
    assert (back, page(links["previous"])[0], page(links["next"])[0]) == ("cd", "ab", "e")


def test_a_marker_that_is_gone_is_refused(alice: Person, net: Network) -> None:
    answer = Api(alice).get(f"{V2}/networks?limit=1&marker={uuid.uuid4()}")
    assert fault(answer, 404)["type"] == "NetworkNotFound"


@pytest.mark.both_databases("sql")
@pytest.mark.parametrize("query", ["name=%00", "tags=%00", "not-tags-any=a%00b", "id=%00"])
def test_a_nul_is_refused_on_every_database(alice: Person, query: str) -> None:
    assert fault(Api(alice).get(f"{V2}/networks?{query}"), 400)["type"] == "InvalidInput"
