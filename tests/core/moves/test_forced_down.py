"""Tasks whose host, or second host, is forced down: they end then, and not at their deadlines. Live migrations are in
``tests/core/test_live_forced_down.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from compute_agent.contract.commands import (
    BuildRequest,
    PowerRequest,
    ReceiveGuestRequest,
    ReturnGuestRequest,
    SendGuestRequest,
)
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.compute.actions.evacuate import Evacuate
from provisioning.compute.actions.migrate import migrate
from provisioning.compute.actions.power import Stop
from provisioning.compute.actions.resize import resize
from provisioning.compute.actions.revert_resize import RevertResize
from provisioning.compute.models import Instance, InstanceFault, Migration
from provisioning.compute.moves import cold
from provisioning.compute.services.hosts import change_host
from provisioning.compute.upkeep.reaper import reap
from provisioning.hosts.models import Host
from tests.core.moves.test_cold import addresses, command, home, moved, there
from tests.support.clouds import ADMIN, Cloud, context, state_of
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent

__all__ = ["addresses"]
pytestmark = pytest.mark.django_db

Dies = Callable[[ScriptedAgent], None]


def forced_down(agent: ScriptedAgent) -> None:
    """An operator forces the host down; the job of this request runs."""
    off(agent)
    change_host(context("operator", ADMIN), agent.host.id, forced_down=True)
    drain()


def forced_down_without_workers(agent: ScriptedAgent) -> None:
    """The job is lost, and a reaper begins."""
    off(agent)
    Host.objects.filter(id=agent.host.id).update(forced_down=True)
    reap()
    drain()


def off(agent: ScriptedAgent) -> None:
    agent.guests = {key: (attempt, PowerState.SHUTDOWN) for key, (attempt, _) in agent.guests.items()}
    long_ago = timezone.now() - timedelta(hours=1)
    Host.objects.filter(id=agent.host.id).update(last_seen_at=long_ago, connected=False)


each_way = pytest.mark.parametrize("dies", [forced_down, forced_down_without_workers])


def can_be_evacuated(instance: Instance) -> bool:
    Evacuate.begin(context("operator", ADMIN), instance.id)
    return True


# ----- cold -----------------------------------------------------------------------------------------------------------


def sends(cloud: Cloud) -> None:
    command(cloud.agents["h1"], SendGuestRequest)


def connects(cloud: Cloud) -> None:
    """The record has changed to the target, which has no command yet."""
    h1 = cloud.agents["h1"]
    h1.carry_out(command(h1, SendGuestRequest))


def copies(cloud: Cloud) -> None:
    connects(cloud)
    command(cloud.agents["h2"], ReceiveGuestRequest)


steps = pytest.mark.parametrize("step", [sends, connects, copies])


@each_way
@steps
def test_a_server_returns_from_a_target_that_is_lost(
    cloud: Cloud, operator: RequestContext, running: Instance, step: Callable[[Cloud], None], dies: Dies
) -> None:
    migrate(operator, running.id)
    step(cloud)
    dies(cloud.agents["h2"])
    reap()
    back = command(cloud.agents["h1"], ReturnGuestRequest)
    reap()  # does not end the return
    cloud.agents["h1"].carry_out(back)
    assert (state_of(running), home(cloud, running)) == (("active", None), "h1")
    assert there(cloud)["h1"] == PowerState.RUNNING
    assert Migration.objects.get().status == "error"
    assert InstanceFault.objects.latest("id").message == cold.HOST_LOST


@each_way
@steps
def test_a_server_whose_source_is_lost_can_be_evacuated(
    cloud: Cloud, operator: RequestContext, running: Instance, step: Callable[[Cloud], None], dies: Dies
) -> None:
    """As soon as the target has removed what it has of it."""
    migrate(operator, running.id)
    step(cloud)
    dies(cloud.agents["h1"])
    h2 = cloud.agents["h2"]
    for each in h2.take():
        h2.carry_out(each)
    drain()
    reap()
    assert (state_of(running), home(cloud, running)) == (("error", None), "h1")
    assert str(running.id) not in h2.guests
    assert can_be_evacuated(running)


def test_a_server_whose_disks_are_copied_needs_its_old_host_no_longer(
    cloud: Cloud, operator: RequestContext, running: Instance
) -> None:
    migrate(operator, running.id)
    connects(cloud)
    h2 = cloud.agents["h2"]
    receive = command(h2, ReceiveGuestRequest)
    h2.copied(receive)
    forced_down(cloud.agents["h1"])
    assert state_of(running) == ("active", "resize_finish")
    h2.carry_out(receive)
    assert (state_of(running), home(cloud, running)) == (("resized", None), "h2")


@each_way
@pytest.mark.parametrize(("lost", "end"), [("h1", "error"), ("h2", "active")])
def test_a_revert_ends_with_the_host_that_is_lost(
    cloud: Cloud, operator: RequestContext, running: Instance, dies: Dies, lost: str, end: str
) -> None:
    moved(cloud, operator, running)
    RevertResize.begin(operator, running.id)
    dies(cloud.agents[lost])
    reap()
    left = cloud.agents["h1" if lost == "h2" else "h2"]
    for _ in range(2):
        drain()
        left.work()
        drain()
        reap()
    assert (state_of(running), home(cloud, running)) == ((end, None), "h1")


@each_way
def test_a_resize_on_a_host_that_is_lost_ends(
    cloud: Cloud, alice: RequestContext, running: Instance, dies: Dies
) -> None:
    resize(alice, running.id, "2")
    dies(cloud.agents["h1"])
    assert state_of(running) == ("error", None)
    assert can_be_evacuated(running)


# ----- others ---------------------------------------------------------------------------------------------------------


@each_way
def test_a_task_of_a_host_that_is_lost_ends(cloud: Cloud, alice: RequestContext, running: Instance, dies: Dies) -> None:
    Stop.begin(alice, running.id)
    command(cloud.agents["h1"], PowerRequest)
    dies(cloud.agents["h2"])
    assert state_of(running) == ("active", "powering-off")
    dies(cloud.agents["h1"])
    assert state_of(running) == ("active", None)
    Host.objects.filter(name="h2").update(forced_down=False, last_seen_at=timezone.now())
    assert can_be_evacuated(running)


@each_way
def test_a_build_on_a_host_that_is_lost_ends(
    cloud: Cloud, alice: RequestContext, running: Instance, dies: Dies
) -> None:
    forced_down(cloud.agents["h1"])
    Evacuate.begin(context("operator", ADMIN), running.id)
    command(cloud.agents["h2"], BuildRequest)
    dies(cloud.agents["h2"])
    assert (state_of(running), home(cloud, running)) == (("error", None), "h1")
