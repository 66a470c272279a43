"""The doctor's findings about networks: resources without an owner, and documents that hosts lack."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone
from django_q.models import OrmQ

from compute_agent.contract.network import NETWORK, SECURITY_GROUP
from provisioning.common.context import RequestContext
from provisioning.compute.actions.delete import delete
from provisioning.compute.models import Instance
from provisioning.doctor.examinations.examination import treat
from provisioning.hosts.models import HostCommand
from provisioning.network import services
from provisioning.network.models import (
    Delivery,
    DeliveryMark,
    FixedIP,
    FloatingIP,
    Network,
    Port,
    PortForwarding,
    RbacPolicy,
    Router,
    SecurityGroup,
    Subnet,
    Tag,
)
from provisioning.network.records.marks import mark
from provisioning.network.services.floating_ips.port_forwardings import ForwardingRequest
from provisioning.network.upkeep import forget_tags
from provisioning.quotas.services import ledger
from tests.core.doctor.findings import OLD, look, only, repaired
from tests.support.clouds import Cloud, context
from tests.support.jobs import drain
from tests.support.ports import guest_ports

NETWORKS = ("network_ports", "held_addresses", "floating_ips", "rbac_policies", "delivery_marks", "deliveries")


@pytest.fixture
def settled(db: None) -> Cloud:
    """A cloud whose host has all documents of networks."""
    made = Cloud.make()
    made.add_host("one", documents=True)
    return made


def project_of(caller: RequestContext) -> uuid.UUID:
    assert caller.project_id is not None
    return caller.project_id


def led_out(cloud: Cloud, caller: RequestContext) -> tuple[Router, Network]:
    """Join the cloud's network to an external one."""
    external = services.create_network(
        cloud.network.project_id, "public", external=True, network_type="flat", physical_network="external"
    )
    services.create_subnet(external, "203.0.113.0/24", enable_dhcp=False)
    router = services.create_router(project_of(caller), name="r", gateway=services.Gateway(external))
    services.add_interface_by_subnet(router, Subnet.objects.get(network=cloud.network), anywhere=True)
    return router, external


def floating(cloud: Cloud, caller: RequestContext, row: Instance, with_instance: uuid.UUID | None = None) -> FloatingIP:
    """Let the world reach a server."""
    _, external = led_out(cloud, caller)
    port = guest_ports().get(device_id=row.id)
    return services.create_floating_ip(project_of(caller), external, port=port, with_instance=with_instance)


@pytest.mark.slow
def test_a_cloud_with_every_kind_of_network_is_well(settled: Cloud, alice: RequestContext) -> None:
    floating(settled, alice, settled.running(alice))
    settled.run()
    assert Port.objects.exclude(device_owner__startswith="compute:").count() >= 4
    assert look(*NETWORKS) == []


@pytest.mark.parametrize("lost", [Router, FloatingIP])
@pytest.mark.both_databases("locks")
def test_ports_of_routers_and_floating_ips_that_are_gone(
    cloud: Cloud, alice: RequestContext, lost: type[Router] | type[FloatingIP]
) -> None:
    router, external = led_out(cloud, alice)
    port = Port.objects.filter(device_id=router.id).exclude(id=router.gateway_port_id).get()
    if lost is FloatingIP:
        made = services.create_floating_ip(project_of(alice), external)
        port = made.port
        FloatingIP.objects.all().delete()
        ledger.release(made.id)
    else:
        Port.objects.filter(id=port.id).update(device_id=uuid.uuid4())
    held = FixedIP.objects.get(port=port)
    assert only("network_ports").subject == f"port {port.id}"
    assert repaired("network_ports") == "Deleted."
    assert FixedIP.every.get(pk=held.pk).port_id is None, "nobody else gets the address for a while"


@pytest.mark.slow
def test_addresses_that_are_held_back_for_too_long(cloud: Cloud, alice: RequestContext) -> None:
    delete(context("alice"), cloud.running(alice).id)
    cloud.run()
    assert FixedIP.every.filter(port=None).count() == 1
    assert look("held_addresses") == []
    old = timezone.now() - timedelta(seconds=settings.ADDRESS_HOLD) - OLD
    FixedIP.every.filter(port=None).update(released_at=old)
    assert only("held_addresses").subject == "addresses"
    assert repaired("held_addresses") == "Freed: 1."
    assert not FixedIP.every.filter(port=None).exists()


def test_an_address_that_two_ports_have(cloud: Cloud, alice: RequestContext) -> None:
    cloud.running(alice)
    row = FixedIP.objects.get(port__in=guest_ports())
    FixedIP.objects.create(port=row.port, subnet=row.subnet, address=row.address, number=9999)
    assert only("held_addresses").subject == f"subnet {row.subnet_id}"


@pytest.mark.slow
def test_a_floating_ip_that_leads_to_an_address_nobody_has(cloud: Cloud, alice: RequestContext) -> None:
    made = floating(cloud, alice, cloud.running(alice))
    FloatingIP.objects.update(fixed_address="10.20.0.250")
    assert only("floating_ips").subject == f"floating IP {made.id}"
    assert repaired("floating_ips") == "It was disassociated."
    assert FloatingIP.objects.get().fixed_port_id is None


