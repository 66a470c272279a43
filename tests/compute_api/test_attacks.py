"""What a member tries with a server, to get what is not theirs or to harm others."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from compute_agent.contract.commands import RefreshPortsRequest
from provisioning.compute.models import Instance
from provisioning.hosts.models import HostCommand
from provisioning.network.models import SecurityGroup
from provisioning.network.services.ports.interfaces import MAX_ADDRESSES
from tests.compute_api.conftest import NEWEST, V21, launch
from tests.compute_api.test_rescue import act, make_image
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.ports import guest_addresses
from tests.support.standing import standing

pytestmark = pytest.mark.django_db

HUGE = 1 << 40


@pytest.fixture
@standing
def server(api: Api, cloud: Cloud) -> str:
    return launch(api, cloud)


def refused(answer: Any, status: int, word: str) -> None:
    assert answer.status_code == status, answer.content
    [fault] = answer.json().values()
    assert word in fault["message"]


@pytest.mark.slow
def test_one_server_does_not_empty_a_network(api: Api, cloud: Cloud, server: str) -> None:
    for _ in range(MAX_ADDRESSES - 1):
        assert act(api, server, "addFixedIp", {"networkId": str(cloud.network.id)}).status_code == 202
    refused(act(api, server, "addFixedIp", {"networkId": str(cloud.network.id)}), 400, "Exceeded maximum amount")
    assert guest_addresses().filter(port__device_id=server).count() == MAX_ADDRESSES


@pytest.mark.parametrize("first", ["operator", "alice"])
def test_what_an_operator_has_locked_its_project_does_not_unlock(
    api: Api, people: People, server: str, first: str
) -> None:
    operator = Api(people.operator, **NEWEST)
    if first == "alice":
        assert act(api, server, "lock").status_code == 202
    assert act(operator, server, "lock", {"locked_reason": "abuse"}).status_code == 202
    refused(act(api, server, "unlock"), 409, "is locked: abuse")
    refused(act(api, server, "lock"), 409, "is locked: abuse")
    assert Instance.objects.get(id=server).locked
    assert act(operator, server, "unlock").status_code == 202
    assert act(api, server, "lock").status_code == 202
    assert act(api, server, "unlock").status_code == 202
    assert not Instance.objects.get(id=server).locked


def test_a_rescue_disk_is_no_larger_than_what_the_server_holds(api: Api, cloud: Cloud, server: str) -> None:
    """It lies on the host beside the server's own: of 1 TiB it would fill the host for all of them."""
    image = make_image(cloud, virtual_size=HUGE)
    refused(act(api, server, "rescue", {"rescue_image_ref": str(image.id)}), 400, "1024 GiB large")


def test_a_rebuild_does_not_make_a_disk_larger_than_its_room(api: Api, cloud: Cloud, server: str) -> None:
    """With a flavor of no root disk the disk is as large as its image, and the room was taken for the first one."""
    row = Instance.objects.get(id=server)
    Instance.objects.filter(id=server).update(flavor={**row.flavor, "root_gb": 0})
    image = make_image(cloud, virtual_size=HUGE)
    refused(act(api, server, "rebuild", {"imageRef": str(image.id)}), 400, "1024 GiB large")
    assert act(api, server, "rebuild", {"imageRef": str(cloud.image.id)}).status_code == 202


def test_an_operator_s_rebuild_does_not_fetch_a_kernel_for_who_may_not(
    api: Api, cloud: Cloud, people: People, server: str
) -> None:
    kernel = make_image(
        cloud, project_id=people.charlie.project_id, visibility="private", disk_format="aki", container_format="aki"
    )
    cloud.image.properties = {"kernel_id": str(kernel.id)}
    cloud.image.save()
    answer = act(Api(people.operator), server, "rebuild", {"imageRef": str(cloud.image.id)})
    refused(answer, 400, "which does not exist or is not a kernel")


@pytest.mark.slow
def test_one_refresh_of_the_interfaces_waits_for_a_host_however_often_they_change(
    api: Api, cloud: Cloud, people: People, server: str
) -> None:
    """Each has the whole guest in it: thousands would wait in the memory of whoever sends them."""
    group = SecurityGroup.objects.create(id=uuid.uuid4(), project_id=people.alice.project_id, name="web")
    for _ in range(3):
        assert act(api, server, "addSecurityGroup", {"name": "web"}).status_code == 202
        assert act(api, server, "removeSecurityGroup", {"name": "web"}).status_code == 202
    assert act(api, server, "addSecurityGroup", {"name": "web"}).status_code == 202
    waiting = HostCommand.objects.filter(subject_id=server, kind="refresh_ports_request")
    assert waiting.filter(finished_at=None).count() == 1
    assert not waiting.exclude(finished_at=None).exclude(body="").exists()
    [command] = cloud.agents["h1"].take()
    assert isinstance(command.body, RefreshPortsRequest)
    assert str(group.id) in command.body.instance.ports[0].security_group_ids
    cloud.agents["h1"].carry_out(command)
    assert api.get(f"{V21}/servers/{server}").json()["server"]["status"] == "ACTIVE"
