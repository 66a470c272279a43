"""What lists of servers may be narrowed and sorted by, by whom, and from which microversion on."""

from __future__ import annotations

import itertools
import uuid
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from provisioning.compute.models import Instance
from provisioning.hosts.models import Host
from provisioning.network.models import FixedIP, Network, Port, Subnet
from tests.compute_api.conftest import EPOCH, FLAVOR, V21, put_server
from tests.support.cast import Api, People
from tests.support.ports import guest_ports
from tests.support.standing import derived, standing
from tests.support.tables import each_row

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases("sql")]


def at(version: str) -> dict[str, str]:
    return {"OpenStack_API_Version": f"compute {version}"}


def names(api: Api, version: str = "2.96", **query: Any) -> list[str]:
    """The names of the servers that pass, in the order of their names; several values for a list."""
    sent = urlencode({key.replace("__", "-"): value for key, value in query.items()}, doseq=True)
    answer = api.get(f"{V21}/servers?{sent}", **at(version))
    assert answer.status_code == 200, answer.content
    return sorted(server["name"] for server in answer.json()["servers"])


@pytest.fixture
@derived
def alice_api(people: People) -> Api:
    return Api(people.alice)


@pytest.fixture
@derived
def admin(people: People) -> Api:
    return Api(people.operator)


@pytest.fixture
@standing
def host(people: People) -> Host:
    return Host.objects.create(name="h1", hypervisor_hostname="node1.example", availability_zone="north")


FILTERS: dict[str, tuple[dict[str, Any], str]] = {
    "availability_zone": ({"availability_zone": "south"}, "south"),
    "config_drive": ({"config_drive": True}, "true"),
    "key_name": ({"key_name": "laptop"}, "laptop"),
    "created_at": ({"age": 90}, (EPOCH + timedelta(seconds=90)).isoformat()),
    "launched_at": ({"launched_at": EPOCH}, "2026-01-01T00:00:00Z"),
    "terminated_at": ({"terminated_at": EPOCH}, "2026-01-01 00:00:00"),
    "power_state": ({"power_state": 4}, "4"),
    "task_state": ({"task_state": "rebooting"}, "rebooting"),
    "vm_state": ({"vm_state": "stopped"}, "stopped"),
    "progress": ({"vm_state": "stopped"}, "0"),
    "user_id": ({"user_id": uuid.UUID(int=5)}, uuid.UUID(int=5).hex),
}
"""Filters that everybody may use from 2.83 on: what one server has that the other has not, and the value."""
OF_OPERATORS: dict[str, tuple[dict[str, Any], str]] = {
    **FILTERS,
    "hostname": ({"hostname": "special"}, "special"),
    "host": ({"host": True}, "h1"),
    "node": ({"host": True}, "node1"),
    "kernel_id": ({"image_properties": {"kernel_id": "k-1"}}, "k-1"),
    "ramdisk_id": ({"image_properties": {"ramdisk_id": "r-1"}}, "^r-"),
    "description": ({"description": "the database"}, "database"),
    "display_description": ({"description": "the database"}, "base$"),
    "display_name": ({"name": "chosen"}, "cho"),
    "access_ip_v4": ({"access_ip_v4": "192.0.2.7"}, "192.0.2.7"),
    "access_ip_v6": ({"access_ip_v6": "2001:db8::7"}, "db8"),
    "auto_disk_config": ({"disk_config": "AUTO"}, "1"),
    "launch_index": ({"launch_index": 3}, "3"),
    "locked_by": ({"locked": True}, "owner"),
    "image_ref": ({"image_id": uuid.UUID(int=9)}, str(uuid.UUID(int=9))),
    "uuid": ({"id": uuid.UUID(int=11)}, str(uuid.UUID(int=11))),
}


def two(people: People, columns: dict[str, Any], host: Host) -> None:
    changes = {"name": "chosen", **columns}
    if changes.get("host") is True:
        changes["host"] = host
    name = changes.pop("name")
    put_server(people.operator, "other", availability_zone="west")
    put_server(people.operator, name, **{"availability_zone": "west", **changes})
    put_server(people.alice, "other", availability_zone="west")
    put_server(people.alice, name, **{"availability_zone": "west", **changes, "id": uuid.uuid4()})


@pytest.mark.slow
@each_row("name", OF_OPERATORS)
def test_operators_filter_by_every_column(people: People, admin: Api, host: Host, name: str) -> None:
    columns, value = OF_OPERATORS[name]
    two(people, columns, host)
    assert names(admin, "2.1", **{name: value}) == ["chosen"]
    assert names(admin, **{name: value}) == ["chosen"]
    assert names(admin, **{name: "nonsense"}) == []


