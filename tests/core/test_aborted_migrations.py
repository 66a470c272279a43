"""Live migrations that are aborted at random moments: each time one guest, where the records say, and nothing left."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from unittest import mock

import pytest

from compute_agent.contract.calls import CallError
from compute_agent.contract.messages import Command
from compute_agent.contract.migration import (
    UNDECIDED,
    KeepLiveRequest,
    MigrationControlled,
    ReceiveLiveRequest,
    SendLiveRequest,
)
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.compute.actions.live_migrate import (
    LiveMigrate,
    LiveMigration,
    abort_live_migration,
    force_live_migration,
)
from provisioning.compute.actions.power import Pause
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.models import Instance, InstanceFault, Migration, MoveAllocation
from provisioning.hosts.models import Host
from tests.support import invariants
from tests.support.clouds import ADMIN, Cloud, context, state_of
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

ALIVE = (PowerState.RUNNING, PowerState.PAUSED)
REFUSED = (ConflictError, InvalidInputError, NotFoundError, InstanceBusyError)
MOST_STEPS = 200


@pytest.fixture
def server(cloud: Cloud, alice: RequestContext) -> Instance:
    for number, name in enumerate(("one", "two"), 1):
        cloud.add_host(name, documents=True)
        Host.objects.filter(name=name).update(host_ip=f"192.0.2.{number}")
        cloud.agents[name].host.host_ip = f"192.0.2.{number}"
    return cloud.running(alice)


class Play:
    """One migration between two hosts. Each of its steps happens at a random time, or never; each host's reports arrive
    late, in their order.
    """

    def __init__(self, cloud: Cloud, server: Instance, chance: random.Random) -> None:
        self.cloud, self.chance, self.key = cloud, chance, str(server.id)
        self.source = cloud.agent_of(server)
        [self.target] = [agent for agent in cloud.agents.values() if agent is not self.source]
        self.power = self.source.guests[self.key][1]
        self.receive: Command | None = None
        self.send: Command | None = None
        self.copying = self.aborted = False
        self.late: dict[str, deque[Callable[[], None]]] = {name: deque() for name in cloud.agents}
        LiveMigrate.begin(context("operator", ADMIN), server.id, LiveMigration())
        self.number = str(_newest().id)

    def report(self, agent: ScriptedAgent, command: Command, kind: str, **values: object) -> None:
        self.late[agent.host.name].append(lambda: agent.report(command, kind, **values))

    def steps(self) -> list[Callable[[], object]]:
        """Return what can happen now."""
        result: list[Callable[[], object]] = [drain, lambda: self.work(self.target), lambda: self.work(self.source)]
        result += [self.deliver] * 2 if any(self.late.values()) else []
        result += [self.abort] if not self.aborted and self.chance.random() < 0.2 else []
        result += [self.complete] if self.chance.random() < 0.1 else []
        if self.copying and self.send is not None and self.receive is not None:
            result += [self.progress, self.arrive, self.lose, self.lose_after_arrival]
        return result

    def work(self, agent: ScriptedAgent) -> None:
        """Let a host take its commands."""
        for command in agent.take():
            if isinstance(command.body, ReceiveLiveRequest):
                self.receive = command
                if self.chance.random() < 0.1:
                    self.report(agent, command, "failed", error_code="migration_failed", message="No.")
                else:
                    self.late[agent.host.name].append(partial(agent.listens, command))
            elif isinstance(command.body, SendLiveRequest):
                self.send, self.copying = command, True
            elif isinstance(command.body, KeepLiveRequest):
                self.late[agent.host.name].append(partial(self.keep, command))
            else:
                self.late[agent.host.name].append(partial(agent.carry_out, command))

    def keep(self, command: Command) -> None:
        """Let the guest continue on the source; one that its user has paused stays paused."""
        self.source.guests[self.key] = (self.source.guests[self.key][0], self.power)
        self.source.report(command, "finished", power_state=self.power)

    def deliver(self) -> None:
        waiting = [queue for queue in self.late.values() if queue]
        self.chance.choice(waiting).popleft()()
        if self.chance.random() < 0.1:
            self.chance.choice([self.source, self.target]).repeat_everything()

    def progress(self) -> None:
        detail = {"done": "10", "total": "100", "disk_done": "5", "disk_total": "50"}
        self.report(self.source, self.send, "progress", detail=detail)  # type: ignore[arg-type] # while it copies

    def leave(self, at_source: PowerState, on_target: PowerState | None) -> None:
        """End the copying: the guest is on the source or on the target, or stands still on the source."""
        self.copying = False
        self.source.guests[self.key] = (self.source.guests[self.key][0], at_source)
        if on_target is not None and self.receive is not None:
            self.target.guests[self.key] = (self.receive.generation, on_target)

    def arrive(self) -> None:
        assert self.send is not None and self.receive is not None  # noqa: PT018
        self.leave(PowerState.SHUTDOWN, self.power)
        self.report(self.target, self.receive, "finished", power_state=self.power)
        self.report(self.source, self.send, "finished", power_state=PowerState.NOSTATE)

    def lose(self) -> None:
        """Cut the connection before the switch: the source cannot know that."""
        assert self.send is not None and self.receive is not None  # noqa: PT018
        self.leave(PowerState.PAUSED, None)
        self.report(self.source, self.send, "failed", error_code=UNDECIDED, message="Lost.")
        self.report(self.target, self.receive, "failed", error_code="migration_failed", message="Lost.")

    def lose_after_arrival(self) -> None:
        """Cut the connection after the switch: the source cannot know that."""
        assert self.send is not None and self.receive is not None  # noqa: PT018
        self.leave(PowerState.SHUTDOWN, self.power)
        self.report(self.source, self.send, "failed", error_code=UNDECIDED, message="Lost.")
        self.report(self.target, self.receive, "finished", power_state=self.power)

    def answer(self, *_: object, **__: object) -> MigrationControlled | CallError:
        """Answer as the source does that is asked to abort."""
        if not self.copying or self.send is None or self.receive is None:
            return CallError(code="not_found", message="It is not being sent.")
        self.leave(self.power, None)
        self.report(self.source, self.send, "failed", error_code="stopped", message="Aborted.", power_state=self.power)
        self.report(self.target, self.receive, "failed", error_code="migration_failed", message="Aborted.")
        return MigrationControlled()

    def abort(self) -> None:
        with mock.patch("provisioning.hosts.calls.call", side_effect=self.answer):
            try:
                abort_live_migration(context("operator", ADMIN), self.key, self.number)
            except REFUSED:
                return
        self.aborted = True

    def complete(self) -> None:
        """Complete it; the host that is asked does so as soon as it can, or not."""
        with mock.patch("provisioning.hosts.calls.call", return_value=MigrationControlled()):
            try:
                force_live_migration(context("operator", ADMIN), self.key, self.number)
            except REFUSED:
                return

    def check(self) -> None:
        """At no moment do two guests run, or none."""
        alive = [agent for agent in (self.source, self.target) if agent.guests.get(self.key, (0, 0))[1] in ALIVE]
        assert len(alive) == 1, [agent.guests for agent in (self.source, self.target)]

    def end(self) -> str:
        """Let everything arrive that is on its way; return the status of the migration."""
        for _ in range(MOST_STEPS):
            self.check()
            if any(self.late.values()):
                self.deliver()
            elif self.copying and self.send is not None:
                self.arrive()
            else:
                drain()
                self.work(self.source)
                self.work(self.target)
                if not any(self.late.values()) and not self.copying and not drain():
                    break
        self.check()
        return _newest().status


def _newest() -> Migration:
    return Migration.objects.latest("id")


@pytest.mark.parametrize("mode", ["running", "paused", "post-copy"])
@pytest.mark.parametrize("times", [12, pytest.param(100, marks=pytest.mark.deep)])
def test_there_is_one_guest_and_nothing_is_left(
    cloud: Cloud, server: Instance, alice: RequestContext, settings: object, mode: str, times: int
) -> None:
    settings.LIVE_MIGRATION_POST_COPY = mode == "post-copy"  # type: ignore[attr-defined]
    if mode == "paused":
        Pause.begin(alice, server.id)
        cloud.run()
    rest, ends = state_of(server), Counter[str]()
    for seed in range(times):
        faults = InstanceFault.objects.count()
        play = Play(cloud, server, random.Random(seed))  # noqa: S311 - to be the same again
        for _ in range(play.chance.randint(0, 40)):
            play.chance.choice(play.steps())()
            play.check()
        play.abort()
        status = play.end()
        now, home = cloud.fresh(server), cloud.agent_of(server)
        where = f"seed {seed}: {status}"
        assert state_of(server) == rest, where
        assert [agent.host.name for agent in cloud.agents.values() if agent.guests] == [home.host.name], where
        assert home.guests[play.key][1] == play.power == now.power_state, where
        assert not MoveAllocation.objects.exists(), where
        assert (now.host_name == play.target.host.name) is (status == "completed"), where
        assert status == "cancelled" or not play.aborted, where
        assert (InstanceFault.objects.count() == faults) is (status != "error"), where
        ends[status] += 1
        if seed % 10 == 0 or seed == times - 1:
            invariants.check()
    assert min(ends["completed"], ends["cancelled"]) > 1, ends
