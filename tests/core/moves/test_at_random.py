"""Moves, evacuations and deaths of hosts in a random order: at no moment do two guests of a server run, and in the end
each server has one guest, where the records say.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from compute_agent.contract.commands import BuildRequest, ReceiveGuestRequest, ReturnGuestRequest, SendGuestRequest
from compute_agent.contract.messages import SERVER, Command
from compute_agent.contract.migration import SendLiveRequest
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError
from provisioning.compute.actions.evacuate import Evacuate, Evacuation
from provisioning.compute.actions.live_migrate import LiveMigrate, LiveMigration
from provisioning.compute.actions.migrate import migrate
from provisioning.compute.actions.resize import ConfirmResize
from provisioning.compute.actions.revert_resize import RevertResize
from provisioning.compute.models import Instance, Migration, MoveAllocation
from provisioning.compute.records.migration_records import OPEN
from provisioning.compute.upkeep.reaper import reap
from provisioning.hosts import liveness
from provisioning.hosts.models import Host
from tests.support import invariants
from tests.support.clouds import ADMIN, Cloud, context
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.deep]

ALIVE = (PowerState.RUNNING, PowerState.PAUSED)
MAY_FAIL = (BuildRequest, SendGuestRequest, ReceiveGuestRequest)
HOSTS = ("one", "two", "three")


class World:
    """The hosts, which carry out one command at a time, may be off, and sometimes fail."""

    def __init__(self, cloud: Cloud, servers: list[Instance], chance: random.Random) -> None:
        self.cloud, self.servers, self.chance = cloud, servers, chance
        self.backlog: dict[str, list[Command]] = {name: [] for name in cloud.agents}
        self.off: set[str] = set()
        self.failing = True

    # ----- hosts ------------------------------------------------------------------------------------------------------

    def work(self, name: str) -> bool:
        """Carry out one command of a host; False if it has none."""
        agent, waiting = self.cloud.agents[name], self.backlog[name]
        waiting += agent.take()
        if not waiting:
            return False
        subject = self.chance.choice(waiting).subject_id  # of one subject in their order, of others in any
        command = next(each for each in waiting if each.subject_id == subject)
        waiting.remove(command)
        if command.subject_kind == SERVER and self.impossible(agent, command):
            if self.is_new(command):
                agent.guests.pop(command.subject_id, None)
            values = {"error_code": "migration_failed", "message": "It broke.", **self.power(agent, command)}
            agent.report(command, "failed", **values)
        else:
            agent.carry_out(command)
        return True

    @staticmethod
    def is_new(command: Command) -> bool:
        return isinstance(command.body, BuildRequest | ReceiveGuestRequest)

    @staticmethod
    def power(agent: ScriptedAgent, command: Command) -> dict[str, object]:
        guest = agent.guests.get(command.subject_id)
        return {} if guest is None else {"power_state": guest[1]}

    def impossible(self, agent: ScriptedAgent, command: Command) -> bool:
        """Whether a command fails: at random, or because the other host is off."""
        key = command.subject_id
        if command.generation < agent.fences.get(key, 0):
            return False  # superseded
        if isinstance(command.body, ReceiveGuestRequest):
            sources = [name for name, other in self.cloud.agents.items() if other is not agent and key in other.guests]
            if not sources or set(sources) & self.off:
                return True
        if isinstance(command.body, SendLiveRequest):
            target = agent.awaited.get(key)
            if target is None or target[0].host.name in self.off or key not in agent.guests:
                return True
        if (
            isinstance(command.body, SendGuestRequest | ReturnGuestRequest | SendLiveRequest)
            and key not in agent.guests
        ):
            return True
        return self.failing and isinstance(command.body, MAY_FAIL) and self.chance.random() < 0.15

    def die(self) -> None:
        """A host loses its power. An operator forces it down, or servers without volumes are evacuated without that."""
        name = self.chance.choice(HOSTS)
        if name in self.off or len(self.off) == len(HOSTS) - 1:
            return
        self.off.add(name)
        guests = self.cloud.agents[name].guests
        guests.update({key: (attempt, PowerState.SHUTDOWN) for key, (attempt, _) in guests.items()})
        long_ago = timezone.now() - timedelta(hours=1)
        forced = self.chance.random() < 0.5
        Host.objects.filter(name=name).update(last_seen_at=long_ago, connected=False, forced_down=forced)

    def come_back(self) -> None:
        """The host is on again; it forgets the commands that nobody awaits any more."""
        for name in sorted(self.off):
            self.off.discard(name)
            agent = self.cloud.agents[name]
            Host.objects.filter(name=name).update(forced_down=False)
            agent.hello()
            awaited = set(liveness.ownership(agent.host.id).open)
            self.backlog[name] = [each for each in self.backlog[name] if each.id in awaited]

    # ----- requests ---------------------------------------------------------------------------------------------------

    def ask(self) -> None:
        """Send one request of an operator, which may be refused."""
        server, caller = self.cloud.fresh(self.chance.choice(self.servers)), context("operator", ADMIN)
        if server.host_name in self.off:
            requests: list[Callable[[], object]] = [lambda: Evacuate.begin(caller, server.id, Evacuation())]
        elif server.vm_state == "resized":
            requests = [lambda: ConfirmResize.begin(caller, server.id), lambda: RevertResize.begin(caller, server.id)]
        else:
            requests = [
                lambda: migrate(caller, server.id),
                lambda: LiveMigrate.begin(caller, server.id, LiveMigration()),
            ]
        try:
            self.chance.choice(requests)()
        except NovellaError:
            return

    def expire(self) -> None:
        """Let the time of a task pass."""
        ids = list(Instance.objects.exclude(task_state=None).order_by("id").values_list("id", flat=True))
        if ids:
            past = timezone.now() - timedelta(seconds=1)
            Instance.objects.filter(id=self.chance.choice(ids)).update(task_deadline=past)
            reap()

    # ----- what must hold ---------------------------------------------------------------------------------------------

    def step(self) -> None:
        on = [name for name in HOSTS if name not in self.off]
        dice = self.chance.random()
        if dice < 0.15:
            drain()
        elif dice < 0.75:
            self.work(self.chance.choice(on))
        elif dice < 0.93:
            self.ask()
        elif dice < 0.95:
            self.expire()
        elif self.off and self.chance.random() < 0.6:
            self.come_back()
        else:
            self.die()
        self.check()

    def check(self) -> None:
        """At no moment do two guests of a server run."""
        for server in self.servers:
            alive = [
                name
                for name, agent in self.cloud.agents.items()
                if agent.guests.get(str(server.id), (0, PowerState.NOSTATE))[1] in ALIVE
            ]
            assert len(alive) <= 1, (server.name, alive)

    def rest(self) -> None:
        """Let everything end."""
        self.failing = False
        self.come_back()
        for _ in range(300):
            busy = sum(self.work(name) for name in HOSTS)
            self.check()
            if not busy and not drain():
                if not Instance.objects.exclude(task_state=None).exists():
                    break
                self.expire()
        for name in HOSTS:
            self.cloud.agents[name].hello()
        for _ in range(300):
            if not drain() and not sum(self.work(name) for name in HOSTS):
                break
            self.check()


@pytest.mark.parametrize("seed", range(24))
def test_each_server_has_one_guest(cloud: Cloud, alice: RequestContext, seed: int) -> None:
    for number, name in enumerate(HOSTS, 1):
        agent = cloud.add_host(name, documents=True)
        agent.host.host_ip = f"192.0.2.{number}"
        Host.objects.filter(name=name).update(host_ip=agent.host.host_ip)
    Host.objects.exclude(name__in=HOSTS).update(enabled=False)
    cloud.agents = {name: cloud.agents[name] for name in HOSTS}
    servers = [cloud.running(alice, name=f"server-{number}") for number in range(3)]
    world = World(cloud, servers, random.Random(seed))  # noqa: S311 - to be the same again
    for _ in range(220):
        world.step()
    world.rest()
    seen = Counter(Migration.objects.values_list("migration_type", "status"))
    assert len(seen) > 2, seen
    for server in servers:
        now = cloud.fresh(server)
        about = f"{now.name}: {now.vm_state}, {now.task_state}, {now.host_name}, {seen}"
        where = [name for name, agent in cloud.agents.items() if str(server.id) in agent.guests]
        second = list(MoveAllocation.objects.filter(instance=now).values_list("host__name", flat=True))
        assert now.task_state is None, about
        moves = Migration.objects.filter(instance=now).order_by("-id").values_list("migration_type", "status")
        if where or moves.first() != ("evacuation", "error"):
            assert sorted(where) == sorted({now.host_name, *second}), about
        else:  # its host came back before the evacuation failed, and had to remove it first
            assert (now.vm_state, now.host_name in HOSTS) == ("error", True), about
        assert bool(second) is (now.vm_state == "resized"), about
        assert Migration.objects.filter(instance=now, status__in=OPEN).exists() is bool(second), about
    invariants.check()
