"""A cloud with two hosts, a server on the first, and a clock that tests set."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from compute_agent.contract.samples import GUEST_SERIES, HOST_SERIES, GuestSample, Samples
from provisioning.compute.models import Instance
from provisioning.hosts.models import Host
from provisioning.measures import collect, condensing, inbound, selectors
from tests.support.clouds import Cloud, context
from tests.support.standing import standing

BEGAN = 1_800_000_000 // 57_600 * 57_600.0
"""The begin of a block in every resolution."""


def guest(instance_id: object, cpu: float | None = None, **values: float | None) -> GuestSample:
    result = {"cpu": cpu, **values}
    return GuestSample(instance_id=str(instance_id), values=[result.get(name) for name in GUEST_SERIES])


def of_host(**values: float | None) -> list[float | None]:
    return [values.get(name) for name in HOST_SERIES]


@dataclass
class Lab:
    """The cloud, and frames that its hosts send."""

    host: Host
    other: Host
    server: Instance
    inboxes: dict[uuid.UUID, inbound.Inbox] = field(default_factory=dict)

    def send(self, host: Host, now: float, guests: Sequence[GuestSample] = (), **values: float | None) -> bool:
        """Return whether the frame was accepted."""
        inbox = self.inboxes.setdefault(host.id, inbound.Inbox())
        slot = inbox.due(now)
        if slot is not None:
            samples = Samples(host=of_host(**values), guests=list(guests))
            inbound.receive(host.id, slot, samples, inbox, now)
        return slot is not None

    def minutes(self, many: int, cpu: float = 0.5, first: int = 0) -> float:
        """Send frames of whole minutes, and return the time of their end."""
        for second in range(60 * first, 60 * (first + many), 10):
            self.send(self.host, BEGAN + second + 5, [guest(self.server.id, cpu, memory=100.0)], cpu=cpu, load=0.7)
        return BEGAN + 60 * (first + many)


def work(now: float) -> None:
    """Run the periodic job at a time."""
    collect.collect(now)
    condensing.condense_complete(now)
    condensing.delete_old(now)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (collect, condensing):
        monkeypatch.setattr(module, "PAUSE", 0.0)


@pytest.fixture
@standing
def lab(db: None) -> Lab:
    cloud = Cloud.make()
    cloud.add_host("h1")
    server = cloud.running(context("alice"))
    cloud.add_host("h2")
    hosts = {host.name: host for host in Host.objects.all()}
    return Lab(hosts["h1"], hosts["h2"], server)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the clock of the selectors."""

    def set_to(now: float) -> None:
        monkeypatch.setattr(selectors.time, "time", lambda: now)  # type: ignore[attr-defined]

    return set_to
