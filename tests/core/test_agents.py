"""Hosts that join, come and go, and whose guests are compared with the records."""

from __future__ import annotations

import secrets
import uuid
from datetime import timedelta

import msgspec
import pytest
from django.utils import timezone

from compute_agent.contract.commands import DestroyRequest
from compute_agent.contract.messages import CONTRACT_VERSION, Enrol, GuestState, Hello
from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, InvalidInputError, NotAuthenticatedError, NotFoundError
from provisioning.compute import selectors
from provisioning.compute.actions.delete import delete
from provisioning.compute.host_link import image_transfers
from provisioning.compute.models import Instance
from provisioning.compute.services.hosts import change_host, disable_host, enable_host, update_host
from provisioning.compute.states import PowerState
from provisioning.doctor.examinations.examination import findings
from provisioning.hosts import audits, enrolment, liveness
from provisioning.hosts.models import Host, JoinToken
from provisioning.hosts.selectors import hosts_for
from provisioning.images.models import Image
from tests.support.clouds import Cloud, context, state_of
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent

pytestmark = pytest.mark.django_db


def request(token: str, host: str = "kelvin", credential: str | None = None) -> Enrol:
    return Enrol(join_token=token, host=host, credential=credential or secrets.token_hex(32))


def test_a_join_token_takes_one_host_in() -> None:
    token = enrolment.create_join_token()
    host = enrolment.enrol(request(token, credential="c" * 64))
    assert enrolment.authenticate("kelvin", "c" * 64).id == host.id
    assert host.reserved_memory_mb == 512
    with pytest.raises(NotAuthenticatedError):
        enrolment.enrol(request(token, host="ohm"))
    assert token not in str(list(JoinToken.objects.values())), "only digests are kept"
    assert "c" * 64 not in str(list(Host.objects.values()))


def test_an_enrolment_whose_answer_was_lost_succeeds_again() -> None:
    token = enrolment.create_join_token()
    first = enrolment.enrol(request(token, credential="c" * 64))
    assert enrolment.enrol(request(token, credential="c" * 64)).id == first.id


@pytest.mark.parametrize("lifetime", [-1, 0])
def test_an_expired_token_takes_nobody_in(lifetime: int) -> None:
    with pytest.raises(NotAuthenticatedError):
        enrolment.enrol(request(enrolment.create_join_token(lifetime=lifetime)))


def test_a_token_for_one_name_is_for_that_name() -> None:
    token = enrolment.create_join_token("kelvin")
    with pytest.raises(NotAuthenticatedError):
        enrolment.enrol(request(token, host="ohm"))
    assert enrolment.enrol(request(token)).name == "kelvin"


def test_only_a_token_made_for_a_host_replaces_its_credential() -> None:
    enrolment.enrol(request(enrolment.create_join_token(), credential="a" * 64))
    with pytest.raises(NotAuthenticatedError):
        enrolment.enrol(request(enrolment.create_join_token(), credential="b" * 64))
    enrolment.enrol(request(enrolment.create_join_token("kelvin"), credential="b" * 64))
    assert Host.objects.count() == 1
    with pytest.raises(NotAuthenticatedError):
        enrolment.authenticate("kelvin", "a" * 64)


@pytest.mark.parametrize("name", ["", "../x", "a b", "-x", "x" * 300, "x\n"])
def test_a_bad_host_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError):
        enrolment.enrol(request(enrolment.create_join_token(), host=name))


def test_a_short_credential_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        enrolment.enrol(request(enrolment.create_join_token(), credential="short"))


@pytest.mark.parametrize("credential", ["", "wrong"])
def test_unknown_hosts_and_wrong_credentials_get_the_same_answer(credential: str) -> None:
    enrolment.enrol(request(enrolment.create_join_token()))
    Host.objects.create(name="bare")
    messages = set()
    for name in ("kelvin", "bare", "unknown"):
        with pytest.raises(NotAuthenticatedError) as caught:
            enrolment.authenticate(name, credential)
        messages.add(caught.value.message)
    assert len(messages) == 1


def test_another_version_of_the_contract_is_refused_with_a_sentence(cloud: Cloud) -> None:
    host = cloud.add_host("kelvin").host
    with pytest.raises(NotAuthenticatedError, match="version"):
        liveness.connected(host.id, Hello(host="kelvin", contract=CONTRACT_VERSION + 1))
    with pytest.raises(NotAuthenticatedError, match="version"):
        enrolment.enrol(Enrol(join_token="x", host="ohm", credential="c" * 64, contract=CONTRACT_VERSION + 1))


