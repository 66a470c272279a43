"""What was removed from the Compute API, what this cloud does not offer, and the extensions' names."""

from __future__ import annotations

import uuid

import pytest

from portal.api.compute.proxies import base
from provisioning.compute.models import BlockDevice, Instance
from provisioning.hosts.models import Host
from provisioning.identity.services.assignments import assign_role
from provisioning.identity.services.roles import ensure_role
from tests.compute_api.conftest import V21, put_server
from tests.support.cast import Api, People
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
GONE = [
    (method, row.path.replace("<str:", "").replace(">", ""))
    for row in base.TABLE
    if row.call is base.GONE
    for method in row.methods.split()
]


def at(version: str) -> dict[str, str]:
    return {"OpenStack_API_Version": f"compute {version}"}


@pytest.mark.slow
@each_row(("method", "address"), GONE)
def test_what_was_removed_is_410_at_every_version(api: Api, method: str, address: str) -> None:
    for version in ("2.1", "2.35", "2.36", "2.96"):
        answer = api._send(method, f"{V21}/{address}", {} if method in ("POST", "PUT") else None, **at(version))
        assert answer.status_code == 410
        assert answer.json() == {
            "computeFault": {
                "code": 410,
                "message": "This resource is no longer available. No forwarding address is given.",
            }
        }


def test_methods_that_never_were_are_405(api: Api) -> None:
    assert api.delete(f"{V21}/os-agents").status_code == 405
    assert api.post(f"{V21}/os-fping", {}).status_code == 405


INFO = {"snapshot_id": "s", "type": "qcow2", "new_file": "f"}


@each_row(
    ("snapshot", "word"),
    [
        ({"volume_id": "v", "create_info": INFO}, "No volume Block Device Mapping with id v."),
        ({"volume_id": "v", "create_info": INFO | {"type": "raw"}}, "type"),
        ({"volume_id": "v"}, "create_info"),
        ({"create_info": INFO}, "volume_id"),
        ({"volume_id": "v", "create_info": INFO, "colour": 1}, "colour"),
    ],
)
def test_assisted_snapshots_need_a_volume(people: People, snapshot: dict[str, object], word: str) -> None:
    path = f"{V21}/os-assisted-volume-snapshots"
    answer = Api(people.operator).post(path, {"snapshot": snapshot})
    assert answer.status_code == 400
    assert word in answer.json()["badRequest"]["message"]
    assert Api(people.alice).post(path, {"snapshot": snapshot}).status_code == 403


@each_row(
    ("query", "word"),
    [
        ("", "delete_info"),
        ("?delete_info=nonsense", "delete_info"),
        ("?delete_info=[]", "delete_info"),
        ('?delete_info={"volume_id":5}', "volume_id"),
        ('?delete_info={"volume_id":"v"}', "No volume Block Device Mapping with id v."),
    ],
)
def test_assisted_deletions_need_a_volume(people: People, query: str, word: str) -> None:
    answer = Api(people.operator).delete(f"{V21}/os-assisted-volume-snapshots/s{query}")
    assert answer.status_code == 400
    assert word in answer.json()["badRequest"]["message"]


def test_snapshots_of_volumes_in_use_need_no_assistance(people: People) -> None:
    volume, instance = uuid.uuid4(), put_server(people.alice)
    BlockDevice.objects.create(instance=instance, volume_id=volume)
    ensure_role("service")
    assign_role(people.charlie.user, people.charlie.project, "service")
    for api in (Api(people.operator), Api(people.charlie)):
        path = f"{V21}/os-assisted-volume-snapshots"
        query = f'/{uuid.uuid4()}?delete_info={{"volume_id":"{volume}"}}'
        for host, task, message in (
            (None, None, "is not ready"),
            (Host.objects.first() or Host.objects.create(name="h1"), "rebooting", "task_state rebooting"),
            (Host.objects.first(), None, "Invalid volume: snapshots of"),
        ):
            Instance.objects.update(host=host, task_state=task)
            body = {"snapshot": {"volume_id": str(volume), "create_info": INFO}}
            for answer in (api.post(path, body), api.delete(path + query)):
                assert (answer.status_code, message in answer.json()["badRequest"]["message"]) == (400, True)


def test_extensions_are_listed_and_shown(api: Api) -> None:
    listed = api.get(f"{V21}/extensions").json()["extensions"]
    aliases = [each["alias"] for each in listed]
    assert aliases == sorted(aliases)
    assert {"os-keypairs", "os-flavor-extra-specs", "os-simple-tenant-usage", "NMN"} <= set(aliases)
    assert all(set(each) == {"alias", "name", "description", "namespace", "updated", "links"} for each in listed)
    shown = api.get(f"{V21}/extensions/os-keypairs", **at("2.96")).json()["extension"]
    assert shown in listed
    assert shown["name"] == "Keypairs"
    assert api.get(f"{V21}/extensions/os-unicorns").status_code == 404
