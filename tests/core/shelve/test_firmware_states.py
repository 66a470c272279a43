"""UEFI variables and TPMs of shelved servers: sent by the host that shelves, kept by the portal, brought to the host
that unshelves, and of no use to any other host.
"""

from __future__ import annotations

import hashlib
import uuid

import pytest
from cryptography.fernet import Fernet

from compute_agent.contract.commands import BuildRequest, DestroyRequest, SnapshotRequest
from compute_agent.contract.messages import Command
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.common.errors import GoneError, InvalidInputError, NotFoundError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.shelve import Offload, Shelve
from provisioning.compute.actions.unshelve import unshelve
from provisioning.compute.host_link import firmware_states
from provisioning.compute.models import FirmwareState, Instance
from provisioning.hosts.models import Host
from provisioning.images.models import Image
from provisioning.quotas.models import QuotaUsage
from tests.core.shelve.shelves import OFFLOADED, action, only
from tests.support.clouds import Cloud, next_request, state_of
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent
from tests.support.standing import standing
from tests.support.tables import each_row

SECRET = b"packed by the host"
DIGEST = hashlib.sha256(SECRET).hexdigest()


@pytest.fixture
@standing
def secure(h1: ScriptedAgent, server: Instance) -> Instance:
    """A server with UEFI and a TPM."""
    Instance.objects.filter(id=server.id).update(image_properties={"hw_tpm_version": "2.0", "hw_firmware_type": "uefi"})
    h1.firmware[str(server.id)] = SECRET
    server.refresh_from_db()
    return server


def shelving(host: ScriptedAgent, server: Instance, caller: RequestContext) -> Command:
    """Return the command of a host that shelves a server."""
    Shelve.begin(next_request(caller), server.id)
    return only(host, SnapshotRequest)


def shelved(cloud: Cloud, server: Instance, caller: RequestContext) -> Instance:
    Shelve.begin(next_request(caller), server.id)
    cloud.run()
    return cloud.fresh(server)


def offloaded(cloud: Cloud, server: Instance, caller: RequestContext, operator: RequestContext) -> Instance:
    Offload.begin(next_request(operator), shelved(cloud, server, caller).id)
    cloud.run()
    assert state_of(server) == OFFLOADED
    return cloud.fresh(server)


@each_row("properties, extra_specs, has", [
    ({}, {}, False),
    ({"hw_firmware_type": "bios"}, {}, False),
    ({"hw_firmware_type": "uefi"}, {}, True),
    ({"hw_firmware_type": "uefi", "hw_firmware_stateless": "true"}, {}, False),
    ({"os_secure_boot": "required", "hw_machine_type": "q35"}, {}, True),
    ({"hw_tpm_version": "2.0"}, {}, True),
    ({}, {"hw:tpm_version": "1.2"}, True),
])  # fmt: skip
def test_which_servers_have_a_state(
    server: Instance, properties: dict[str, str], extra_specs: dict[str, str], has: bool
) -> None:
    server.image_properties = properties
    server.flavor = server.flavor | {"extra_specs": extra_specs}
    assert firmware_states.has_state(server) is has


@pytest.mark.parametrize("volume_backed", [False, True])
def test_a_server_comes_back_on_another_host_with_its_state(
    cloud: Cloud, h1: ScriptedAgent, secure: Instance, alice: RequestContext, operator: RequestContext,
    volume_backed: bool,
) -> None:  # fmt: skip
    if volume_backed:
        Instance.objects.filter(id=secure.id).update(image_id=None)
    used = {row.resource: row.in_use for row in QuotaUsage.objects.filter(project_id=alice.project_id)}
    command = shelving(h1, secure, alice)
    assert isinstance(command.body, SnapshotRequest)
    assert (command.body.stop, command.body.firmware_state) == (True, True)
    assert bool(command.body.image_id) is not volume_backed
    h1.carry_out(command)
    if not volume_backed:
        assert state_of(secure) == ("shelved", None)
        Offload.begin(operator, secure.id)
    h1.carry_out(only(h1, DestroyRequest))
    assert state_of(secure) == OFFLOADED
    row = FirmwareState.objects.get()
    assert (row.instance_id, row.digest, row.size) == (secure.id, DIGEST, len(SECRET))
    assert {each.resource: each.in_use for each in QuotaUsage.objects.filter(project_id=alice.project_id)} == used

    Host.objects.filter(id=h1.host.id).update(enabled=False)
    h2 = cloud.add_host("h2")
    unshelve(next_request(alice), secure.id)
    drain()
    build = only(h2, BuildRequest)
    assert isinstance(build.body, BuildRequest)
    assert build.body.firmware_state == DIGEST
    h2.carry_out(build)
    assert state_of(secure) == ("active", None)
    assert h2.firmware == {str(secure.id): SECRET}
    assert not FirmwareState.objects.exists()


def test_a_server_that_starts_where_it_is_keeps_its_state_there(
    cloud: Cloud, h1: ScriptedAgent, secure: Instance, alice: RequestContext
) -> None:
    shelved(cloud, secure, alice)
    assert FirmwareState.objects.exists()
    unshelve(next_request(alice), secure.id)
    cloud.run()
    assert state_of(secure) == ("active", None)
    assert not FirmwareState.objects.exists()