@each_row("name", FILTERS)
@pytest.mark.both_databases
def test_what_everybody_may_filter_by_from_2_83(people: People, alice_api: Api, host: Host, name: str) -> None:
    columns, value = FILTERS[name]
    two(people, columns, host)
    assert names(alice_api, "2.82", **{name: value}) == ["chosen", "other"], "ignored"
    assert names(alice_api, "2.83", **{name: value}) == ["chosen"]


@each_row("name", ["host", "node", "description", "display_name", "uuid", "launch_index", "kernel_id"])
@pytest.mark.both_databases
def test_what_only_operators_may_filter_by_is_ignored_from_others(
    people: People, alice_api: Api, host: Host, name: str
) -> None:
    columns, value = OF_OPERATORS[name]
    two(people, columns, host)
    assert names(alice_api, **{name: value}) == ["chosen", "other"]


@each_row(
    ("name", "since", "value"),
    [("hostname", 90, "special"), ("ip6", 5, "2001:db8::5"), ("locked", 73, "true"), ("tags", 26, "red")],
)
@pytest.mark.both_databases
def test_filters_count_from_their_microversion(
    people: People, alice_api: Api, name: str, since: int, value: str
) -> None:
    put_server(people.alice, "other")
    chosen = put_server(people.alice, "chosen", locked=True, tags=["red"], locked_reason=None)
    type(chosen).objects.filter(id=chosen.id).update(hostname="special")
    _give_address(people, chosen.id, "2001:db8::5", 6)
    assert names(alice_api, f"2.{since - 1}", **{name: value}) == ["chosen", "other"]
    assert names(alice_api, f"2.{since}", **{name: value}) == ["chosen"]


def _give_address(people: People, server: uuid.UUID, address: str, version: int) -> None:
    project = people.alice.project_id
    network = Network.objects.create(project_id=project, name="net", bridge=uuid.uuid4().hex[:15])
    subnet = Subnet.objects.create(
        project_id=project, network=network, cidr="::/0" if version == 6 else "0.0.0.0/0", ip_version=version
    )
    port = Port.objects.create(
        project_id=project, network=network, device_id=server, mac_address=f"02:{uuid.uuid4()}"[:17]
    )
    FixedIP.objects.create(port=port, subnet=subnet, address=address, number=guest_ports().count())


def test_addresses_are_patterns(people: People, alice_api: Api) -> None:
    for name, address in (("a", "10.0.0.5"), ("b", "10.0.0.55"), ("c", "10.1.0.5")):
        _give_address(people, put_server(people.alice, name).id, address, 4)
    assert names(alice_api, "2.1", ip="^10.0.0.5$") == ["a"]
    assert names(alice_api, "2.1", ip="10.0.0.5") == ["a", "b"]
    assert names(alice_api, "2.1", ip="10\\.") == ["a", "b", "c"]
    assert names(alice_api, "2.5", ip6="10") == []


@each_row(
    ("pattern", "found"),
    [
        ("web", ["web-1", "web-2"]),
        ("WEB", ["web-1", "web-2"]),
        ("^eb", []),
        ("^web-1$", ["web-1"]),
        ("1$", ["web-1"]),
        ("web-[12]", ["web-1", "web-2"]),
        ("^(web|db)-2", ["web-2"]),
        ("^.*-2.*$", ["web-2"]),
        ("w.b", ["web-1", "web-2"]),
        ("100\\%", ["100%"]),
        ("%", ["100%"]),
        ("_", []),
    ],
)
def test_names_are_patterns(people: People, alice_api: Api, pattern: str, found: list[str]) -> None:
    for name in ("web-1", "web-2", "100%"):
        put_server(people.alice, name)
    assert names(alice_api, "2.1", name=pattern) == found


@pytest.mark.both_databases
@each_row(
    ("pattern", "found"),
    [
        ("(.|a)" * 49 + "b", ["aaaa"]),
        ("(.|a)" * 49 + "c", []),
        ("(a|a|a|a|a|a|a|a|a|a)" * 10 + "b$", ["aaaa"]),
        (r"e\W\w", ["one\ntwo"]),
        ("ä.ö", ["ä-ö"]),
        ("one.two|b$", ["aaaa", "one\ntwo"]),
    ],
)
def test_a_pattern_takes_no_longer_than_its_text(
    people: People, alice_api: Api, database: str, pattern: str, found: list[str]
) -> None:
    for name in ("aaaa", "ä-ö", "one\ntwo"):
        put_server(people.alice, name.replace("aaaa", "a" * 254 + "b"))
    there = [name.replace("a" * 254 + "b", "aaaa") for name in names(alice_api, "2.1", name=pattern)]
    assert there == found


