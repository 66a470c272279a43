"""A host's reports of volumes cannot direct programs of other hosts to a socket or address of its choice."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from compute_agent.contract.build import VolumeConnection
from compute_agent.contract.certificates import tls_hostname
from compute_agent.contract.messages import AgentEvent
from compute_agent.contract.volume import (
    FetchVolumeRequest,
)
from provisioning.hosts import reports
from provisioning.hosts.models import Host
from provisioning.volumes.models import (
    Attachment,
    Snapshot,
    StoragePool,
    Volume,
)
from provisioning.volumes.services import CreateSnapshot, Delete, Extend, Migrate, SnapshotRequest, VolumeDeletion
from provisioning.volumes.services.connections import attachments
from tests.support.clouds import ADMIN, context
from tests.support.scripted_agent import ScriptedAgent
from tests.support.scripted_pool import ScriptedPool, plain
from tests.volumes.conftest import Town

pytestmark = pytest.mark.slow

OPERATOR = context("operator", ADMIN)


@dataclass
class LyingPool(ScriptedPool):
    """A pool whose host names another place of a volume than its own."""

    lie: dict[str, object] = field(default_factory=dict)

    def _connection(self, key: str) -> dict[str, str]:
        honest = {"export": f"{key}.1", "socket": f"/run/exports/{key}.sock"}
        return {"connection": plain(VolumeConnection(**{**honest, **self.lie}))}  # type: ignore[arg-type]

    def tell(self, volume: Volume, lie: Mapping[str, object]) -> None:
        """Name this place of a volume from now on."""
        self.lie = {key: value.format(id=volume.id) if isinstance(value, str) else value for key, value in lie.items()}


@pytest.fixture
def evil(town: Town) -> ScriptedAgent:
    return town.cloud.add_host("evil")


# ----- connections ----------------------------------------------------------------------------------------------------

OTHER = str(uuid.uuid4())
LIES: dict[str, dict[str, object]] = {
    "another volume's socket": {"socket": f"/run/exports/{OTHER}.sock"},
    "a socket without the volume's name": {"socket": "/run/libvirt/libvirt-sock"},
    "a way out of the folder": {"socket": "/run/exports/../{id}.sock"},
    "a relative path": {"socket": "exports/{id}.sock"},
    "no place": {"socket": ""},
    "another volume's export": {"export": f"{OTHER}.1"},
    "an export that only begins like it": {"export": "{id}0.1"},
    "an export with more behind": {"export": "{id}.1/../x"},
    "no export": {"export": ""},
    "a port of the system": {"socket": "", "port": 22, "tls": True},
    "a port that is none": {"socket": "", "port": 70000, "tls": True},
}


@pytest.fixture
def lying(town: Town, evil: ScriptedAgent) -> tuple[Volume, LyingPool]:
    """A volume in a pool of evil's."""
    volume, pool = town.make(), LyingPool(name="evil")
    evil.serve(pool)
    Volume.objects.filter(id=volume.id).update(pool_id=pool.id)
    return town.fresh(volume), pool


def connected(town: Town, volume: Volume, host: ScriptedAgent, evil: ScriptedAgent) -> VolumeConnection | None:
    """Return where a guest on ``host`` is told that a volume of evil's is; None when it is not given the volume."""
    attachment = attachments.reserve(town.alice, volume.id, uuid.uuid4())
    attachments.connect(attachment, host.host)
    evil.work()
    row = Attachment.objects.select_related("volume").filter(id=attachment.id).first()
    connection = None if row is None else town.disk(row).connection
    attachments.release(attachment.id)
    evil.work()
    assert town.fresh(volume).status == "available"
    return connection


def test_a_place_that_is_not_the_volumes_reaches_no_guest(
    town: Town, evil: ScriptedAgent, lying: tuple[Volume, LyingPool]
) -> None:
    """Told of a guest on the storage host itself, and of one on another host."""
    volume, pool = lying
    for name, lie in LIES.items():
        pool.tell(volume, lie)
        assert (name, connected(town, volume, evil, evil)) == (name, None)
        assert (name, connected(town, volume, town.agent, evil)) == (name, None)


def test_a_socket_is_named_to_guests_of_its_own_host_only(
    town: Town, evil: ScriptedAgent, lying: tuple[Volume, LyingPool]
) -> None:
    volume, _ = lying
    assert connected(town, volume, town.agent, evil) is None
    here = connected(town, volume, evil, evil)
    assert here is not None
    assert here.socket == f"/run/exports/{volume.id}.sock"


def test_address_and_certificate_are_those_of_the_storage_host(
    town: Town, evil: ScriptedAgent, lying: tuple[Volume, LyingPool]
) -> None:
    volume, pool = lying
    pool.lie = {"socket": "", "address": town.host.host_ip, "port": 10809, "tls": False, "tls_hostname": "kelvin"}
    assert connected(town, volume, town.agent, evil) == VolumeConnection(
        export=f"{volume.id}.1", address=evil.host.host_ip, port=10809, tls=True,
        tls_hostname=tls_hostname(str(evil.host.id)),
    )  # fmt: skip
    for address in ("", "not an address; x", "0.0.0.0", "224.0.0.1", "::", "127.0.0.1"):  # noqa: S104
        Host.objects.filter(id=evil.host.id).update(host_ip=address)
        assert connected(town, volume, town.agent, evil) is None


