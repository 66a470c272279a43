"""Guests that were rebuilt, resized or rescued since the copy that the records were restored from: each is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compute_agent.contract.power import PowerState
from provisioning.compute.actions.power import reboot
from provisioning.compute.actions.rebuild import Rebuild, RebuildAction
from provisioning.compute.actions.rescue import Unrescue, rescue
from provisioning.compute.actions.resize import ConfirmResize, resize
from provisioning.compute.actions.revert_resize import RevertResize
from provisioning.compute.models import Allocation, Instance
from provisioning.hosts import restored
from tests.core.interfaces.orders import attach
from tests.core.test_older_records import ACTIVE, NAMED, STOPPED, _nobody_works, a, newer, server, told_to_destroy
from tests.support.clouds import Cloud, context, state_of
from tests.support.copies import Copy
from tests.support.scripted_agent import ScriptedAgent

pytestmark = pytest.mark.slow

__all__ = ["_nobody_works", "a", "server"]
Change = Callable[[Cloud, Instance], None]


def rebuilt(cloud: Cloud, row: Instance) -> None:
    RebuildAction.begin(context("alice"), row.id, Rebuild(str(cloud.image.id)))
    cloud.run()
    assert state_of(row) == ACTIVE


def resized(cloud: Cloud, row: Instance) -> None:
    resize(context("alice"), row.id, "2")
    cloud.run()
    assert state_of(row) == ("resized", None)


def confirmed(cloud: Cloud, row: Instance) -> None:
    resized(cloud, row)
    ConfirmResize.begin(context("alice"), row.id)
    cloud.run()
    assert state_of(row) == ACTIVE


def reverted(cloud: Cloud, row: Instance) -> None:
    resized(cloud, row)
    RevertResize.begin(context("alice"), row.id)
    cloud.run()
    assert state_of(row) == ACTIVE


def rescued(cloud: Cloud, row: Instance) -> None:
    rescue(context("alice"), row.id)
    cloud.run()
    assert state_of(row) == ("rescued", None)


@pytest.mark.both_databases
@NAMED
@pytest.mark.parametrize("notified", [False, True], ids=["without the command", "after_restore"])
@pytest.mark.parametrize("change", [rebuilt, resized, confirmed, reverted, rescued])
def test_a_guest_that_was_made_again_since_the_copy_is_named_and_commanded_as_before(
    cloud: Cloud, server: Instance, a: ScriptedAgent, change: Change, notified: bool
) -> None:
    copy = Copy()
    change(cloud, server)
    number = a.guests[str(server.id)][0]
    copy.put_back()
    if notified:
        restored.after_restore()
    a.hello()
    assert newer() == [("a", "followed", number, cloud.fresh(server).attempt if notified else 1)]
    assert told_to_destroy(a) == 0
    a.power(server.id, PowerState.SHUTDOWN)
    assert state_of(server) == STOPPED
    rebuilt_at = cloud.fresh(server).attempt
    reboot(context("alice"), server.id, hard=True)
    cloud.run()
    assert a.sent[-1].kind == "finished"
    assert (state_of(server), cloud.fresh(server).attempt) == (ACTIVE, rebuilt_at)
    assert Allocation.objects.get().attempt == rebuilt_at


@NAMED
def test_a_rescue_that_was_left_since_the_copy_is_over(cloud: Cloud, server: Instance, a: ScriptedAgent) -> None:
    rescued(cloud, server)
    copy = Copy()
    Unrescue.begin(context("alice"), server.id)
    cloud.run()
    copy.put_back()
    a.hello()
    assert (state_of(server), cloud.fresh(server).rescue_image_id) == (ACTIVE, None)


def test_the_guest_of_before_counts_until_the_host_has_made_it_again(
    cloud: Cloud, server: Instance, a: ScriptedAgent
) -> None:
    resize(context("alice"), server.id, "2")
    (command,) = a.take()
    assert command.generation == 2
    a.hello()
    assert told_to_destroy(a) == 0
    a.report(command, "failed", error_code="failed", message="No.")
    assert state_of(server) == ACTIVE
    a.power(server.id, PowerState.SHUTDOWN)
    assert cloud.fresh(server).power_state == PowerState.SHUTDOWN


def test_the_guest_counts_that_was_made_again_and_then_was_not(
    cloud: Cloud, server: Instance, a: ScriptedAgent
) -> None:
    rebuilt(cloud, server)
    resize(context("alice"), server.id, "2")
    (command,) = a.take()
    a.report(command, "failed", error_code="failed", message="No.")
    assert (cloud.fresh(server).attempt, a.guests[str(server.id)][0]) == (3, 2)
    a.power(server.id, PowerState.SHUTDOWN)
    assert state_of(server) == STOPPED


def test_a_late_observation_of_the_guest_of_before_says_nothing(
    cloud: Cloud, server: Instance, a: ScriptedAgent
) -> None:
    rebuilt(cloud, server)
    number = a.guests[str(server.id)][0]
    a.guests[str(server.id)] = (number - 1, PowerState.SHUTDOWN)
    a.hello()
    assert state_of(server) == ACTIVE


def test_the_number_stays_while_another_command_is_on_its_way(cloud: Cloud, server: Instance, a: ScriptedAgent) -> None:
    """A host would call the other one superseded."""
    attach(server, network_id=str(cloud.network.id))
    RebuildAction.begin(context("alice"), server.id, Rebuild(str(cloud.image.id)))
    plug, rebuilding = a.take()
    assert plug.generation == rebuilding.generation == 1
    for command in (plug, rebuilding):
        a.carry_out(command)
    assert [event.kind for event in a.sent[-2:]] == ["finished", "finished"]
