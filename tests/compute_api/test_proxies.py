"""Other services' proxies: there up to 2.35, read through the same selectors, and 404 from 2.36 on."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from provisioning.images.models import Image
from provisioning.network import services as network
from provisioning.network.models import Network
from provisioning.quotas.services.limits import set_limits
from tests.compute_api.conftest import V21
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
GIB = 1 << 30
NOWHERE = "7" * 32
SHOWN = [
    "images", "images/detail", "os-networks", "os-tenant-networks", "os-floating-ips", "os-floating-ip-pools",
    "os-security-groups", "os-volumes", "os-volumes/detail", "os-snapshots", "os-snapshots/detail",
]  # fmt: skip


def at(version: str) -> dict[str, str]:
    return {"OpenStack_API_Version": f"compute {version}"}


def make_image(person: Any, name: str, **columns: Any) -> Image:
    values = {"status": "active", "visibility": "private", "size": 5, "disk_format": "raw", "container_format": "bare"}
    return Image.objects.create(project_id=person.project_id, name=name, **(values | columns))


@each_row("path", SHOWN)
def test_each_is_gone_from_2_36(api: Api, cloud: Cloud, path: str) -> None:
    assert api.get(f"{V21}/{path}").status_code == 200
    assert api.get(f"{V21}/{path}", **at("2.35")).status_code == 200
    for version in ("2.36", "2.96"):
        answer = api.get(f"{V21}/{path}", **at(version))
        assert answer.status_code == 404
        assert answer.json()["itemNotFound"]["message"] == "The resource could not be found."


@each_row(
    ("method", "path", "status"),
    [
        ("GET", "os-networks/x", 404),
        ("GET", "os-tenant-networks/x", 404),
        ("POST", "os-floating-ips", 404),
        ("GET", "os-floating-ips/x", 404),
        ("DELETE", "os-floating-ips/x", 404),
        ("GET", "os-security-groups/x", 400),
        ("DELETE", "os-security-groups/x", 400),
        ("DELETE", "os-security-group-rules/x", 400),
        ("GET", f"os-security-groups/{NOWHERE}", 404),
        ("DELETE", f"os-security-group-rules/{NOWHERE}", 404),
        ("GET", "os-volumes/x", 404),
        ("POST", "os-volumes", 400),
        ("DELETE", "os-volumes/x", 404),
        ("GET", "os-snapshots/x", 404),
        ("POST", "os-snapshots", 400),
        ("DELETE", "os-snapshots/x", 404),
        ("GET", "images/x", 404),
        ("DELETE", "images/x", 404),
    ],
)
def test_what_is_not_there_or_not_done_here(api: Api, method: str, path: str, status: int) -> None:
    body = {} if method in ("POST", "PUT") else None
    assert api._send(method, f"{V21}/{path}", body).status_code == status
    assert api._send(method, f"{V21}/{path}", body, **at("2.36")).status_code == 404


@each_row(
    ("method", "path", "status"),
    [
        ("GET", "os-baremetal-nodes", 501),
        ("GET", "os-baremetal-nodes/x", 501),
        ("POST", "os-baremetal-nodes", 400),
        ("DELETE", "os-baremetal-nodes/x", 400),
        ("POST", "os-baremetal-nodes/x/action", 400),
    ],
)
def test_bare_metal_is_for_operators_and_not_here(people: People, method: str, path: str, status: int) -> None:
    body = {} if method == "POST" else None
    assert Api(people.operator)._send(method, f"{V21}/{path}", body).status_code == status
    assert Api(people.operator)._send(method, f"{V21}/{path}", body, **at("2.36")).status_code == 404
    assert Api(people.alice)._send(method, f"{V21}/{path}", body).status_code == 403


def test_networks_have_two_fields(api: Api, cloud: Cloud, people: People) -> None:
    [shown] = api.get(f"{V21}/os-networks").json()["networks"]
    ident = str(cloud.network.id)
    assert {name: value for name, value in shown.items() if value is not None} == {"id": ident, "label": "net"}
    assert "project_id" not in shown
    assert "project_id" in Api(people.operator).get(f"{V21}/os-networks/{ident}").json()["network"]
    assert api.get(f"{V21}/os-tenant-networks/{ident}").json() == {
        "network": {"id": ident, "label": "net", "cidr": "None"}
    }
    private = network.create_network(people.charlie.project_id, "theirs")
    assert api.get(f"{V21}/os-networks/{private.id}").status_code == 404
    assert len(api.get(f"{V21}/os-tenant-networks").json()["networks"]) == 1


def test_security_groups_show_what_may_come_in(api: Api, people: People) -> None:
    [fresh] = api.get(f"{V21}/os-security-groups").json()["security_groups"]
    assert api.delete(f"{V21}/os-security-groups/{fresh['id']}").status_code == 400
    group = network.ensure_default_security_group(people.alice.project_id)
    network.allow_ingress(group, "tcp", 22)
    network.ensure_default_security_group(people.charlie.project_id)
    [shown] = api.get(f"{V21}/os-security-groups").json()["security_groups"]
    assert (shown["id"], shown["name"], shown["tenant_id"]) == (
        str(group.id),
        "default",
        people.alice.project_id.hex,
    )
    assert {"name": "default", "tenant_id": people.alice.project_id.hex} in [rule["group"] for rule in shown["rules"]]
    [ssh] = [rule for rule in shown["rules"] if rule["ip_protocol"] == "tcp"]
    assert (ssh["from_port"], ssh["to_port"], ssh["group"], ssh["parent_group_id"]) == (22, 22, {}, str(group.id))
    assert ssh["ip_range"] == {"cidr": "0.0.0.0/0"}
    assert api.get(f"{V21}/os-security-groups/{group.id}").json()["security_group"] == shown
    assert Api(people.charlie).get(f"{V21}/os-security-groups/{group.id}").status_code == 404
    assert api.get(f"{V21}/os-security-groups?offset=1").json()["security_groups"] == []
    assert len(api.get(f"{V21}/os-security-groups?limit=0").json()["security_groups"]) == 1
    for wrong in ("limit=x", "limit=", "offset="):
        assert api.get(f"{V21}/os-security-groups?{wrong}").status_code == 400
    assert len(api.get(f"{V21}/os-security-groups?all_tenants=1").json()["security_groups"]) == 1
    assert len(Api(people.operator).get(f"{V21}/os-security-groups?all_tenants=1").json()["security_groups"]) == 3


def bodies() -> dict[str, dict[str, Any]]:
    rule = {"ip_protocol": "tcp", "from_port": "80", "to_port": 90, "cidr": "192.0.2.0/24"}
    return {"group": {"name": " web ", "description": "d"}, "rule": rule}


def test_security_groups_are_made_changed_and_deleted(api: Api, people: People) -> None:
    path, body = f"{V21}/os-security-groups", {"security_group": bodies()["group"]}
    answer = api.post(path, body)
    assert answer.status_code == 200, answer.content
    made = answer.json()["security_group"]
    assert (made["name"], made["description"], made["rules"]) == (" web ", "d", [])
    assert api.get(f"{path}/{made['id']}").json()["security_group"]["name"] == " web "
    one, change = f"{path}/{made['id']}", {"security_group": {"name": "other", "description": "e"}}
    assert api.put(one, change).json()["security_group"]["name"] == "other"
    assert Api(people.bob).put(one, change).status_code == 403
    assert Api(people.charlie).put(one, change).status_code == 404
    for wrong in ({}, {"security_group": {"name": "x"}}, {"security_group": {"name": 1, "description": "d"}}):
        assert api.post(path, wrong).status_code == 400
    assert api.post(path, {"security_group": {"name": "default", "description": "d"}}).status_code == 400
    assert api.put(one, change, **at("2.36")).status_code == 404
    assert api.delete(one).status_code == 202
    assert api.delete(one).status_code == 404


def test_rules_of_security_groups_are_made_and_deleted(api: Api, people: People) -> None:
    path = f"{V21}/os-security-group-rules"
    group = str(network.create_security_group(people.alice.project_id, "web").id)
    office = str(network.create_security_group(people.alice.project_id, "office").id)

    def add(**values: Any) -> Any:
        return api.post(path, {"security_group_rule": {"parent_group_id": group} | values})

    made = add(**bodies()["rule"]).json()["security_group_rule"]
    assert (made["from_port"], made["to_port"], made["ip_range"], made["group"]) == (
        80,
        90,
        {"cidr": "192.0.2.0/24"},
        {},
    )
    assert add(**bodies()["rule"]).status_code == 400
    given = add(ip_protocol="tcp", from_port=1, to_port=2, cidr="10.2.3.124/24", unknown=1).json()
    assert given["security_group_rule"]["ip_range"] == {"cidr": "10.2.3.124/24"}
    assert add(**bodies()["rule"], parent_group_id="invalid").status_code == 400
    assert add(**bodies()["rule"], parent_group_id=NOWHERE).status_code == 404
    ping = add(ip_protocol="ICMP", from_port=-1, to_port=-1).json()["security_group_rule"]
    assert (ping["from_port"], ping["ip_range"]) == (-1, {"cidr": "0.0.0.0/0"})
    of_group = add(group_id=office, ip_protocol="tcp").json()["security_group_rule"]
    assert (of_group["group"]["name"], of_group["from_port"], of_group["to_port"]) == ("office", 1, 65535)
    for wrong in (
        {"ip_protocol": "tcp"},
        {"cidr": "192.0.2.0/24"},
        {"ip_protocol": "gre", "from_port": 1, "to_port": 1},
        {"ip_protocol": "tcp", "from_port": 2, "to_port": 1},
        {"ip_protocol": "tcp", "from_port": 1, "to_port": 2, "cidr": "192.0.2.0/33"},
        {"ip_protocol": "tcp", "from_port": "x", "to_port": 2},
    ):
        assert add(**wrong).status_code == 400, wrong
    assert add(group_id=str(people.alice.user_id)).status_code == 404
    assert Api(people.charlie).delete(f"{path}/{made['id']}").status_code == 404
    assert Api(people.bob).delete(f"{path}/{made['id']}").status_code == 403
    assert api.delete(f"{path}/{made['id']}").status_code == 202
    assert api.delete(f"{path}/{made['id']}").status_code == 404


def external(people: People, name: str = "public", cidr: str = "203.0.113.0/29") -> Network:
    made = network.create_network(people.operator.project_id, name, external=True)
    network.create_subnet(made, cidr, enable_dhcp=False)
    return made


@pytest.mark.slow
def test_floating_ips_are_taken_from_pools_and_given_back(api: Api, people: People) -> None:
    path = f"{V21}/os-floating-ips"
    assert api.post(path, {}).status_code == 404
    external(people)
    external(people, "other", "198.51.100.0/24")
    pools = api.get(f"{V21}/os-floating-ip-pools").json()["floating_ip_pools"]
    assert pools == [{"name": "other"}, {"name": "public"}]
    made = api.post(path, {"pool": "public"}).json()["floating_ip"]
    assert made == {"id": made["id"], "ip": made["ip"], "pool": "public", "fixed_ip": None, "instance_id": None}
    assert made["ip"].startswith("203.0.113.")
    assert api.post(path, {"pool": "nothing"}).status_code == 404
    assert api.get(path).json()["floating_ips"] == [made]
    assert api.get(f"{path}/{made['id']}").json()["floating_ip"] == made
    assert Api(people.charlie).get(path).json()["floating_ips"] == []
    assert Api(people.charlie).delete(f"{path}/{made['id']}").status_code == 404
    assert Api(people.bob).delete(f"{path}/{made['id']}").status_code == 403
    set_limits(people.alice.project_id, {"floatingips": 1})
    assert api.post(path, {"pool": "other"}).status_code == 403
    assert api.delete(f"{path}/{made['id']}").status_code == 202
    assert api.get(f"{path}/{made['id']}").status_code == 404
    assert api.post(path).json()["floating_ip"]["pool"] == "other"
    set_limits(people.alice.project_id, {"floatingips": 50})
    while (answer := api.post(path, {"pool": "public"})).status_code == 200:
        pass
    assert (answer.status_code, "No more floating IPs" in answer.json()["itemNotFound"]["message"]) == (404, True)


def test_images_are_those_of_the_image_api(api: Api, people: People) -> None:
    image = make_image(people.alice, "mine", min_disk=2, min_ram=64, properties={"colour": "red"})
    theirs = make_image(people.charlie, "theirs")
    [brief] = api.get(f"{V21}/images").json()["images"]
    assert set(brief) == {"id", "name", "links"}
    assert [link["rel"] for link in brief["links"]] == ["self", "bookmark", "alternate"]
    [shown] = api.get(f"{V21}/images/detail").json()["images"]
    assert shown["id"] == str(image.id)
    assert shown["metadata"] == {"colour": "red"}
    assert (shown["status"], shown["progress"], shown["minDisk"], shown["minRam"]) == ("ACTIVE", 100, 2, 64)
    assert shown["OS-EXT-IMG-SIZE:size"] == 5
    assert shown["created"].endswith("Z")
    assert api.get(f"{V21}/images/{image.id}").json() == {"image": shown}
    missing = api.get(f"{V21}/images/{theirs.id}")
    assert (missing.status_code, missing.json()["itemNotFound"]["message"]) == (404, "Image not found.")


def test_a_snapshot_names_its_server(api: Api, people: People) -> None:
    properties = {"instance_uuid": "s1", "auto_disk_config": "True"}
    image = make_image(people.alice, "snap", status="queued", size=None, properties=properties)
    shown = api.get(f"{V21}/images/{image.id}").json()["image"]
    assert (shown["status"], shown["progress"], shown["OS-DCF:diskConfig"]) == ("SAVING", 25, "AUTO")
    assert (shown["server"]["id"], len(shown["server"]["links"])) == ("s1", 2)


@each_row(
    ("query", "expected"),
    [
        ("name=a", ["a"]),
        ("status=ACTIVE", ["b", "a"]),
        ("minDisk=3", ["c", "b"]),
        ("minRam=0&limit=1", ["c"]),
        ("changes-since=2001-01-01T00:00:00Z", ["c", "b", "a"]),
        ("changes-since=2190-01-01T00:00:00Z", []),
        ("colour=red", ["c", "b", "a"]),
    ],
)
def test_images_are_filtered(api: Api, people: People, query: str, expected: list[str]) -> None:
    for name, disk in (("a", 1), ("b", 3), ("c", 4)):
        make_image(people.alice, name, min_disk=disk, status="queued" if name == "c" else "active")
    answer = api.get(f"{V21}/images?{query}")
    assert answer.status_code == 200, answer.content
    assert [image["name"] for image in answer.json()["images"]] == expected
    assert ("images_links" in answer.json()) == ("limit" in query)


@each_row(
    "query",
    ["limit=x", "minRam=much", "marker=nothing", "changes-since=yesterday", "changes-since=0001-01-01T00:00:00Z"],
)
def test_wrong_image_filters_are_400(api: Api, query: str) -> None:
    assert api.get(f"{V21}/images?{query}").status_code == 400


@each_row(("version", "there"), [("2.1", True), ("2.36", True), ("2.38", True), ("2.39", False)])
def test_image_metadata_is_read_up_to_2_38(api: Api, people: People, version: str, there: bool) -> None:
    image = make_image(people.alice, "mine", properties={"colour": "red"})
    path = f"{V21}/images/{image.id}/metadata"
    whole, one = api.get(path, **at(version)), api.get(f"{path}/colour", **at(version))
    if not there:
        assert {whole.status_code, one.status_code} == {404}
        return
    assert whole.json() == {"metadata": {"colour": "red"}}
    assert one.json() == {"meta": {"colour": "red"}}
    assert api.get(f"{path}/size", **at(version)).status_code == 404


def test_image_metadata_is_changed(api: Api, people: People) -> None:
    image = make_image(people.alice, "mine", properties={"colour": "red"})
    path = f"{V21}/images/{image.id}/metadata"
    assert api.post(path, {"metadata": {"size-class": "m"}}).json() == {
        "metadata": {"colour": "red", "size-class": "m"}
    }
    assert api.put(f"{path}/colour", {"meta": {"colour": "blue"}}).json() == {"meta": {"colour": "blue"}}
    assert api.put(f"{path}/other", {"meta": {"colour": "blue"}}).status_code == 400
    assert api.put(path, {"metadata": {"colour": "green"}}).json() == {"metadata": {"colour": "green"}}
    assert api.delete(f"{path}/colour").status_code == 204
    assert api.delete(f"{path}/colour").status_code == 404
    assert api.get(path).json() == {"metadata": {}}


def test_image_metadata_is_nothing_but_properties(api: Api, people: People) -> None:
    image = make_image(people.alice, "mine")
    path = f"{V21}/images/{image.id}/metadata"
    for name in ("visibility", "protected", "status", "owner", "name"):
        assert api.post(path, {"metadata": {name: "public"}}).status_code == 400
    assert Api(people.charlie).post(path, {"metadata": {"a": "b"}}).status_code == 404
    assert Api(people.bob).post(path, {"metadata": {"a": "b"}}).status_code == 403


def test_an_image_is_deleted_by_its_project_alone(api: Api, people: People) -> None:
    image = make_image(people.alice, "mine")
    path = f"{V21}/images/{image.id}"
    assert Api(people.bob).delete(path).status_code == 403
    assert Api(people.charlie).delete(path).status_code == 404
    assert api.delete(path).status_code == 204
    assert api.get(path).status_code == 404


@pytest.mark.slow
@pytest.mark.parametrize("path", ["images/detail", "os-networks", "os-security-groups", "os-floating-ips"])
def test_lists_cost_the_same_whatever_their_size(api: Api, people: People, path: str) -> None:
    counts, pool = [], external(people, cidr="203.0.113.0/24")
    for more in (1, 8):
        for number in range(more):
            make_image(people.alice, f"{more}-{number}")
            network.create_network(people.alice.project_id, f"{more}-{number}")
            group = network.ensure_default_security_group(people.alice.project_id)
            network.allow_ingress(group, "tcp", 22 + number)
            network.create_floating_ip(people.alice.project_id, pool)
        with CaptureQueriesContext(connection) as captured:
            assert api.get(f"{V21}/{path}").status_code == 200
        counts.append(len(captured))
    assert counts[0] == counts[1]