def test_a_place_that_is_not_the_volumes_is_not_fetched_from(
    town: Town, evil: ScriptedAgent, lying: tuple[Volume, LyingPool]
) -> None:
    volume, pool = lying
    for lie in (LIES["another volume's socket"], LIES["another volume's export"], LIES["a port of the system"], {}):
        pool.tell(volume, lie)
        Migrate.begin(OPERATOR, volume.id, uuid.UUID(town.pool.id))
        evil.work()
        assert FetchVolumeRequest not in [type(command.body) for command in town.agent.take()]
        assert (town.fresh(volume).status, town.fresh(volume).migration_status) == ("available", "error")
        town.agent.work()
        Volume.objects.filter(migration_of=volume.id).delete()


def test_what_is_fetched_is_named_for_the_copy(town: Town) -> None:
    volume, nadel = town.make(), town.cloud.add_host("nadel")
    nadel.serve(ScriptedPool(name="fast"))
    Migrate.begin(OPERATOR, volume.id, StoragePool.objects.get(name="fast").id)
    town.agent.work()
    (command,) = nadel.take()
    assert isinstance(command.body, FetchVolumeRequest)
    assert command.body.origin == VolumeConnection(
        export=f"{volume.id}.1", address=town.host.host_ip, port=10809, tls=True,
        tls_hostname=tls_hostname(str(town.host.id)),
    )  # fmt: skip


def test_a_volume_that_grows_goes_to_no_other_place(
    town: Town, evil: ScriptedAgent, lying: tuple[Volume, LyingPool]
) -> None:
    volume, pool = lying
    attachment = attachments.reserve(town.alice, volume.id, uuid.uuid4())
    attachments.connect(attachment, evil.host)
    evil.work()
    here = town.disk(attachment).connection
    pool.tell(volume, {"export": f"{OTHER}.1"})
    Extend.begin(town.alice, volume.id, 2)
    evil.work()
    assert town.disk(attachment).connection == here


# ----- reports --------------------------------------------------------------------------------------------------------

KINDS = ("begun", "progress", "step", "step_started", "finished", "failed", "power", "posted", "lease")
"""Every kind of report."""
WORK: dict[str, Callable[[Town, Volume], object]] = {
    "connect": lambda town, volume: attachments.connect(
        attachments.reserve(town.alice, volume.id, uuid.uuid4()), town.host
    ),
    "grow": lambda town, volume: Extend.begin(town.alice, volume.id, 2),
    "delete": lambda town, volume: Delete.begin(town.alice, volume.id, VolumeDeletion()),
    "snapshot": lambda town, volume: CreateSnapshot.begin(town.alice, volume.id, SnapshotRequest()),
    "move": lambda town, volume: Migrate.begin(OPERATOR, volume.id, StoragePool.objects.get(name="evil").id),
}


def everything() -> list[object]:
    return [list(table.objects.order_by("id").values()) for table in (Volume, Attachment, Snapshot, StoragePool)]


@pytest.mark.parametrize("work", WORK)
def test_a_report_of_another_host_changes_nothing(town: Town, evil: ScriptedAgent, work: str) -> None:
    volume = town.make()
    evil.serve(ScriptedPool(name="evil"))
    WORK[work](town, volume)
    (command,) = town.agent.take(begin=False)
    before = everything()
    connection = plain(VolumeConnection(export=f"{volume.id}.1", port=10809))
    detail = {"done": "1", "total": "2", "connection": connection}
    for seq, kind in enumerate(KINDS):
        event = AgentEvent(
            seq=seq, subject_kind=command.subject_kind, subject_id=command.subject_id, generation=command.generation,
            kind=kind, command_id=command.id, detail=detail,  # type: ignore[arg-type]
        )  # fmt: skip
        reports.receive(evil.host.id, [event])
        assert (kind, everything()) == (kind, before)


def test_the_host_of_before_says_nothing_of_a_volume_that_is_served_elsewhere(town: Town, evil: ScriptedAgent) -> None:
    """Its command was not withdrawn: what it reports of it now is of a daemon that is no longer the volume's."""
    town.pool.shared = True
    town.agent.measured()
    evil.serve(ScriptedPool(id=town.pool.id, shared=True, secret=town.pool.secret))
    volume = town.make()
    attachment = attachments.reserve(town.alice, volume.id, uuid.uuid4())
    attachments.connect(attachment, evil.host)
    (late,) = evil.take()
    Volume.objects.filter(id=volume.id).update(daemon_host_id=town.host.id)
    evil.carry_out(late)
    assert Attachment.objects.get(id=attachment.id).connection == {}
