"""A host with a pool, and callers in projects of their own."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from compute_agent.contract.build import GuestDisk
from provisioning.common.context import RequestContext
from provisioning.hosts.models import Host, HostCommand
from provisioning.volumes import selectors
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.records import uses
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create
from provisioning.volumes.services.connections import attachments
from tests.support.clouds import ADMIN, Cloud, context
from tests.support.scripted_agent import ScriptedAgent
from tests.support.scripted_pool import ScriptedPool
from tests.support.standing import standing


@dataclass
class Guests:
    """Stands in for compute: gives guests their disks as soon as they are connected."""

    notified: list[tuple[str, uuid.UUID]] = field(default_factory=list)
    slow: bool = False
    """Whether it only notes what it is told."""

    def connected(self, attachment: Attachment, *, again: bool = False) -> None:
        self.notified.append(("connected", attachment.id))
        if not self.slow:
            attachments.complete(attachment.id, "/dev/vdb")

    def refused(self, attachment: Attachment, message: str) -> None:
        self.notified.append((message, attachment.id))
        attachments.release(attachment.id)

    def ready(self, volume: Volume) -> None:
        self.notified.append(("ready", volume.id))

    def failed(self, volume: Volume, message: str) -> None:
        self.notified.append(("failed", volume.id))

    def reimaged(self, volume: Volume, message: str = "") -> None:
        self.notified.append((message or "reimaged", volume.id))

    def progressed(self, volume: Volume) -> None:
        self.notified.append(("progressed", volume.id))

    def changed(self, volume: Volume) -> None:
        self.notified.append(("changed", volume.id))
        if not self.slow:
            for each in Attachment.objects.filter(volume_id=volume.id):
                attachments.refreshed(each)

    def released(self, attachment: Attachment) -> None:
        self.notified.append(("released", attachment.id))

    def is_building(self, attachment: Attachment) -> bool:
        return False

    def swap(self, old: Attachment, new: Attachment) -> None:
        self.notified.append(("swap", new.id))

    def working(self, attachment: Attachment) -> Sequence[HostCommand]:
        return ()

    def is_swapping(self, new: Attachment) -> bool:
        return False


@dataclass
class Town:
    """A cloud whose host kelvin has a pool."""

    cloud: Cloud
    agent: ScriptedAgent
    pool: ScriptedPool
    guests: Guests
    alice: RequestContext

    @property
    def host(self) -> Host:
        return self.agent.host

    def make(self, size: int = 1, **values: object) -> Volume:
        """Make a volume of alice's and let the host carry it out."""
        volume = Create.begin(self.alice, VolumeRequest(size_gb=size, **values))  # type: ignore[arg-type]
        self.agent.work()
        return self.fresh(volume)

    def attach(self, volume: Volume, instance_id: uuid.UUID | None = None) -> Attachment:
        """Attach it to a server on the host, all the way."""
        attachment = attachments.reserve(self.alice, volume.id, instance_id or uuid.uuid4())
        attachments.connect(attachment, self.host)
        self.agent.work()
        return Attachment.objects.select_related("volume").get(id=attachment.id)

    def disk(self, attachment: Attachment) -> GuestDisk:
        return selectors.guest_disk(Attachment.objects.select_related("volume").get(id=attachment.id))

    @staticmethod
    def fresh(volume: Volume) -> Volume:
        return Volume.objects.select_related("pool").get(id=volume.id)


def build(monkeypatch: pytest.MonkeyPatch) -> Town:
    return open_(make_town(), monkeypatch)


def make_town() -> Town:
    cloud = Cloud.make()
    agent = cloud.add_host("kelvin")
    return Town(cloud, agent, agent.serve(), Guests(), context("alice"))


def open_(town: Town, monkeypatch: pytest.MonkeyPatch) -> Town:
    """Let the town's guests hear of their volumes."""
    monkeypatch.setattr(uses.USERS, "_entries", (town.guests,))
    return town


@pytest.fixture
@standing
def built(db: None) -> Town:
    return make_town()


@pytest.fixture
def town(built: Town, monkeypatch: pytest.MonkeyPatch) -> Town:
    return open_(built, monkeypatch)


@pytest.fixture
def operator() -> RequestContext:
    return context("operator", ADMIN)
