"""What belongs to a server: addresses, topology, password, volumes, security groups, and who sees them."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from provisioning.compute.models import Instance
from tests.compute_api.conftest import V21, launch, put_server
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db


def test_addresses_by_network(api: Api, cloud: Cloud, server: str) -> None:
    addresses = api.get(f"{V21}/servers/{server}/ips").json()["addresses"]
    assert list(addresses) == ["net"]
    [address] = addresses["net"]
    assert address.keys() == {"version", "addr"}
    assert api.get(f"{V21}/servers/{server}/ips/net").json() == {"net": [address]}
    missing = api.get(f"{V21}/servers/{server}/ips/other")
    assert missing.status_code == 404
    assert missing.json()["itemNotFound"]["message"] == "Instance is not a member of specified network"


def test_security_groups_of_its_ports(api: Api, cloud: Cloud) -> None:
    [group] = api.get(f"{V21}/servers/{launch(api, cloud)}/os-security-groups").json()["security_groups"]
    assert group.keys() == {"id", "name", "description", "tenant_id", "rules"}
    assert group["name"] == "default"


def test_topology_from_2_78(api: Api, people: People) -> None:
    path = f"{V21}/servers/{put_server(people.alice).id}/topology"
    assert api.get(path, OpenStack_API_Version="compute 2.77").status_code == 404
    answer = api.get(path, OpenStack_API_Version="compute 2.78")
    assert answer.json() == {"nodes": [], "pagesize_kb": None}


def test_the_password_that_the_guest_posted(api: Api, people: People) -> None:
    server = put_server(people.alice, password="c2VjcmV0")
    path = f"{V21}/servers/{server.id}/os-server-password"
    assert api.get(path).json() == {"password": "c2VjcmV0"}
    assert Api(people.bob).delete(path).status_code == 403
    assert api.delete(path).status_code == 204
    assert api.get(path).json() == {"password": ""}
    assert Instance.objects.get(id=server.id).password == ""


def test_no_volume_is_attached_and_none_can_be(api: Api, people: People) -> None:
    server = put_server(people.alice)
    path, volume = f"{V21}/servers/{server.id}/os-volume_attachments", str(uuid.uuid4())
    assert api.get(path).json() == {"volumeAttachments": []}
    body = {"volumeAttachment": {"volumeId": volume, "device": "/dev/vdb"}}
    attached = api.post(path, body)
    assert attached.status_code == 404
    assert attached.json()["itemNotFound"]["message"] == f"Volume {volume} could not be found."
    sentence = f"Instance {server.id} is not attached to volume {volume}"
    for answer in (
        api.get(f"{path}/{volume}"),
        api.delete(f"{path}/{volume}"),
    ):
        assert (answer.status_code, answer.json()["itemNotFound"]["message"]) == (404, sentence)
    assert api.put(f"{path}/{volume}", {"volumeAttachment": {"volumeId": volume}}).status_code == 403, "an operator's"


@each_row(
    ("method", "field", "since", "value"),
    [
        ("post", "tag", 49, "data"),
        ("post", "delete_on_termination", 79, True),
        ("put", "delete_on_termination", 85, True),
        ("put", "tag", 85, "data"),
    ],
)
def test_attachments_have_fields_from_their_microversion(
    api: Api, people: People, method: str, field: str, since: int, value: Any
) -> None:
    volume = str(uuid.uuid4())
    path = f"{V21}/servers/{put_server(people.alice).id}/os-volume_attachments"
    body = {"volumeAttachment": {"volumeId": volume, field: value}}
    where = path if method == "post" else f"{path}/{volume}"
    send = getattr(api, method)
    assert send(where, body, OpenStack_API_Version=f"compute 2.{since - 1}").status_code == 400
    assert send(where, body, OpenStack_API_Version=f"compute 2.{since}").status_code == 404


PARTS = [
    ("get", "metadata"),
    ("get", "tags"),
    ("put", "tags/a"),
    ("delete", "tags"),
    ("get", "ips"),
    ("get", "topology"),
    ("get", "os-server-password"),
    ("delete", "os-server-password"),
    ("get", "os-security-groups"),
    ("get", "os-volume_attachments"),
    ("delete", f"os-volume_attachments/{uuid.UUID(int=1)}"),
    ("get", "os-instance-actions"),
]


@each_row(("method", "part"), PARTS)
def test_the_parts_of_another_projects_server_do_not_exist(people: People, method: str, part: str) -> None:
    foreign = Api(people.charlie, **{"OpenStack-API-Version": "compute 2.96"})
    server = put_server(people.alice)
    for ident in (server.id, uuid.uuid4(), "nonsense", "%00", "9" * 300):
        answer = getattr(foreign, method)(f"{V21}/servers/{ident}/{part}")
        assert answer.status_code == 404
        assert "itemNotFound" in answer.json()


@each_row(("method", "part"), [(method, part) for method, part in PARTS if method != "get"])
def test_a_reader_changes_none_of_them(people: People, method: str, part: str) -> None:
    reader = Api(people.bob, **{"OpenStack-API-Version": "compute 2.96"})
    assert getattr(reader, method)(f"{V21}/servers/{put_server(people.alice).id}/{part}").status_code == 403
