"""What is told of placing servers, and what hosts with bad manners can do to servers that are not theirs."""

from __future__ import annotations

import time
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from compute_agent.contract.commands import DestroyRequest
from compute_agent.contract.messages import SERVER, AgentEvent, Leftover, ResourceAudit
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.compute.actions.delete import DESTROY_COMMANDS, delete
from provisioning.compute.actions.power import Suspend
from provisioning.compute.actions.shelve import Shelve
from provisioning.compute.actions.unshelve import unshelve
from provisioning.compute.inbound.reports import MOST_STEPS
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import Allocation, Instance, InstanceActionEvent
from provisioning.compute.states import TaskState
from provisioning.compute.upkeep import reaper
from provisioning.doctor.examinations.examination import examine
from provisioning.hosts import audits, liveness, reports
from provisioning.hosts.models import Host, HostCommand
from provisioning.images import services as images
from provisioning.images.models import Image
from provisioning.network.models import Port
from tests.support.cast import Api, People
from tests.support.clouds import Cloud, context, state_of
from tests.support.scripted_agent import ScriptedAgent
from tests.support.standing import standing

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
WOULD_FIT = "/compute/v2.1/novella-would-fit"
LONG_AGO = timedelta(hours=1)


@pytest.fixture
def alice() -> RequestContext:
    return context("alice")


@pytest.fixture
@standing
def cloud(db: None) -> Cloud:
    return Cloud.make()


def with_an_interface(cloud: Cloud, caller: RequestContext) -> Instance:
    """A server at rest on the host ``one``, with an interface."""
    row = cloud.launch(caller, networks=(NetworkRequest(network_id=str(cloud.network.id)),))
    cloud.run()
    Instance.objects.filter(id=row.id).update(updated_at=timezone.now() - LONG_AGO)
    return cloud.fresh(row)


OLDER = 0
"""An attempt that no history knows: a guest of it is no newer one."""


def claimed_by(cloud: Cloud, row: Instance, attempt: int) -> ScriptedAgent:
    """A host ``two`` that says it has a guest of a server which is elsewhere, and keeps the order that it gets."""
    liar = cloud.agents.get("two") or ScriptedAgent.join("two")
    liar.guests[str(row.id)] = (attempt, PowerState.RUNNING)
    liar.hello()
    return liar


def orders_of(agent: ScriptedAgent, row: Instance) -> Any:
    return HostCommand.objects.filter(host_id=agent.host.id, subject_id=row.id, kind="destroy_request")


# ----- what users are told --------------------------------------------------------------------------------------------


def test_counting_servers_measures_no_more_than_the_quota(people: People, cloud: Cloud) -> None:
    """A request for a hundred would else count how much room the cloud has, which is for operators."""
    cloud.add_host("one", vcpus=500, memory_mb=500_000, disk_gb=5000)
    fit = Api(people.alice).post(WOULD_FIT, {"would_fit": {"flavorRef": "1", "count": 100}}).json()["would_fit"]
    assert fit["quota"] == 10
    assert (fit["fits"], fit["most"]) == (10, 10)
    assert "100 of these" not in fit["sentence"]
    seen = Api(people.operator).post(WOULD_FIT, {"would_fit": {"flavorRef": "1", "count": 100}}).json()["would_fit"]
    assert seen["fits"] == 100


# ----- hosts that speak of servers of others --------------------------------------------------------------------------


def test_a_host_that_claims_a_server_is_not_notified_of_it(cloud: Cloud, alice: RequestContext) -> None:
    """Whoever knows an id must not learn interfaces, addresses and firewall rules by saying that there is a guest of
    it.
    """
    cloud.add_host("one")
    row = with_an_interface(cloud, alice)
    assert Port.objects.filter(device_id=row.id).exists()
    liar = claimed_by(cloud, row, OLDER)
    (command,) = liar.take()
    assert isinstance(command.body, DestroyRequest)
    assert command.body == DestroyRequest(keep_root=True)
    liar.guests[str(row.id)] = (row.attempt, PowerState.RUNNING)
    liar.hello()
    assert liar.take() == []