@each_row("pattern", ["(", "(a+)+$", "a**", "[", "x{999}", "(?i)a", "\\1", "a.*b.*c.*d", "[[a]", "." * 256])
@pytest.mark.both_databases
def test_patterns_out_of_bounds_are_refused(people: People, alice_api: Api, pattern: str) -> None:
    put_server(people.alice, "a" * 200)
    answer = alice_api.get(f"{V21}/servers?{urlencode({'name': pattern})}")
    assert answer.status_code == 400
    assert "name" in answer.json()["badRequest"]["message"]


def test_statuses(people: People, alice_api: Api, admin: Api) -> None:
    states = {
        "active": ("active", None),
        "rebooting": ("active", "rebooting"),
        "building": ("building", "spawning"),
        "off": ("stopped", None),
        "soft": ("soft-delete", None),
        "gone": ("deleted", None),
        "resized": ("resized", None),
    }
    for person in (people.alice, people.operator):
        for name, (vm_state, task_state) in states.items():
            put_server(person, name, vm_state=vm_state, task_state=task_state)
    assert names(alice_api, "2.1", status="ACTIVE") == ["active"]
    assert names(alice_api, "2.1", status="active") == ["active"]
    assert names(alice_api, "2.1", status=["REBOOT", "SHUTOFF"]) == ["off", "rebooting"]
    assert names(alice_api, "2.1", status="VERIFY_RESIZE") == ["resized"]
    assert names(alice_api, "2.1", status="SOFT_DELETED") == ["soft"]
    assert names(alice_api, "2.1", status="MIGRATING") == []
    assert names(alice_api, "2.1") == ["active", "building", "off", "rebooting", "resized"]
    refused = alice_api.get(f"{V21}/servers?status=DELETED")
    assert refused.status_code == 403
    assert refused.json()["forbidden"]["message"] == "Only administrators may list deleted instances"
    assert names(admin, "2.1", status="DELETED") == ["gone"]


def test_an_unknown_status_is_nothing_and_from_2_38_wrong(people: People, alice_api: Api) -> None:
    put_server(people.alice)
    assert names(alice_api, "2.37", status="MERRY") == []
    answer = alice_api.get(f"{V21}/servers?status=MERRY", **at("2.38"))
    assert (answer.status_code, answer.json()["badRequest"]["message"]) == (400, "Invalid status value")


def test_deleted_ones_are_for_operators(people: People, alice_api: Api, admin: Api) -> None:
    for person in (people.alice, people.operator):
        put_server(person, "here")
        put_server(person, "gone", vm_state="deleted")
        put_server(person, "waiting", vm_state="soft-delete")
    assert names(alice_api, "2.1", deleted="true") == ["here"], "ignored"
    assert names(alice_api, "2.1", deleted="nonsense") == ["here"]
    assert names(admin, "2.1", deleted="true") == ["gone", "waiting"]
    assert names(admin, "2.1", deleted="true", soft_deleted="false") == ["gone"]
    assert names(admin, "2.1", deleted="nonsense") == ["here"]
    assert names(admin, "2.1", soft_deleted="true") == ["here", "waiting"]
    assert len(names(admin, "2.1", deleted="true", all_tenants="1")) == 4


def test_changes_show_deleted_ones_to_everybody(people: People, alice_api: Api) -> None:
    put_server(people.alice, "old", age=0)
    put_server(people.alice, "gone", age=100, vm_state="deleted")
    put_server(people.alice, "new", age=200)
    since, before = ((EPOCH + timedelta(seconds=each)).isoformat() for each in (100, 150))
    assert names(alice_api, "2.1", changes__since=since) == ["gone", "new"]
    assert names(alice_api, "2.65", changes__before=before) == ["new", "old"], "unknown, and ignored"
    assert names(alice_api, "2.66", changes__before=before) == ["gone", "old"]
    assert names(alice_api, "2.66", changes__before=before, changes__since=since) == ["gone"]
    Instance.objects.filter(name="gone").update(updated_at=EPOCH + timedelta(seconds=100.7))
    assert names(alice_api, "2.66", changes__before=since) == ["gone", "old"], "times are shown without fractions"
    answer = alice_api.get(
        f"{V21}/servers?{urlencode({'changes-since': before, 'changes-before': since})}", **at("2.66")
    )
    assert answer.status_code == 400
    assert "less than or equal" in answer.json()["badRequest"]["message"]