@pytest.mark.slow
def test_a_floating_ip_behind_a_router_that_has_left_its_network(cloud: Cloud, alice: RequestContext) -> None:
    made = floating(cloud, alice, cloud.running(alice))
    Port.objects.filter(device_id=made.router_id, network=cloud.network).delete()
    assert "No router connects" in only("floating_ips").sentence
    repaired("floating_ips")


@pytest.mark.slow
def test_a_forwarding_to_an_address_nobody_has(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    _, external = led_out(cloud, alice)
    port = guest_ports().get(device_id=row.id)
    made = services.create_floating_ip(project_of(alice), external)
    request = ForwardingRequest("tcp", (2222, 2222), port, port.fixed_ips.get().address, (22, 22))
    forwarding = services.create_port_forwarding(made, request)
    assert look("floating_ips") == []
    PortForwarding.objects.update(internal_ip_address="10.20.0.250")
    assert only("floating_ips").subject == f"port forwarding {forwarding.id}"
    assert repaired("floating_ips") == "It was deleted."


@pytest.mark.slow
def test_a_floating_ip_goes_with_the_server_that_it_was_made_for(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    floating(cloud, alice, row, with_instance=row.id)
    delete(context("alice"), row.id)
    cloud.run()
    assert not FloatingIP.objects.exists()
    other = cloud.running(alice)
    services.create_floating_ip(project_of(alice), Network.objects.get(external=True), with_instance=uuid.uuid4())
    services.create_floating_ip(project_of(alice), Network.objects.get(external=True), with_instance=other.id)
    assert "was created for the server" in only("floating_ips").sentence
    assert repaired("floating_ips") == "It was deleted."
    assert FloatingIP.objects.get().with_instance == other.id


@pytest.mark.slow
def test_policies_and_tags_of_what_is_gone(cloud: Cloud, alice: RequestContext) -> None:
    RbacPolicy.objects.create(
        project_id=project_of(alice), object_type="network", object_id=uuid.uuid4(), action="access_as_shared",
        target_project="*",
    )  # fmt: skip
    assert repaired("rbac_policies") == "Deleted."
    row = cloud.running(alice)
    port = guest_ports().get(device_id=row.id)
    services.set_tags(port, ["front"])
    services.set_tags(cloud.network, ["kept"])
    delete(context("alice"), row.id)
    cloud.run()
    forget_tags()
    assert [tag.tag for tag in Tag.objects.all()] == ["kept"]


@pytest.mark.slow
def test_a_change_whose_job_is_lost(settled: Cloud, alice: RequestContext) -> None:
    agent = settled.agent_of(settled.running(alice))
    group = SecurityGroup.objects.get(project_id=alice.project_id)
    services.allow_ingress(group, "tcp", 22)
    OrmQ.objects.all().delete()
    assert look("delivery_marks") == []
    DeliveryMark.objects.update(marked_at=timezone.now() - OLD)
    finding = only("delivery_marks")
    assert finding.subject == f"security group {group.id}"
    (treated,) = treat([finding], repair=True)
    assert treated.repaired == "The job is queued."
    settled.run()
    assert look(*NETWORKS) == []
    assert [rule.protocol for rule in agent.documents[SECURITY_GROUP, str(group.id)][1].rules].count("tcp") == 1


@pytest.mark.both_databases("locks")
def test_a_host_that_waits_for_a_command_which_is_no_more(settled: Cloud, alice: RequestContext) -> None:
    agent = settled.agent_of(settled.running(alice))
    group = SecurityGroup.objects.get(project_id=alice.project_id)
    services.allow_ingress(group, "tcp", 22)
    drain()
    HostCommand.objects.filter(finished_at=None).delete()
    assert look("deliveries") == []
    Delivery.objects.update(changed_at=timezone.now() - OLD)
    assert only("deliveries").subject == f"host {agent.host.name}"
    (treated,) = treat([only("deliveries")], repair=True)
    assert treated.repaired == "It is sent again."
    settled.run()
    assert look(*NETWORKS) == []
    assert "tcp" in {rule.protocol for rule in agent.documents[SECURITY_GROUP, str(group.id)][1].rules}


@pytest.mark.slow
def test_a_host_that_was_never_notified(settled: Cloud, alice: RequestContext) -> None:
    row = settled.running(alice)
    Delivery.objects.filter(kind=NETWORK).delete()
    mark(NETWORK, [settled.network.id])
    assert look("deliveries") == [], "it is about to be told"
    DeliveryMark.objects.all().delete()
    OrmQ.objects.all().delete()
    assert "that it needs and was not sent: 1" in only("deliveries").sentence
    (treated,) = treat([only("deliveries")], repair=True)
    assert treated.repaired
    settled.run()
    assert look(*NETWORKS) == []
    guest_ports().filter(device_id=row.id).update(host="")
    assert "that it no longer needs: 2" in only("deliveries").sentence


@pytest.mark.slow
def test_a_host_that_fails_again_and_again(settled: Cloud, alice: RequestContext) -> None:
    agent = settled.agent_of(settled.running(alice))
    Delivery.objects.filter(kind=NETWORK).update(error="no such bridge", tries=2, digest="?")
    assert look("deliveries") == []
    Delivery.objects.filter(kind=NETWORK).update(tries=3)
    finding = only("deliveries")
    assert (finding.severity, finding.subject) == ("warning", f"host {agent.host.name}")
    assert finding.sentence.endswith("no such bridge")
    treat([finding], repair=True)
    settled.run()
    assert look(*NETWORKS) == []
