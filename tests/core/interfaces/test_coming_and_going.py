"""Interfaces that come to a server and go: ports, quota and orders, whatever happens between."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from django.utils import timezone

from compute_agent.contract.commands import (
    AttachInterfaceRequest,
    DetachInterfaceRequest,
    RebuildRequest,
)
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, NotFoundError, OverQuotaError, UnavailableError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.interfaces import attach_interface
from provisioning.compute.actions.lock import Unlock, lock
from provisioning.compute.actions.power import Resume, Stop, Suspend
from provisioning.compute.actions.rebuild import Rebuild, RebuildAction
from provisioning.compute.actions.reset_state import ResetState
from provisioning.compute.errors import InstanceBusyError, InstanceLockedError
from provisioning.compute.host_link.guest_spec import guest_spec
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import Instance, InstanceAction, InstanceActionEvent, InstanceFault
from provisioning.compute.upkeep.reaper import reap
from provisioning.hosts.models import Host, HostCommand
from provisioning.network import services as network
from provisioning.quotas.services.limits import set_limit
from provisioning.quotas.services.repair import examine
from tests.core.interfaces.orders import (
    LATE,
    attach,
    detach,
    ends,
    fail,
    interfaces,
    pass_deadlines,
    ports_held,
    ports_of_guest,
)
from tests.core.test_parallel import in_threads, unexpected
from tests.support import invariants
from tests.support.actions import service
from tests.support.clouds import Cloud, context, state_of
from tests.support.jobs import nobody_looked
from tests.support.ports import guest_addresses, guest_ports
from tests.support.scripted_agent import ScriptedAgent

pytestmark = pytest.mark.django_db


# ----- there and back -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_interface_comes_and_goes(cloud: Cloud, running: Instance, agent: ScriptedAgent) -> None:
    first = interfaces(running)
    port = attach(running, tag="back")
    assert interfaces(running) == [*first, port]
    assert (guest_ports().get(id=port).status, ports_held()) == ("BUILD", 2)
    assert state_of(running) == ("active", None)
    (order,) = agent.take()
    assert isinstance(order.body, AttachInterfaceRequest)
    assert [(interface.id, interface.tag) for interface in order.body.instance.ports] == [
        (first[0], ""),
        (port, "back"),
    ]
    assert order.body.port == order.body.instance.ports[1]
    assert order.deadline > 0
    agent.carry_out(order)
    assert guest_ports().get(id=port).status == "ACTIVE"
    detach(running, port)
    assert interfaces(running) == [*first, port]
    assert ports_of_guest(running) == first
    (order,) = agent.take()
    assert isinstance(order.body, DetachInterfaceRequest)
    assert ([interface.id for interface in order.body.instance.ports], order.body.port.id) == (first, port)
    agent.carry_out(order)
    assert interfaces(running) == first
    assert (guest_addresses().count(), ports_held()) == (1, 1)
    assert ends(running, "attach_interface") == ends(running, "detach_interface") == [(True, None)]
    steps = InstanceActionEvent.objects.filter(action__action="attach_interface").order_by("id")
    assert [(step.name, step.result, step.host) for step in steps] == [
        ("api_attach_interface", "Success", ""),
        ("compute_attach_interface", "Success", "kelvin"),
    ]


@pytest.mark.slow
def test_the_first_interface_can_go_and_the_others_keep_their_tags(
    cloud: Cloud, running: Instance, agent: ScriptedAgent
) -> None:
    (first,) = interfaces(running)
    port = attach(running, tag="back")
    detach(running, first)
    cloud.run()
    assert [(interface.id, interface.tag) for interface in guest_spec(cloud.fresh(running)).ports] == [(port, "back")]
    detach(running, port)
    cloud.run()
    assert (interfaces(running), ports_held()) == ([], 0)
    again = attach(running)
    cloud.run()
    assert (interfaces(running), ports_held()) == ([again], 1)


@pytest.mark.slow
def test_a_port_of_ones_own_is_free_again(cloud: Cloud, running: Instance, agent: ScriptedAgent) -> None:
    project = running.project_id
    mine = network.create_port(project, cloud.network)
    with pytest.raises(ConflictError, match="still in use"):
        attach(running, port_id=interfaces(running)[0])
    assert attach(running, port_id=str(mine.id)) == str(mine.id)
    assert ports_held() == 2
    cloud.run()
    detach(running, str(mine.id))
    cloud.run()
    mine.refresh_from_db()
    assert (mine.device_id, mine.host, mine.status, mine.leaving) == (None, "", "DOWN", False)
    assert (ports_held(), mine.fixed_ips.count()) == (2, 1)
    assert examine() == []


@pytest.mark.parametrize("state", ["pause", "stop"])
def test_states_in_which_interfaces_change(cloud: Cloud, running: Instance, state: str) -> None:
    service(state)(context("alice"), running.id)
    with pytest.raises(InstanceBusyError, match="Cannot 'attach_interface' instance"):
        attach(running)
    cloud.run()
    port = attach(running)
    cloud.run()
    assert port in interfaces(running)


def test_who_may_not_and_what_cannot(cloud: Cloud, running: Instance, charlie: RequestContext) -> None:
    with pytest.raises(NotFoundError, match=r"Instance .* could not be found"):
        attach_interface(charlie, running.id, NetworkRequest())
    with pytest.raises(NotFoundError, match=r"Port id .* could not be found"):
        detach(running, "5f1d2c3b-0000-4000-8000-000000000001")
    Suspend.begin(context("alice"), running.id)
    cloud.run()
    for deed in (lambda: attach(running), lambda: detach(running, interfaces(running)[0])):
        with pytest.raises(InstanceBusyError, match="vm_state suspended"):
            deed()
    Resume.begin(context("alice"), running.id)
    cloud.run()
    lock(context("alice"), running.id)
    for deed in (lambda: attach(running), lambda: detach(running, interfaces(running)[0])):
        with pytest.raises(InstanceLockedError):
            deed()
    Unlock.begin(context("alice"), running.id)
    Host.objects.update(last_seen_at=timezone.now() - timedelta(hours=1))
    for deed in (lambda: attach(running), lambda: detach(running, interfaces(running)[0])):
        with pytest.raises(UnavailableError):
            deed()
    assert (len(interfaces(running)), ports_held()) == (1, 1)
    assert not guest_ports().filter(leaving=True).exists()


# ----- what goes wrong ------------------------------------------------------------------------------------------------


def test_an_interface_that_a_host_cannot_plug_in_is_given_back(
    cloud: Cloud, running: Instance, agent: ScriptedAgent
) -> None:
    first = interfaces(running)
    attach(running)
    (order,) = agent.take()
    fail(agent, order)
    assert (interfaces(running), ports_held(), agent.take()) == (first, 1, [])
    assert ends(running, "attach_interface") == [(True, "It does not fit.")]
    assert InstanceFault.objects.get(instance=running).message == "It does not fit."
    assert state_of(running) == ("active", None)
    agent.repeat_everything()
    assert interfaces(running) == first


@pytest.mark.slow
@pytest.mark.parametrize("end", ["not_taken_back", "silent", "followed"])
def test_an_interface_that_may_be_in_the_guest_goes_when_the_host_says_so(
    cloud: Cloud, running: Instance, agent: ScriptedAgent, end: str
) -> None:
    first = interfaces(running)
    port = attach(running)
    if end == "followed":
        RebuildAction.begin(context("alice"), running.id, Rebuild(image_id=str(cloud.image.id)))
    order, *following = agent.take()
    if end == "silent":
        pass_deadlines()
        reap()
    else:
        fail(agent, order, "not_taken_back" if end == "not_taken_back" else "host_failed")
    for later in following:
        assert isinstance(later.body, RebuildRequest)
        assert port in [interface.id for interface in later.body.instance.ports]
        agent.carry_out(later)
    assert interfaces(running) == [*first, port]
    assert (ports_of_guest(running), guest_ports().get(id=port).status) == (first, "DOWN")
    ((finished, message),) = ends(running, "attach_interface")
    assert finished
    assert ("did not report" if end == "silent" else "It does not fit.") in (message or "")
    agent.report(order, "finished", power_state=PowerState.RUNNING)
    assert guest_ports().get(id=port).status == "DOWN"
    (order,) = agent.take()
    assert isinstance(order.body, DetachInterfaceRequest)
    assert order.deadline == 0
    agent.carry_out(order)
    assert (interfaces(running), ports_held()) == (first, 1)


def test_an_order_that_nobody_watched_gets_more_time(cloud: Cloud, running: Instance, agent: ScriptedAgent) -> None:
    port = attach(running)
    HostCommand.objects.filter(finished_at=None).update(deadline=timezone.now() - timedelta(hours=1))
    nobody_looked("compute.reaper", 3700)
    reap()
    nobody_looked("compute.reaper", 5)
    assert ends(running, "attach_interface") == [(False, None)]
    cloud.run()
    assert guest_ports().get(id=port).status == "ACTIVE"


@pytest.mark.slow
@pytest.mark.parametrize("silent", [True, False])
def test_an_interface_that_the_guest_does_not_give_stays(
    cloud: Cloud, running: Instance, agent: ScriptedAgent, silent: bool
) -> None:
    first = interfaces(running)
    detach(running, first[0])
    detach(running, first[0])
    (order,) = agent.take()
    if silent:
        pass_deadlines()
        reap()
    else:
        fail(agent, order)
    assert interfaces(running) == ports_of_guest(running) == first
    ((finished, message),) = ends(running, "detach_interface")
    assert finished
    assert message
    agent.report(order, "finished", power_state=PowerState.RUNNING)
    assert interfaces(running) == first
    following = agent.take()
    assert [type(again.body) for again in following] == ([AttachInterfaceRequest] if silent else [])
    for again in following:
        agent.carry_out(again)
    assert guest_ports().get(id=first[0]).status == "ACTIVE"
    detach(running, first[0])
    cloud.run()
    assert interfaces(running) == []


def test_an_interface_that_stays_after_all_is_in_what_was_built_meanwhile(
    cloud: Cloud, running: Instance, agent: ScriptedAgent
) -> None:
    first = interfaces(running)
    detach(running, first[0])
    RebuildAction.begin(context("alice"), running.id, Rebuild(image_id=str(cloud.image.id)))
    order, later = agent.take()
    assert isinstance(later.body, RebuildRequest)
    assert later.body.instance.ports == []
    fail(agent, order)
    agent.carry_out(later)
    (again,) = agent.take()
    assert isinstance(again.body, AttachInterfaceRequest)
    assert again.body.port.id == first[0]
    agent.carry_out(again)
    assert (interfaces(running), state_of(running)) == (first, ("active", None))


@pytest.mark.slow
@pytest.mark.parametrize("what", ["attach", "detach"])
def test_a_delete_in_the_middle_leaves_nothing(
    cloud: Cloud, running: Instance, agent: ScriptedAgent, what: str
) -> None:
    attach(running) if what == "attach" else detach(running, interfaces(running)[0])
    (order,) = agent.take()
    delete(context("alice"), running.id)
    agent.report(order, "finished", power_state=PowerState.RUNNING)
    cloud.run()
    assert state_of(running) == ("deleted", None)
    assert not InstanceAction.objects.filter(instance=running, finished_at=None).exists()
    invariants.check_empty()
    pass_deadlines()
    reap()
    agent.repeat_everything()
    invariants.check_empty()


@pytest.mark.slow
def test_two_orders_close_each_its_own_action(cloud: Cloud, running: Instance, agent: ScriptedAgent) -> None:
    one, two = attach(running), attach(running)
    first, second = agent.take()
    fail(agent, second)
    assert ends(running, "attach_interface") == [(False, None), (True, "It does not fit.")]
    agent.carry_out(first)
    assert ends(running, "attach_interface") == [(True, None), (True, "It does not fit.")]
    cloud.run()
    assert one in interfaces(running)
    assert two not in interfaces(running)


def test_a_reset_and_a_silent_task_leave_interfaces_to_their_own_orders(
    cloud: Cloud, running: Instance, agent: ScriptedAgent, operator: RequestContext
) -> None:
    port = attach(running)
    Stop.begin(context("alice"), running.id)
    order, _ = agent.take()
    Instance.objects.filter(id=running.id).update(task_deadline=timezone.now() - LATE)
    reap()
    assert state_of(running) == ("active", None)
    ResetState.begin(operator, running.id, "error")
    agent.carry_out(order)
    assert guest_ports().get(id=port).status == "ACTIVE"


# ----- quota and parallel requests ------------------------------------------------------------------------------------


def test_the_quota_of_ports_holds_and_leaves_nothing(cloud: Cloud, running: Instance, alice: RequestContext) -> None:
    set_limit(running.project_id, "ports", 1)
    with pytest.raises(OverQuotaError, match="Quota exceeded for ports: Requested 1, but already used 1 of 1"):
        attach(running)
    assert (len(interfaces(running)), ports_held()) == (1, 1)
    assert not InstanceAction.objects.filter(action="attach_interface").exists()


@pytest.mark.slow
@pytest.mark.both_databases
def test_many_at_once_pass_no_quota(shared_cloud: Cloud, alice: RequestContext) -> None:
    agent = shared_cloud.add_host("kelvin")
    servers = [shared_cloud.launch(context("alice")) for _ in range(2)]
    shared_cloud.run()
    set_limit(servers[0].project_id, "ports", 5)
    results = in_threads(8, lambda index: attach(servers[index % 2]))
    assert not unexpected(results)
    assert Counter(type(result) for result in results) == {str: 3, OverQuotaError: 5}
    assert (guest_ports().count(), ports_held()) == (5, 5)
    assert len({fixed.address for fixed in guest_addresses().all()}) == 5
    shared_cloud.run()
    assert agent.take() == []
    results = in_threads(8, lambda index: detach(servers[index % 2], interfaces(servers[index % 2])[0]))
    assert not unexpected(results)
    shared_cloud.run()
    assert ports_held() == 3
    assert examine() == []