@each_row(
    ("query", "found"),
    [
        ({"tags": "red"}, ["both", "red"]),
        ({"tags": "red,blue"}, ["both"]),
        ({"tags-any": "red,blue"}, ["blue", "both", "red"]),
        ({"not-tags": "red,blue"}, ["blue", "none", "red"]),
        ({"not-tags-any": "red,blue"}, ["none"]),
        ({"tags": "red", "not-tags": "blue"}, ["red"]),
        ({"tags": "green"}, []),
    ],
)
def test_tags(people: People, alice_api: Api, query: dict[str, str], found: list[str]) -> None:
    for name, tags in (("red", ["red"]), ("blue", ["blue"]), ("both", ["red", "blue"]), ("none", [])):
        put_server(people.alice, name, tags=tags)
    assert names(alice_api, "2.26", **query) == found
    assert len(names(alice_api, "2.25", **query)) == 4


def test_locked(people: People, alice_api: Api) -> None:
    put_server(people.alice, "locked", locked=True)
    put_server(people.alice, "open")
    assert names(alice_api, "2.73", locked="false") == ["open"]
    assert alice_api.get(f"{V21}/servers?locked=perhaps", **at("2.73")).status_code == 400


def test_projects_count_with_all_tenants_only(people: People, admin: Api, alice_api: Api) -> None:
    put_server(people.alice, "alices")
    put_server(people.charlie, "charlies")
    put_server(people.operator, "operators")
    project = people.alice.project_id.hex
    for name in ("project_id", "tenant_id"):
        assert names(admin, **{name: project}) == ["operators"]
        assert names(admin, **{name: project, "all_tenants": "1"}) == ["alices"]
        assert names(admin, **{name: "nonsense", "all_tenants": "true"}) == []
        assert names(alice_api, **{name: people.charlie.project_id.hex}) == ["alices"]
    assert names(admin, all_tenants="") == ["alices", "charlies", "operators"]
    assert names(admin, all_tenants="0") == ["operators"]
    assert admin.get(f"{V21}/servers?all_tenants=perhaps").status_code == 400
    assert alice_api.get(f"{V21}/servers?all_tenants=1").status_code == 403


def test_image_and_flavor_are_ids_or_links(people: People, alice_api: Api) -> None:
    put_server(people.alice, "chosen", image_id=uuid.UUID(int=9), flavor=FLAVOR | {"flavorid": "big"})
    put_server(people.alice, "other")
    for image in (str(uuid.UUID(int=9)), f"http://cloud/images/{uuid.UUID(int=9)}"):
        assert names(alice_api, "2.1", image=image) == ["chosen"]
    assert names(alice_api, "2.1", flavor="big") == names(alice_api, "2.1", flavor="http://x/flavors/big") == ["chosen"]
    assert names(alice_api, "2.1", flavor="none") == names(alice_api, "2.1", image="none") == []


def test_unknown_parameters_are_ignored_and_from_2_75_wrong(people: People, alice_api: Api, admin: Api) -> None:
    put_server(people.alice)
    assert names(alice_api, "2.74", favourite="1") == ["web"]
    for api in (alice_api, admin):
        answer = api.get(f"{V21}/servers?favourite=1", **at("2.75"))
        assert answer.status_code == 400
        assert "favourite" in answer.json()["badRequest"]["message"]
    for name in ("metadata", "_id"):
        assert admin.get(f"{V21}/servers?{name}=1").status_code == 400
        assert alice_api.get(f"{V21}/servers?{name}=1").status_code == 200


@each_row("name", ["name", "image", "flavor", "user_id", "tags", "changes-since", "ip", "marker", "limit"])
@each_row("value", ["%00", "9" * 400, "'", "%F0%9F%98%80", "[]", "-1"])
@pytest.mark.slow
@pytest.mark.both_databases
def test_no_value_makes_a_500(people: People, alice_api: Api, admin: Api, name: str, value: str) -> None:
    put_server(people.alice)
    for api, version in itertools.product((alice_api, admin), ("2.1", "2.26", "2.96")):
        assert api.get(f"{V21}/servers/detail?{name}={value}", **at(version)).status_code in {200, 400}


