"""File systems that a guest agent reports: on the tab of disks, and before a volume is detached."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from compute_agent.contract.calls import MOST_FILE_SYSTEMS, CallError, CallResult, FileSystem, FileSystems
from provisioning.common.errors import UnavailableError
from provisioning.compute.models import Instance
from provisioning.compute.services.file_systems import LONGEST_PATH, file_systems
from provisioning.hosts import calls
from provisioning.volumes import services
from provisioning.volumes.models import Volume
from provisioning.volumes.records.requests import VolumeRequest
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.standing import standing

AGENT = {"hw_qemu_guest_agent": "yes"}
ROOT = FileSystem(mount_point="/", kind="ext4", total_bytes=4 << 30, used_bytes=1 << 30, disks=["vda"])


class Host:
    """Answers the calls of the portal, and counts them."""

    def __init__(self) -> None:
        self.answer: CallResult | Exception = FileSystems(file_systems=[ROOT])
        self.asked = 0

    def __call__(self, *_: Any, **__: Any) -> CallResult:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    host = Host()
    monkeypatch.setattr(calls, "call", host)
    return host


@pytest.fixture
@standing
def server(cloud: Cloud, alice: Person) -> Instance:
    """A running server with a guest agent and a volume."""
    cloud.agents["host-1"].serve()
    server = cloud.running(alice.context, name="web")
    Instance.objects.filter(id=server.id).update(image_properties=AGENT)
    services.Create.begin(alice.context, VolumeRequest(size_gb=1, name="data"))
    cloud.run()
    return server


def tab(client: Client, server: Instance) -> str:
    return client.get(f"/instances/{server.id}/disks/").content.decode()


def part(client: Client, server: Instance) -> str:
    return client.get(f"/instances/{server.id}/file-systems/").content.decode()


def test_the_tab_asks_a_guest_that_has_an_agent_and_shows_what_it_reports(
    at_alice: Client, server: Instance, host: Host
) -> None:
    address = f"/instances/{server.id}/file-systems/"
    assert address in tab(at_alice, server)
    assert host.asked == 0  # the page itself waits for no host
    shown = part(at_alice, server)
    assert "1 GiB of 4 GiB" in shown
    for columns in ({"image_properties": {}}, {"vm_state": "stopped"}):
        before = Instance.objects.values(*columns).get(id=server.id)
        Instance.objects.filter(id=server.id).update(**columns)
        assert address not in tab(at_alice, server), columns
        requested = host.asked
        assert "of 4 GiB" not in part(at_alice, server), columns
        assert host.asked == requested, columns
        Instance.objects.filter(id=server.id).update(**before)


@pytest.mark.parametrize(
    "answer", [CallError(code="unsupported", message="secret"), UnavailableError("The host does not answer.")]
)
def test_a_silent_agent_is_named(at_alice: Client, server: Instance, host: Host, answer: Any) -> None:
    host.answer = answer
    shown = part(at_alice, server)
    assert "does not answer" in shown
    assert "secret" not in shown


def test_what_a_host_reports_is_bounded_plausible_and_escaped(
    at_alice: Client, alice: Person, server: Instance, host: Host
) -> None:
    lie = FileSystem(
        mount_point="<script>\n\x1b[2J" + "x" * 9999,
        kind="y" * 999,
        total_bytes=1,
        used_bytes=1 << 62,
        disks=["z"] * 99,
    )
    host.answer = FileSystems(file_systems=[lie] * 999)
    result = file_systems(alice.context, server.id)
    assert len(result) == MOST_FILE_SYSTEMS
    assert len(result[0].mount_point) == LONGEST_PATH
    assert not {"\n", "\x1b"} & set(result[0].mount_point)
    assert (result[0].total_bytes, result[0].used_bytes, len(result[0].disks)) == (None, None, 16)
    assert "<script>" not in part(at_alice, server)


@pytest.mark.slow
def test_detaching_names_where_the_volume_is_mounted(
    at_alice: Client, cloud: Cloud, server: Instance, host: Host
) -> None:
    volume = Volume.objects.get()
    at_alice.post(f"/volumes/{volume.id}/attach/", {"server": str(server.id)})
    cloud.run()
    question = f"/volumes/{volume.id}/detach/{server.id}/"
    assert "It is mounted" not in at_alice.get(question).content.decode()
    host.answer = FileSystems(file_systems=[ROOT, FileSystem(mount_point="/srv/<b>", disks=["vdb"])])
    shown = at_alice.get(question).content.decode()
    assert "/srv/&lt;b&gt;" in shown
    assert "It is mounted" in shown
    host.answer = UnavailableError("The host does not answer.")
    assert at_alice.get(question).status_code == 200
