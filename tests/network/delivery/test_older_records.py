"""Hosts that know newer documents than the records, because a copy of the database was put back or a failure took the
last transactions: what the records say wins, above the host's number, and the doctor reports it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest
from django.db.models import Model
from django.utils import timezone
from pytest_django import Settings

from compute_agent.contract.messages import DOCUMENTS, MAX_DOCUMENT, Owned
from compute_agent.contract.network import FLOATING_IP, NETWORK, ROUTER, SECURITY_GROUP
from provisioning.common.context import RequestContext
from provisioning.compute.models import Instance
from provisioning.doctor.examinations.examination import treat
from provisioning.hosts import audits, liveness, restored
from provisioning.hosts.models import HostCommand
from provisioning.network import services
from provisioning.network.delivery import documents, jobs, sending
from provisioning.network.errors import NoNetworkAvailableError, TunnelIdInUseError
from provisioning.network.models import (
    Delivery,
    DeliveryMark,
    FloatingIP,
    Network,
    Port,
    Router,
    SecurityGroup,
    SecurityGroupRule,
)
from provisioning.network.records.marks import mark
from tests.core.doctor.findings import look, only
from tests.network.delivery.conftest import knew, known
from tests.network.delivery.test_what_hosts_are_told import port_of, two_guests
from tests.support.clouds import Cloud
from tests.support.landing import first_of_each, one_in
from tests.support.scripted_agent import ScriptedAgent


class Copy:
    """A copy of some tables, and how it is put back."""

    def __init__(self, *models: type[Model]) -> None:
        self._rows = {model: list(model._base_manager.values()) for model in (Delivery, *models)}

    def put_back(self) -> None:
        """Give the tables what they had, row by row."""
        DeliveryMark.objects.all().delete()
        for model, rows in self._rows.items():
            model._base_manager.exclude(pk__in=[row["id"] for row in rows]).delete()
            for row in rows:
                model._base_manager.update_or_create(pk=row["id"], defaults=row)


def hello(cloud: Cloud, *agents: ScriptedAgent) -> None:
    """Let the agents come back, and let everything that follows be carried out."""
    for agent in agents:
        agent.hello(documents=agent.listed(), contract=DOCUMENTS)
    cloud.run()


def opened(agent: ScriptedAgent, group: SecurityGroup) -> list[int]:
    """Return the TCP ports that a host lets in."""
    rules = known(agent, SECURITY_GROUP, group.id).rules
    return sorted(rule.port_range_min for rule in rules if rule.direction == "ingress" and rule.protocol == "tcp")


def let_in(cloud: Cloud, group: SecurityGroup, port: int) -> SecurityGroupRule:
    rule = services.allow_ingress(group, "tcp", port)
    cloud.run()
    return rule


@pytest.fixture
def group(cloud: Cloud, alice: RequestContext) -> tuple[SecurityGroup, ScriptedAgent, ScriptedAgent]:
    first, _, one, two = two_guests(cloud, alice)
    return port_of(first).security_groups.get(), one, two


@pytest.mark.slow
@pytest.mark.both_databases
def test_rules_are_closed_again_as_soon_as_the_host_is_back(
    cloud: Cloud, group: tuple[SecurityGroup, ScriptedAgent, ScriptedAgent]
) -> None:
    mine, one, two = group
    let_in(cloud, mine, 22)
    copy = Copy(SecurityGroupRule)
    let_in(cloud, mine, 3389)
    let_in(cloud, mine, 5432)
    newest = one.documents[SECURITY_GROUP, str(mine.id)][0]
    copy.put_back()
    hello(cloud, one, two)
    assert (opened(one, mine), opened(two, mine)) == ([22], [22])
    assert one.documents[SECURITY_GROUP, str(mine.id)][0] > newest
    assert {finding.check for finding in look("newer_documents")} == {"newer_documents"}
    for finding in look("newer_documents"):
        treat([finding], repair=True)
    assert look("newer_documents", "deliveries") == []


@pytest.mark.slow
def test_a_change_over_a_standing_link_is_reported_above_the_host_s_number(
    cloud: Cloud, group: tuple[SecurityGroup, ScriptedAgent, ScriptedAgent]
) -> None:
    mine, one, _ = group
    rule = let_in(cloud, mine, 22)
    copy = Copy(SecurityGroupRule)
    let_in(cloud, mine, 3389)
    let_in(cloud, mine, 5432)
    copy.put_back()
    SecurityGroupRule.objects.filter(id=rule.id).delete()
    mark(SECURITY_GROUP, [mine.id])
    cloud.run()
    assert opened(one, mine) == []
    assert Delivery.objects.filter(kind=SECURITY_GROUP, subject_id=mine.id, newer_at=None).count() == 0
    assert set(Delivery.objects.values_list("error", flat=True)) == {""}


@pytest.mark.slow
@pytest.mark.both_databases
def test_another_document_under_the_same_number_is_reported_again(
    cloud: Cloud, group: tuple[SecurityGroup, ScriptedAgent, ScriptedAgent]
) -> None:
    """The last transaction is lost, and the next change has its number."""
    mine, one, two = group
    copy = Copy(SecurityGroupRule)
    let_in(cloud, mine, 3389)
    held = [
        (each.documents[SECURITY_GROUP, str(mine.id)], each.digests[SECURITY_GROUP, str(mine.id)])
        for each in (one, two)
    ]
    copy.put_back()
    for agent in (one, two):
        agent.fences.clear()
    let_in(cloud, mine, 22)
    for agent, (document, digest) in zip((one, two), held, strict=True):
        agent.documents[SECURITY_GROUP, str(mine.id)] = document
        agent.digests[SECURITY_GROUP, str(mine.id)] = digest
    hello(cloud, one, two)
    assert opened(one, mine) == [22]
    assert look("newer_documents")


@pytest.mark.slow
def test_an_audit_shows_it_while_the_link_stands(
    cloud: Cloud, group: tuple[SecurityGroup, ScriptedAgent, ScriptedAgent]
) -> None:
    mine, one, _ = group
    copy = Copy(SecurityGroupRule)
    let_in(cloud, mine, 3389)
    copy.put_back()
    audits.compare_documents(one.host.id, one.listed(), complete=False)
    cloud.run()
    assert opened(one, mine) == []
    settled = dict(one.documents)
    audits.compare_documents(one.host.id, [], complete=False)
    cloud.run()
    assert one.documents == settled, "an audit may be older than what was told meanwhile"


def lose_the_end(agent: ScriptedAgent, kind: str, key: uuid.UUID, *, ago: float = 0.0) -> None:
    """Let the records be as before the host reported the end of its last command about a document."""
    last = HostCommand.objects.filter(host_id=agent.host.id, subject_kind=kind, subject_id=key).latest("created_at")
    HostCommand.objects.filter(id=last.id).update(finished_at=None)
    row = {"host_id": agent.host.id, "kind": kind, "subject_id": key}
    changed = {"command_id": last.id, "changed_at": timezone.now() - timedelta(seconds=ago)}
    if not Delivery.objects.filter(**row).update(**changed):
        Delivery.objects.create(**row, digest="", generation=last.generation, **changed)


def waited_for() -> int:
    return HostCommand.objects.filter(finished_at=None).count()


@pytest.mark.slow
def test_a_change_is_reported_although_the_end_of_the_one_before_is_lost(
    cloud: Cloud, group: tuple[SecurityGroup, ScriptedAgent, ScriptedAgent]
) -> None:
    mine, one, two = group
    let_in(cloud, mine, 22)
    lose_the_end(one, SECURITY_GROUP, mine.id)
    let_in(cloud, mine, 3389)
    audits.compare_documents(one.host.id, one.listed(), complete=False)
    cloud.run()
    assert (opened(one, mine), opened(two, mine)) == ([22], [22, 3389]), "its end may still come"
    Delivery.objects.update(changed_at=timezone.now() - timedelta(minutes=3))
    audits.compare_documents(one.host.id, one.listed(), complete=False)
    cloud.run()
    assert opened(one, mine) == [22, 3389]
    assert waited_for() == 0


@pytest.mark.slow
def test_what_was_forgotten_is_reported_again_although_that_end_is_lost(
    cloud: Cloud, group: tuple[SecurityGroup, ScriptedAgent, ScriptedAgent]
) -> None:
    mine, one, _ = group
    document = one.documents[SECURITY_GROUP, str(mine.id)]
    with pytest.MonkeyPatch.context() as unneeded:
        unneeded.setattr(documents, "of", lambda kind, key: {})
        sending.bring(SECURITY_GROUP, mine.id)
        cloud.run()
    assert (SECURITY_GROUP, str(mine.id)) not in one.documents
    lose_the_end(one, SECURITY_GROUP, mine.id, ago=180)
    hello(cloud, one)
    assert one.documents[SECURITY_GROUP, str(mine.id)][1] == document[1]
    assert waited_for() == 0


@pytest.mark.slow
@one_in(2, "taken", [True, False])
def test_after_restore_nobody_waits_for_commands_that_ended_since_the_copy(
    cloud: Cloud,
    group: tuple[SecurityGroup, ScriptedAgent, ScriptedAgent],
    monkeypatch: pytest.MonkeyPatch,
    *,
    taken: bool,
) -> None:
    """The host knows a command that it has ended and is sent again, and reports nothing."""
    mine, one, two = group
    let_in(cloud, mine, 22)
    lose_the_end(one, SECURITY_GROUP, mine.id)
    if not taken:
        HostCommand.objects.filter(finished_at=None).update(acknowledged_at=None)
    monkeypatch.setattr(restored, "_is_anybody_working", lambda: False)
    restored.after_restore()
    assert waited_for() == 0
    hello(cloud, one, two)
    assert opened(one, mine) == [22]
    assert waited_for() == 0


@pytest.mark.slow
def test_a_host_of_an_older_version_is_notified_again_by_the_number_alone(
    cloud: Cloud, group: tuple[SecurityGroup, ScriptedAgent, ScriptedAgent]
) -> None:
    mine, one, _ = group
    copy = Copy(SecurityGroupRule)
    let_in(cloud, mine, 3389)
    copy.put_back()
    documents = [
        Owned(subject_kind=kind, subject_id=key, generation=generation)
        for (kind, key), (generation, _) in one.documents.items()
    ]
    one.hello(documents=documents, contract=DOCUMENTS)
    cloud.run()
    assert opened(one, mine) == []


def change_network(cloud: Cloud, router: Router, floating: FloatingIP) -> None:
    Network.objects.filter(id=cloud.network.id).update(mtu=1300)


def change_router(cloud: Cloud, router: Router, floating: FloatingIP) -> None:
    Router.objects.filter(id=router.id).update(routes=[{"destination": "198.51.100.0/24", "nexthop": "10.20.0.7"}])


def change_floating_ip(cloud: Cloud, router: Router, floating: FloatingIP) -> None:
    FloatingIP.objects.filter(id=floating.id).update(fixed_address="10.20.0.250")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "change"),
    first_of_each(
        [(ROUTER, change_router), (NETWORK, change_network), (FLOATING_IP, change_floating_ip)], lambda _: "all"
    ),
)
def test_networks_routers_and_floating_ips_are_reported_again(
    cloud: Cloud, alice: RequestContext, kind: str, change: Callable[[Cloud, Router, FloatingIP], None]
) -> None:
    first, _, one, two = two_guests(cloud, alice)
    router, floating = led_out(cloud, alice, first)
    subject = {NETWORK: cloud.network.id, ROUTER: router.id, FLOATING_IP: floating.id}[kind]
    before = known(one, kind, subject)
    assert before is not None
    copy = Copy(Network, Router, FloatingIP)
    change(cloud, router, floating)
    mark(kind, [subject])
    cloud.run()
    assert known(one, kind, subject) != before
    copy.put_back()
    hello(cloud, one, two)
    assert known(one, kind, subject) == before


def led_out(cloud: Cloud, alice: RequestContext, row: Instance) -> tuple[Router, FloatingIP]:
    external = services.create_network(
        cloud.network.project_id, "public", external=True, network_type="flat", physical_network="external"
    )
    services.create_subnet(external, "203.0.113.0/24", enable_dhcp=False)
    assert alice.project_id is not None
    router = services.create_router(alice.project_id, name="r", gateway=services.Gateway(external))
    services.add_interface_by_subnet(router, cloud.network.subnets.get(), anywhere=True)
    floating = services.create_floating_ip(alice.project_id, external, port=port_of(row))
    cloud.run()
    return router, floating


@pytest.mark.slow
def test_what_the_records_do_not_know_is_forgotten(cloud: Cloud, alice: RequestContext) -> None:
    first, _, one, two = two_guests(cloud, alice)
    router, floating = led_out(cloud, alice, first)
    needed = {(ROUTER, str(router.id)), (FLOATING_IP, str(floating.id))}
    assert needed <= one.documents.keys()
    FloatingIP.objects.all().delete()
    Router.objects.all().delete()
    Port.objects.filter(device_owner__startswith="network:router").delete()
    Delivery.objects.filter(kind__in=(ROUTER, FLOATING_IP)).delete()
    hello(cloud, one, two)
    assert {kind for kind, _ in one.documents} == {NETWORK, SECURITY_GROUP}


@pytest.mark.slow
def test_a_deleted_record_that_is_back_is_reported_again(cloud: Cloud, alice: RequestContext) -> None:
    """The host has forgotten it under a higher number than that of the records."""
    first, _, one, two = two_guests(cloud, alice)
    _, floating = led_out(cloud, alice, first)
    copy = Copy(FloatingIP)
    FloatingIP.objects.filter(id=floating.id).delete()
    mark(FLOATING_IP, [floating.id])
    cloud.run()
    assert known(one, FLOATING_IP, floating.id) is None
    copy.put_back()
    hello(cloud, one, two)
    assert known(one, FLOATING_IP, floating.id).address == floating.address


@pytest.mark.slow
@pytest.mark.both_databases
def test_what_a_guest_uses_that_no_record_places_there_is_kept_and_reported(
    cloud: Cloud, group: tuple[SecurityGroup, ScriptedAgent, ScriptedAgent]
) -> None:
    mine, one, two = group
    let_in(cloud, mine, 22)
    one.used = {(SECURITY_GROUP, str(mine.id)), (NETWORK, str(cloud.network.id))}
    Port.objects.filter(host=one.host.name, device_owner__startswith="compute").update(host="")
    unknown = uuid.uuid4()
    knew(one, NETWORK, unknown, 9, known(one, NETWORK, cloud.network.id))
    one.used.add((NETWORK, str(unknown)))
    hello(cloud, one, two)
    assert (NETWORK, str(unknown)) in one.documents
    owned = {(each.subject_kind, each.subject_id) for each in liveness.ownership(one.host.id).subjects}
    assert (NETWORK, str(unknown)) in owned, "an agent that starts keeps it, too"
    assert opened(one, mine) == [22]
    SecurityGroupRule.objects.filter(group=mine, port_range_min=22).delete()
    mark(SECURITY_GROUP, [mine.id])
    cloud.run()
    assert opened(one, mine) == [], "the owner's rules hold for that guest, too"
    jobs.look_over()
    cloud.run()
    assert (NETWORK, str(unknown)) in one.documents
    assert len(look("newer_documents")) == 3
    assert look("deliveries") == []
    one.used.clear()
    audits.compare_documents(one.host.id, one.listed(), complete=False)
    cloud.run()
    assert one.documents == {}
    assert look("newer_documents", "deliveries") == []


@pytest.mark.both_databases("locks")
def test_the_vni_of_a_network_that_no_record_knows_is_given_to_no_other(
    cloud: Cloud, group: tuple[SecurityGroup, ScriptedAgent, ScriptedAgent], settings: Settings
) -> None:
    _, one, two = group
    settings.VNI_FIRST, settings.VNI_LAST = 70, 71
    document = known(one, NETWORK, cloud.network.id)
    unknown, lost = uuid.uuid4(), msgspec.structs.replace(document.segment, id=70)
    knew(one, NETWORK, unknown, 9, msgspec.structs.replace(document, segment=lost))
    one.used.add((NETWORK, str(unknown)))
    hello(cloud, one, two)
    project = cloud.network.project_id
    assert services.create_network(project, "other").segmentation_id == 71
    with pytest.raises(NoNetworkAvailableError):
        services.create_network(project, "third")
    with pytest.raises(TunnelIdInUseError):
        services.create_network(project, "asked for", segmentation_id=70)
    one.used.clear()
    audits.compare_documents(one.host.id, one.listed(), complete=False)
    cloud.run()
    assert services.create_network(project, "third").segmentation_id == 70


@pytest.mark.slow
def test_a_vni_that_was_given_again_before_its_host_was_back_is_named(
    cloud: Cloud, group: tuple[SecurityGroup, ScriptedAgent, ScriptedAgent]
) -> None:
    _, one, two = group
    document, unknown = known(one, NETWORK, cloud.network.id), str(uuid.uuid4())
    knew(one, NETWORK, unknown, 9, document)
    one.used.add((NETWORK, unknown))
    hello(cloud, one, two)
    (sentence,) = [finding.sentence for finding in look("newer_documents") if unknown in finding.sentence]
    assert str(cloud.network.id) in sentence


@pytest.mark.slow
def test_a_host_that_refuses_every_number_is_notified_by_the_clock(cloud: Cloud, alice: RequestContext) -> None:
    instance = cloud.running(alice)
    agent = cloud.agent_of(instance)
    Network.objects.filter(id=cloud.network.id).update(mtu=1300)
    mark(NETWORK, [cloud.network.id])
    for detail in ({"generation": "70"}, {}, {"generation": "9" * 30}):
        jobs.deliver([(NETWORK, str(cloud.network.id))])
        (command,) = agent.take()
        agent.report(command, "failed", error_code="superseded", message="A newer command was seen.", detail=detail)
    row = Delivery.objects.get(kind=NETWORK, host_id=agent.host.id)
    assert (row.tries, row.generation) == (3, 71 + 1000 + 1 + 1000)
    network = Network.objects.get(id=cloud.network.id)
    assert network.status == "ERROR"
    assert network.error
    assert only("deliveries").subject == f"host {agent.host.name}"
    Delivery.objects.update(changed_at="2026-01-01T00:00:00Z")
    jobs.deliver_again()
    cloud.run()
    assert known(agent, NETWORK, cloud.network.id).mtu == 1300
    network.refresh_from_db()
    assert network.status == "ACTIVE"


@pytest.mark.slow
def test_a_network_too_large_for_an_agent_is_shown_as_an_error(
    cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = cloud.agent_of(cloud.running(alice))
    monkeypatch.setattr(sending, "MAX_DOCUMENT", 100)
    Network.objects.filter(id=cloud.network.id).update(mtu=1300)
    mark(NETWORK, [cloud.network.id])
    cloud.run()
    network = Network.objects.get(id=cloud.network.id)
    assert network.status == "ERROR"
    monkeypatch.setattr(sending, "MAX_DOCUMENT", MAX_DOCUMENT)
    Delivery.objects.update(changed_at="2026-01-01T00:00:00Z")
    jobs.deliver_again()
    cloud.run()
    network.refresh_from_db()
    assert (network.status, network.error, known(agent, NETWORK, network.id).mtu) == ("ACTIVE", "", 1300)


@pytest.mark.slow
def test_versions_of_a_large_network_follow_each_other_slowly(
    cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = cloud.agent_of(cloud.running(alice))
    monkeypatch.setattr(sending, "LARGE", 100)
    monkeypatch.setattr(sending, "PER_SECOND", 1)
    for mtu in (1300, 1301, 1302):
        Network.objects.filter(id=cloud.network.id).update(mtu=mtu)
        mark(NETWORK, [cloud.network.id])
        cloud.run()
    assert known(agent, NETWORK, cloud.network.id).mtu not in (1300, 1301, 1302)
    Delivery.objects.update(changed_at="2026-01-01T00:00:00Z")
    before = agent.documents[NETWORK, str(cloud.network.id)][0]
    jobs.deliver_again()
    cloud.run()
    generation, document = agent.documents[NETWORK, str(cloud.network.id)]
    assert (document.mtu, generation) == (1302, before + 1)


@pytest.mark.slow
def test_after_restore_hosts_are_sent_everything_again_and_newer_ones_are_named(
    cloud: Cloud, group: tuple[SecurityGroup, ScriptedAgent, ScriptedAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restored, "LOOK_AGAIN", 0)
    mine, one, two = group
    copy = Copy(SecurityGroupRule)
    let_in(cloud, mine, 3389)
    copy.put_back()
    for _ in range(2):
        restored.after_restore()
    services.allow_ingress(mine, "tcp", 22)
    for agent in (one, two):
        agent.hello(documents=agent.listed(), contract=DOCUMENTS)
    cloud.run()
    assert (opened(one, mine), opened(two, mine)) == ([22], [22])
    rows = Delivery.objects.exclude(newer_at=None)
    assert {(row.kind, row.subject_id) for row in rows} == {(SECURITY_GROUP, mine.id)}
    assert not Delivery.objects.exclude(copied=None).exists()