def test_a_lost_link_alone_does_not_make_a_host_down(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    liveness.disconnected(agent.host.id)
    assert not Host.objects.get().connected
    instance = cloud.launch(alice)
    drain()
    assert state_of(instance) == ("building", "spawning")
    liveness.heartbeat(agent.host.id)
    assert Host.objects.get().connected


@pytest.mark.slow
def test_a_disabled_host_gets_no_new_servers(cloud: Cloud, alice: RequestContext, operator: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    assert disable_host(operator, agent.host.id, "broken fan").disabled_reason == "broken fan"
    instance = cloud.launch(alice)
    drain()
    assert "1 of 1 host is disabled" in selectors.fault_of([cloud.fresh(instance)])[instance.id].message
    enable_host(operator, agent.host.id)
    again = cloud.launch(context("alice"))
    cloud.run()
    assert state_of(again) == ("active", None)


def test_only_operators_touch_hosts(cloud: Cloud, alice: RequestContext, operator: RequestContext) -> None:
    host = cloud.add_host("kelvin").host
    for work in (enable_host, disable_host):
        with pytest.raises(ForbiddenError):
            work(alice, host.id)
        with pytest.raises(NotFoundError):
            work(operator, uuid.uuid4())
    with pytest.raises(ForbiddenError):
        hosts_for(alice)
    assert [row.name for row in hosts_for(operator)] == ["kelvin"]


def test_an_audit_with_absurd_numbers_is_cut(cloud: Cloud) -> None:
    agent = cloud.add_host("kelvin")
    audits.audit(agent.host.id, agent.audit(-5, 10**30, 7))
    host = Host.objects.get()
    assert (host.vcpus_total, host.memory_mb_total, host.disk_gb_total) == (0, 2_147_483_647, 7)


# ----- guests and records ---------------------------------------------------------------------------------------------


def test_a_guest_that_stopped_while_the_agent_was_away_is_found_stopped(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    agent.guests[str(instance.id)] = (1, PowerState.SHUTDOWN)
    agent.hello()
    assert state_of(instance) == ("stopped", None)
    assert cloud.fresh(instance).power_state == PowerState.SHUTDOWN
    agent.guests[str(instance.id)] = (1, PowerState.RUNNING)
    agent.hello()
    assert state_of(instance) == ("active", None)


def test_a_guest_that_is_missing_is_found_stopped(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    agent.guests.clear()
    agent.hello()
    assert state_of(instance) == ("stopped", None)
    assert cloud.fresh(instance).power_state == PowerState.NOSTATE
    assert [finding.check for finding in findings({"guests"})] == ["guests"]
    delete(alice, instance.id)
    cloud.run()


@pytest.mark.slow
def test_a_guest_of_a_deleted_server_is_destroyed(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    delete(alice, instance.id)
    cloud.run()
    agent.guests[str(instance.id)] = (2, PowerState.RUNNING)
    agent.hello()
    agent.hello()
    (order,) = agent.take()
    assert isinstance(order.body, DestroyRequest)
    assert order.generation == 3
    agent.carry_out(order)
    assert state_of(instance) == ("deleted", None)


def test_a_guest_of_a_server_that_is_elsewhere_is_destroyed(cloud: Cloud, alice: RequestContext) -> None:
    for name in ("kelvin", "ohm"):
        cloud.add_host(name)
    instance = cloud.launch(alice)
    cloud.run()
    home = cloud.agent_of(instance)
    other = next(agent for agent in cloud.agents.values() if agent is not home)
    other.guests[str(instance.id)] = (0, PowerState.RUNNING)
    other.hello()
    cloud.run()
    assert other.guests == {}
    assert str(instance.id) in home.guests
    assert state_of(instance) == ("active", None)


def test_a_guest_that_the_records_do_not_know_is_left_alone(cloud: Cloud) -> None:
    agent = cloud.add_host("kelvin")
    agent.guests[str(uuid.uuid4())] = (1, PowerState.RUNNING)
    agent.guests["not an id"] = (1, PowerState.RUNNING)
    agent.hello()
    assert agent.take() == []


def test_a_stale_audit_does_not_stop_a_server_that_just_started(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    shut = GuestState(instance_id=str(instance.id), attempt=1, power_state=PowerState.SHUTDOWN)
    report = msgspec.structs.replace(agent.audit(8, 8192, 100), guests=[shut])
    audits.audit(agent.host.id, report)
    assert state_of(instance) == ("active", None)
    Instance.objects.filter(id=instance.id).update(updated_at=timezone.now() - timedelta(minutes=5))
    audits.audit(agent.host.id, report)
    assert state_of(instance) == ("stopped", None)


# ----- images ---------------------------------------------------------------------------------------------------------


def test_a_host_gets_an_image_only_while_it_builds_from_it(cloud: Cloud, alice: RequestContext) -> None:
    for name in ("kelvin", "ohm"):
        cloud.add_host(name)
    instance = cloud.launch(alice)
    hosts = {agent.host.id for agent in cloud.agents.values()}

    def holders() -> set[uuid.UUID]:
        result = set()
        for host_id in hosts:
            try:
                assert image_transfers.image_to_get(host_id, instance.id, cloud.image.id).id == cloud.image.id
                result.add(host_id)
            except NotFoundError:
                pass
        return result

    assert holders() == set()
    drain()
    builder = cloud.agent_of(instance).host.id
    assert holders() == {builder}
    other = Image.objects.create(project_id=cloud.image.project_id, name="other", status="active")
    with pytest.raises(NotFoundError):
        image_transfers.image_to_get(builder, instance.id, other.id)
    cloud.run()
    assert holders() == set()


def test_an_audit_keeps_uptime_and_processor_as_plain_lines(db: None) -> None:
    agent = ScriptedAgent.join("kelvin")
    report = msgspec.structs.replace(
        agent.audit(8, 8192, 100), uptime=" 08:32 up\0 1 day\n", cpu_info={"model\0": "x\0y", "features": "f" * 9999}
    )
    audits.audit(agent.host.id, report)
    host = Host.objects.get()
    assert host.uptime == " 08:32 up  1 day"
    assert host.cpu_info == {"model": "x y", "features": "f" * 4096}


def test_a_change_of_nothing_finds_the_host(db: None, operator: RequestContext) -> None:
    agent = ScriptedAgent.join("kelvin")
    assert change_host(operator, agent.host.id).name == "kelvin"
    assert update_host(operator, agent.host.id, {}).name == "kelvin"
    with pytest.raises(NotFoundError):
        change_host(operator, uuid.uuid4())