def test_the_state_is_deleted_with_its_server(
    cloud: Cloud, secure: Instance, alice: RequestContext, operator: RequestContext
) -> None:
    offloaded(cloud, secure, alice, operator)
    delete(next_request(alice), secure.id)
    cloud.run()
    assert state_of(secure) == ("deleted", None)
    assert not FirmwareState.objects.exists()


def test_a_failed_unshelving_keeps_the_state(
    cloud: Cloud, h1: ScriptedAgent, secure: Instance, alice: RequestContext, operator: RequestContext
) -> None:
    offloaded(cloud, secure, alice, operator)
    unshelve(next_request(alice), secure.id)
    drain()
    h1.fail(only(h1, BuildRequest), "The guest's UEFI variables do not fit the firmware of the host.", retryable=False)
    assert state_of(secure) == OFFLOADED
    assert FirmwareState.objects.get().digest == DIGEST


@pytest.mark.parametrize("how", ["not sent", "failed"])
def test_a_shelving_without_the_state_leaves_the_server_as_it_was(
    cloud: Cloud, h1: ScriptedAgent, secure: Instance, alice: RequestContext, how: str
) -> None:
    command = shelving(h1, secure, alice)
    assert isinstance(command.body, SnapshotRequest)
    h1.send(command, command.body)
    if how == "failed":
        h1.send_firmware(command)
        h1.report(command, "failed", error_code="host_failed", message="The guest runs.")
    else:
        h1.report(command, "finished", power_state=PowerState.SHUTDOWN)
    assert state_of(secure) == ("active", None)
    message = "The guest runs." if how == "failed" else "The host has not stored the server's UEFI variables and TPM."
    assert action(secure, "shelve").message == message
    assert not FirmwareState.objects.exists()
    assert not Image.objects.filter(name="web-shelved").exclude(status="deleted").exists()


def test_a_state_is_accepted_from_the_host_that_shelves_and_only_then(
    cloud: Cloud, h1: ScriptedAgent, secure: Instance, alice: RequestContext
) -> None:
    other = cloud.add_host("h2")

    def take(host: ScriptedAgent, server_id: uuid.UUID = secure.id, digest: str = DIGEST) -> None:
        firmware_states.store(host.host.id, server_id, digest, SECRET)

    with pytest.raises(NotFoundError):
        take(h1)  # the server is not being shelved
    command = shelving(h1, secure, alice)
    for host, server_id in ((other, secure.id), (h1, uuid.uuid4())):
        with pytest.raises(NotFoundError):
            take(host, server_id)
    with pytest.raises(InvalidInputError, match=f"has SHA-256 {DIGEST}"):
        take(h1, digest="0" * 64)
    take(h1)
    take(h1)  # the response was lost
    assert FirmwareState.objects.get().digest == DIGEST
    h1.carry_out(command)
    with pytest.raises(NotFoundError):
        take(h1)


def test_a_server_without_a_state_sends_none(
    cloud: Cloud, h1: ScriptedAgent, server: Instance, alice: RequestContext
) -> None:
    command = shelving(h1, server, alice)
    assert isinstance(command.body, SnapshotRequest)
    assert not command.body.firmware_state
    with pytest.raises(NotFoundError):
        firmware_states.store(h1.host.id, server.id, DIGEST, SECRET)


def test_a_host_gets_the_state_of_the_server_that_it_builds_and_no_other(
    cloud: Cloud, h1: ScriptedAgent, secure: Instance, alice: RequestContext, operator: RequestContext
) -> None:
    other = cloud.add_host("h2")
    second = cloud.running(alice)
    offloaded(cloud, secure, alice, operator)

    def refused(host: ScriptedAgent, server: Instance = secure, digest: str = DIGEST) -> None:
        with pytest.raises(NotFoundError):
            firmware_states.packed_state(host.host.id, server.id, digest)

    for host in (h1, other):
        refused(host)  # no build has begun
    unshelve(next_request(alice), secure.id)
    drain()
    building = cloud.agent_of(secure)
    command = only(building, BuildRequest)
    refused(other if building is h1 else h1)
    refused(building, second)
    refused(building, digest="0" * 64)
    assert firmware_states.packed_state(building.host.id, secure.id, DIGEST) == SECRET
    building.carry_out(command)
    refused(building)


def test_the_state_is_encrypted_and_follows_the_newest_key(
    cloud: Cloud, h1: ScriptedAgent, secure: Instance, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelved(cloud, secure, alice)
    newest = Fernet(Fernet.generate_key())
    before = FirmwareState.objects.get().packed
    assert SECRET.decode() not in before
    assert firmware_states.encrypt_again(newest) == (1, [])
    after = FirmwareState.objects.get().packed
    assert newest.decrypt(after.encode()) == SECRET
    assert firmware_states.encrypt_again(newest) == (0, [])
    assert firmware_states.encrypt_again(Fernet(Fernet.generate_key())) == (0, [str(secure.id)])


def test_a_state_whose_key_is_lost_is_reported_as_lost(
    cloud: Cloud, secure: Instance, alice: RequestContext, operator: RequestContext
) -> None:
    offloaded(cloud, secure, alice, operator)
    FirmwareState.objects.update(packed=Fernet(Fernet.generate_key()).encrypt(SECRET).decode())
    unshelve(next_request(alice), secure.id)
    drain()
    building = cloud.agent_of(secure)
    only(building, BuildRequest)
    with pytest.raises(GoneError, match="cannot be decrypted"):
        firmware_states.packed_state(building.host.id, secure.id, DIGEST)
