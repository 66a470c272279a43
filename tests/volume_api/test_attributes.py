"""Each answer has the attributes that Cinder gives for that operation and version, and no others; so for errors."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from provisioning.volumes.models import Volume
from tests.support.tables import each_row
from tests.volume_api.conftest import V3, World, at

pytestmark = pytest.mark.django_db
ACCESS = "os-volume-type-access:is_public"
PLAIN = {
    "id", "status", "size", "availability_zone", "created_at", "updated_at", "name", "description", "volume_type",
    "snapshot_id", "source_volid", "metadata", "links", "user_id", "bootable", "encrypted", "replication_status",
    "consistencygroup_id", "multiattach", "attachments",
}  # fmt: skip
OF_3_70 = {"group_id", "shared_targets", "service_uuid", "volume_type_id", "consumes_quota"}
OPERATORS_OF_3_70 = {"provider_id", "cluster_name"}
ADDED = {"os-vol-host-attr:host", "os-vol-mig-status-attr:migstat", "os-vol-mig-status-attr:name_id"}
MEMBERS_SEE = {"os-vol-tenant-attr:tenant_id", "volume_image_metadata"}
TYPE = {"id", "name", "is_public", "description"}


@each_row(
    "operation, version, members, operators",
    [
        ("create", "3.0", PLAIN, PLAIN | {"migration_status"}),
        ("update", "3.0", PLAIN, PLAIN | {"migration_status"}),
        ("show", "3.0", PLAIN | MEMBERS_SEE, PLAIN | MEMBERS_SEE | ADDED | {"migration_status"}),
        ("detail", "3.0", PLAIN | MEMBERS_SEE, PLAIN | MEMBERS_SEE | ADDED | {"migration_status"}),
        ("create", "3.70", PLAIN | OF_3_70, PLAIN | OF_3_70 | OPERATORS_OF_3_70 | {"migration_status"}),
        (
            "show",
            "3.70",
            PLAIN | OF_3_70 | MEMBERS_SEE,
            PLAIN | OF_3_70 | OPERATORS_OF_3_70 | MEMBERS_SEE | ADDED | {"migration_status"},
        ),
    ],
)
def test_attributes_of_volumes(
    world: World, operation: str, version: str, members: set[str], operators: set[str]
) -> None:
    for api, expected in ((world.alice, members), (world.operator, operators)):
        requested = {"volume": {"size": 1, "name": "v"}}
        made = api.post(f"{V3}/volumes", requested, **at(version)).json()["volume"]
        where = f"{V3}/volumes/{made['id']}"
        Volume.objects.filter(id=made["id"]).update(image_metadata={"os": "linux"})
        result = {
            "create": lambda made=made: made,
            "update": lambda api=api, where=where: api.put(where, {"volume": {"name": "w"}}, **at(version)).json()[
                "volume"
            ],
            "show": lambda api=api, where=where: api.get(where, **at(version)).json()["volume"],
            "detail": lambda api=api: api.get(f"{V3}/volumes/detail", **at(version)).json()["volumes"][0],
        }[operation]()
        assert result.keys() == expected


def test_attributes_of_types(world: World) -> None:
    made = world.operator.post(f"{V3}/types", {"volume_type": {"name": "t"}}).json()["volume_type"]
    where = f"{V3}/types/{made['id']}"
    assert made.keys() == TYPE | {"extra_specs", ACCESS}
    changed = world.operator.put(where, {"volume_type": {"name": "u"}}).json()["volume_type"]
    assert changed.keys() == TYPE | {"extra_specs"}
    for answer in (
        world.operator.get(where).json()["volume_type"],
        world.operator.get(f"{V3}/types?name=u").json()["volume_types"][0],
    ):
        assert answer.keys() == TYPE | {"extra_specs", "qos_specs_id", ACCESS}


@each_row(
    "method, path, body, code",
    [
        *(
            ("get", f"{path}?marker={uuid.UUID(int=7)}", None, 404)
            for path in (
                "volumes",
                "volumes/detail",
                "snapshots",
                "snapshots/detail",
                "types",
                "backups",
                "group_types",
            )
        ),
        ("get", "volumes?marker=no-id", None, 404),
        ("post", "snapshots", {"snapshot": {"volume_id": None}}, 404),
        ("post", "snapshots", {"snapshot": {"name": "s"}}, 400),
        ("put", "os-services/freeze", {"host": "nowhere"}, 400),
        ("put", "os-services/thaw", {"host": "nowhere"}, 400),
        ("put", "os-services/enable", {"host": "nowhere", "binary": "cinder-volume"}, 404),
    ],
)
def test_errors_have_the_codes_of_cinder(world: World, method: str, path: str, body: Any, code: int) -> None:
    arguments = [] if body is None else [body]
    assert getattr(world.operator, method)(f"{V3}/{path}", *arguments, **at("3.70")).status_code == code


def test_what_pools_say_is_what_types_may_ask_for(world: World) -> None:
    pool = world.operator.get(f"{V3}/scheduler-stats/get_pools?detail=true").json()["pools"][0]["capabilities"]
    assert (pool["vendor_name"], pool["multiattach"], pool["thin_provisioning_support"]) == ("Novella", True, True)
    specs = {name: pool[name] for name in ("storage_protocol", "vendor_name", "driver_version")}
    specs |= {"thin_provisioning_support": "<is> True", "capabilities:multiattach": "<is> True"}
    world.operator.post(f"{V3}/types", {"volume_type": {"name": "asks", "extra_specs": specs}})
    world.operator.post(f"{V3}/types", {"volume_type": {"name": "odd", "extra_specs": {"vendor_name": "Other"}}})
    assert world.show(world.make(volume_type="asks"))["status"] == "available"
    assert world.show(world.make(volume_type="odd"))["status"] == "error"


def test_defaults_of_a_new_type_are_those_of_new_projects(world: World) -> None:
    world.operator.post(f"{V3}/types", {"volume_type": {"name": "gold"}})
    limits = {"volumes_gold": 3, "gigabytes_gold": 9}
    changed = world.operator.put(f"{V3}/os-quota-class-sets/default", {"quota_class_set": limits})
    shown = [
        changed.json()["quota_class_set"],
        world.operator.get(f"{V3}/os-quota-class-sets/default").json()["quota_class_set"],
        world.operator.get(f"{V3}/os-quota-sets/{world.people.alice.project_id}/defaults").json()["quota_set"],
        world.operator.get(f"{V3}/os-quota-sets/{world.people.alice.project_id}").json()["quota_set"],
    ]
    assert [{name: each[name] for name in limits} for each in shown] == [limits] * 4