# ----- the order ------------------------------------------------------------------------------------------------------


def in_order(api: Api, query: str, version: str = "2.96") -> list[str]:
    """The names over all pages of one server each."""
    path, result = f"{V21}/servers?limit=1&{query}", []
    for _ in range(10):
        answer = api.get(path, **at(version))
        assert answer.status_code == 200, answer.content
        body = answer.json()
        result += [server["name"] for server in body["servers"]]
        if "servers_links" not in body:
            return result
        following = body["servers_links"][0]["href"]
        path = following[following.index("/compute") :]
    raise AssertionError("the pages do not end")


@pytest.fixture
@standing
def three(people: People) -> None:
    put_server(people.operator, "a", age=3, description="z", key_name=None, launched_at=None, power_state=4)
    put_server(people.operator, "b", age=2, description=None, key_name="k", launched_at=EPOCH, power_state=1)
    put_server(people.operator, "c", age=1, description="y", key_name=None, launched_at=None, power_state=1)


@pytest.mark.slow
@each_row(
    ("query", "found"),
    [
        ("", "abc"),
        ("sort_dir=asc", "cba"),
        ("sort_key=display_name&sort_dir=asc", "abc"),
        ("sort_key=display_name", "cba"),
        ("sort_key=display_description&sort_dir=asc", "cab"),
        ("sort_key=display_description&sort_dir=desc", "bac"),
        ("sort_key=power_state&sort_key=display_name&sort_dir=asc&sort_dir=desc", "cba"),
        ("sort_key=power_state&sort_key=display_name&sort_dir=asc", "bca"),
        ("sort_key=launched_at&sort_key=created_at&sort_dir=asc", "bca"),
        ("sort_key=key_name&sort_key=created_at&sort_dir=asc&sort_dir=desc", "bac"),
        ("sort_key=instance_type_id&sort_key=display_name&sort_dir=asc", "abc"),
        ("sort_key=host&sort_key=node&sort_key=display_name&sort_dir=asc", "abc"),
        ("sort_key=memory_mb&sort_key=display_name&sort_dir=asc", "abc"),
        ("sort_key=progress&sort_key=kernel_id&sort_key=display_name&sort_dir=asc", "abc"),
    ],
)
def test_the_order_holds_over_pages(admin: Api, three: None, query: str, found: str) -> None:
    assert in_order(admin, query) == list(found)


@each_row(
    "key",
    [
        "access_ip_v4",
        "access_ip_v6",
        "auto_disk_config",
        "availability_zone",
        "config_drive",
        "created_at",
        "display_description",
        "display_name",
        "host",
        "hostname",
        "image_ref",
        "instance_type_id",
        "kernel_id",
        "key_name",
        "launch_index",
        "launched_at",
        "locked_by",
        "node",
        "power_state",
        "progress",
        "project_id",
        "ramdisk_id",
        "root_device_name",
        "task_state",
        "terminated_at",
        "updated_at",
        "user_id",
        "uuid",
        "vm_state",
        "locked",
    ],
)
@pytest.mark.slow
@pytest.mark.both_databases
def test_every_sort_key_of_the_reference_is_taken(admin: Api, three: None, key: str) -> None:
    for direction in ("asc", "desc"):
        assert sorted(in_order(admin, f"sort_key={key}&sort_dir={direction}")) == ["a", "b", "c"]


@pytest.mark.both_databases
def test_some_orders_are_for_operators(alice_api: Api, people: People) -> None:
    for key in ("host", "node"):
        answer = alice_api.get(f"{V21}/servers?sort_key={key}")
        assert answer.status_code == 403
        assert answer.json()["forbidden"]["message"] == f"Only administrators can sort servers by {key}"


def test_locked_sorts_from_2_73(admin: Api, people: People) -> None:
    put_server(people.operator, "locked", age=1, locked=True)
    put_server(people.operator, "open", age=2)
    query = "sort_key=locked&sort_dir=desc"
    assert in_order(admin, query, "2.72") == ["open", "locked"], "passed over: the newest first"
    assert in_order(admin, query, "2.73") == ["locked", "open"]


@each_row("query", ["sort_key=uuid&sort_dir=up", "sort_dir=asc&sort_dir=asc", "sort_key=color"])
@pytest.mark.both_databases
def test_a_wrong_order_is_400(alice_api: Api, query: str) -> None:
    assert alice_api.get(f"{V21}/servers?{query}").status_code == 400