def test_a_host_that_has_leftovers_is_not_notified_of_the_server(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("one")
    row = with_an_interface(cloud, alice)
    liar = cloud.add_host("two")
    liar.left = [Leftover(kind="folder", name=str(row.id), subject_id=str(row.id))]
    liar.measured()
    liar.measured()
    (command,) = liar.take()
    assert isinstance(command.body, DestroyRequest)
    assert command.body == DestroyRequest(keep_root=True)


def test_a_host_that_claims_a_deleted_server_does_not_keep_its_own_host_from_being_asked(
    cloud: Cloud, alice: RequestContext
) -> None:
    agent = cloud.add_host("one")
    row = with_an_interface(cloud, alice)
    Host.objects.filter(id=agent.host.id).update(last_seen_at=timezone.now() - LONG_AGO)
    delete(context("alice"), row.id)
    assert state_of(row) == ("deleted", None)
    liar = claimed_by(cloud, row, OLDER)
    assert orders_of(liar, row).exists()
    liveness.heartbeat(agent.host.id)
    (command,) = agent.take()
    agent.report(command, "failed", error_code="busy", message="not now")
    HostCommand.objects.update(created_at=timezone.now() - LONG_AGO)
    Instance.objects.filter(id=row.id).update(updated_at=timezone.now() - LONG_AGO)
    assert [finding.subject for finding in examine(["allocations"], pause=0)] == [f"instance {row.id}"]
    reaper.reap()
    assert orders_of(agent, row).filter(finished_at=None).exists()
    agent.work()
    assert not Allocation.objects.exists()


def test_orders_to_a_host_that_claims_a_server_are_not_counted_as_asking_its_own(
    cloud: Cloud, alice: RequestContext
) -> None:
    agent = cloud.add_host("one")
    row = with_an_interface(cloud, alice)
    delete(context("alice"), row.id)
    liar = cloud.add_host("two")
    for _ in range(DESTROY_COMMANDS):
        claimed_by(cloud, row, OLDER)
        for command in liar.take():
            liar.report(command, "failed", error_code="busy", message="not now")
    Instance.objects.filter(id=row.id).update(task_deadline=timezone.now() - timedelta(seconds=1))
    reaper.reap()
    assert state_of(row) == ("deleted", None) or state_of(row)[1] == TaskState.DELETING
    assert cloud.fresh(row).task_state == TaskState.DELETING
    assert orders_of(agent, row).count() == 2


def test_a_claim_above_the_records_attempt_is_given_no_order(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("one")
    row = with_an_interface(cloud, alice)
    assert claimed_by(cloud, row, 1000).take() == []
    assert (cloud.fresh(row).attempt, state_of(row)) == (row.attempt, ("active", None))


def test_an_end_that_was_ordered_for_a_claim_takes_nothing_from_a_server_that_came_since(
    cloud: Cloud, alice: RequestContext
) -> None:
    """The server comes to the host later, at least with the attempt of the order."""
    cloud.add_host("one")
    row = with_an_interface(cloud, alice)
    liar = claimed_by(cloud, row, OLDER)
    (kept,) = liar.take()
    assert kept.generation == row.attempt
    Host.objects.filter(name="one").update(enabled=False)
    cloud.agents["two"] = liar
    liar.guests.clear()
    for move in (Shelve.begin, unshelve):
        move(context("alice"), row.id)
        cloud.run()
    fresh = cloud.fresh(row)
    assert fresh.host is not None
    assert (fresh.vm_state, fresh.host.name) == ("active", "two")
    ports = Port.objects.filter(device_id=row.id).count()
    liar.report(kept, "finished", power_state=PowerState.NOSTATE)
    assert Port.objects.filter(device_id=row.id).count() == ports == 1
    assert Allocation.objects.filter(instance_id=row.id).exists()


# ----- what hosts say -------------------------------------------------------------------------------------------------

ODD = "a\x00b\x1b[2Jc\u2028d"


def test_what_a_host_says_of_itself_has_no_hidden_characters(cloud: Cloud) -> None:
    """PostgreSQL refuses NUL, terminals obey the others, and notifications carry the names on."""
    agent = cloud.add_host("one")
    report = ResourceAudit(
        vcpus=1, memory_mb=1, disk_gb=1, memory_mb_used=0, disk_gb_used=0, vcpus_used=0, running_vms=0,
        hypervisor_type=ODD, hypervisor_version=1, hypervisor_hostname=ODD, architecture=ODD, host_ip=ODD,
        cached_images=[ODD, "x" * 1000], uptime=ODD, cpu_info={ODD: ODD},
    )  # fmt: skip
    audits.audit(agent.host.id, report)
    row = Host.objects.get(id=agent.host.id)
    texts = [
        row.hypervisor_type,
        row.hypervisor_hostname,
        row.architecture,
        row.host_ip,
        row.uptime,
        *row.cached_images,
    ]
    assert all(text.isprintable() for text in [*texts, *row.cpu_info, *row.cpu_info.values()]), texts
    assert max(map(len, row.cached_images)) <= 255


def test_a_host_with_many_strange_things_hides_no_other_host_from_the_doctor(
    cloud: Cloud, alice: RequestContext
) -> None:
    loud, quiet = cloud.add_host("a"), cloud.add_host("b")
    loud.left = [
        Leftover(kind="folder", name=str(key), subject_id=str(key)) for key in (uuid.uuid4() for _ in range(400))
    ]
    key = str(uuid.uuid4())
    quiet.left = [Leftover(kind="folder", name=key, subject_id=key)]
    for agent in (loud, quiet, loud, quiet):
        agent.measured()
    findings = examine(["leftovers"], pause=0)
    assert any(each.subject == "host b" for each in findings)
    assert any("more" in each.sentence for each in findings if each.subject == "host a")


def test_a_host_makes_no_image_the_doctor_s_to_delete(cloud: Cloud, alice: RequestContext) -> None:
    """A detail of a step says whatever the host likes; a person uploads this one."""
    agent = cloud.add_host("one")
    row = with_an_interface(cloud, alice)
    mine = images.create(context("alice"), name="mine", properties={"instance_uuid": str(row.id)})
    Suspend.begin(context("alice"), row.id)
    (command,) = agent.take()
    for name in ("suspend", "api_suspend"):
        agent.report(command, "step", step=name, detail={"image": str(mine.id)})
    assert InstanceActionEvent.objects.filter(detail__image=str(mine.id)).exists()
    assert examine(["images"], pause=0) == []
    assert Image.objects.get(id=mine.id).status == Image.Status.QUEUED


def test_a_host_fills_no_history_with_steps_of_its_own_making(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("one")
    row = with_an_interface(cloud, alice)
    Suspend.begin(context("alice"), row.id)
    (command,) = agent.take()
    before = InstanceActionEvent.objects.count()
    letters = "abcdefghijklmnopqrst"
    events = [
        AgentEvent(
            number, SERVER, str(row.id), command.generation, "step", command.id,
            step=f"made_up_{letters[number // 20]}{letters[number % 20]}", finished_at=time.time(),
        )
        for number in range(400)
    ]  # fmt: skip
    for batch in (events[:5], events[5:200], events[200:]):
        reports.receive(agent.host.id, batch)
    assert 5 <= InstanceActionEvent.objects.count() - before <= MOST_STEPS
    agent.carry_out(command)
    assert state_of(row) == ("suspended", None)
