"""A portal or worker is killed behind any of its commits while a server moves: afterwards there is one guest, where
the records say, and nothing is left on the other host.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.evacuate import Evacuate, Evacuation
from provisioning.compute.actions.live_migrate import LiveMigrate, LiveMigration
from provisioning.compute.actions.migrate import migrate
from provisioning.compute.actions.resize import ConfirmResize
from provisioning.compute.actions.revert_resize import RevertResize
from provisioning.compute.models import InstanceAction, Migration, MoveAllocation
from provisioning.compute.records.migration_records import OPEN
from provisioning.hosts.models import Host
from tests.core.test_killed import APART, MOST, Death, KilledError, begun_anew, death, work
from tests.support import invariants
from tests.support.clouds import ADMIN, Cloud, context, state_of
from tests.support.scripted_agent import ScriptedAgent

__all__ = ["death"]

pytestmark = pytest.mark.slow

HOSTS = ("one", "two")


def operator() -> RequestContext:
    return context("operator", ADMIN)


class Moving:
    """A server of two hosts, of which one may be off."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.off: dict[str, ScriptedAgent] = {}
        self.server = cloud.launch(context("alice"))
        work(cloud)

    def migrate(self) -> None:
        migrate(operator(), self.server.id)

    def migrate_live(self) -> None:
        LiveMigrate.begin(operator(), self.server.id, LiveMigration())

    def confirm(self) -> None:
        ConfirmResize.begin(operator(), self.server.id)

    def revert(self) -> None:
        RevertResize.begin(operator(), self.server.id)

    def die(self) -> None:
        """The server's host loses its power, and an operator forces it down."""
        name = self.cloud.fresh(self.server).host_name
        agent = self.off[name] = self.cloud.agents.pop(name)
        agent.guests = {key: (attempt, PowerState.SHUTDOWN) for key, (attempt, _) in agent.guests.items()}
        long_ago = timezone.now() - timedelta(hours=1)
        Host.objects.filter(name=name).update(last_seen_at=long_ago, connected=False, forced_down=True)

    def evacuate(self) -> None:
        Evacuate.begin(operator(), self.server.id, Evacuation())

    def come_back(self) -> None:
        for name in list(self.off):
            self.cloud.agents[name] = self.off.pop(name)
            Host.objects.filter(name=name).update(forced_down=False)
        begun_anew(self.cloud)
        work(self.cloud)

    def check(self, end: str) -> None:
        """One guest runs, where the records say; another one, which is off, is kept only for a revert."""
        now, key = self.cloud.fresh(self.server), str(self.server.id)
        result = {name: agent.guests[key][1] for name, agent in self.cloud.agents.items() if key in agent.guests}
        expected = {now.host_name: PowerState.RUNNING}
        if end == "resized":
            expected[MoveAllocation.objects.get(instance=now).host.name] = PowerState.SHUTDOWN
        assert result == expected
        assert MoveAllocation.objects.filter(instance=now).exists() is (end == "resized")
        assert Migration.objects.filter(instance=now, status__in=OPEN).exists() is (end == "resized")


CASES: dict[str, tuple[list[Callable[[Moving], object]], Callable[[Moving], object], str]] = {
    "migrate": ([], Moving.migrate, "resized"),
    "confirm": ([Moving.migrate], Moving.confirm, "active"),
    "revert": ([Moving.migrate], Moving.revert, "active"),
    "migrate live": ([], Moving.migrate_live, "active"),
    "evacuate": ([Moving.die], Moving.evacuate, "active"),
}


LIKE_MIGRATE = {"confirm", "revert"}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.deep] if case in LIKE_MIGRATE else []) for case in CASES]
)
def test_there_is_one_guest_wherever_the_portal_or_a_worker_is_killed(
    shared_cloud: Cloud, alice: RequestContext, death: Death, case: str
) -> None:
    cloud, (before, act, end) = shared_cloud, CASES[case]
    for number, name in enumerate(HOSTS, 1):
        agent = cloud.add_host(name, vcpus=8, memory_mb=10_240, documents=True)
        agent.host.host_ip = f"192.0.2.{number}"
        Host.objects.filter(name=name).update(host_ip=agent.host.host_ip)
    Host.objects.exclude(name__in=HOSTS).update(enabled=False)
    cloud.agents = {name: cloud.agents[name] for name in HOSTS}
    for number in range(0, MOST, APART):
        moving = Moving(cloud)
        for step in before:
            step(moving)
            work(cloud)
        death.at = number
        killed = False
        try:
            act(moving)
            work(cloud)
        except KilledError:
            killed = True
        death.at = None
        begun_anew(cloud)
        work(cloud)
        moving.come_back()
        assert state_of(moving.server) == (end, None), number
        moving.check(end)
        assert not InstanceAction.objects.filter(finished_at=None).exists(), number
        invariants.check()
        delete(operator(), moving.server.id)
        work(cloud)
        invariants.check_empty()
        assert not [agent.guests for agent in cloud.agents.values() if agent.guests]
        if not killed:
            assert number, "nothing was killed"
            return
    raise AssertionError("it never came to its end")
