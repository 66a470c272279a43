"""What the clock does for networks."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from compute_agent.contract.messages import DOCUMENTS
from provisioning.hosts.models import Host
from provisioning.network import services, upkeep
from provisioning.network.models import DeliveryMark, FixedIP, Network, Port
from tests.support.cast import Person


@pytest.mark.both_databases("locks")
def test_networks_of_before_are_completed(alice: Person, net: Network) -> None:
    other = services.create_network(alice.project_id, "other")
    Port.objects.filter(network=net).delete()
    Network.objects.filter(pk=net.pk).update(segmentation_id=None)
    upkeep.complete()
    net.refresh_from_db()
    assert net.segmentation_id not in {None, other.segmentation_id}
    assert Port.objects.get(network=net).fixed_ips.get().address == "10.20.0.254"
    upkeep.complete()
    assert Port.objects.count() == 1


def test_a_network_of_before_gets_an_mtu_that_ipv6_can_do_with(alice: Person, net: Network) -> None:
    other = services.create_network(alice.project_id, "other")
    Network.objects.filter(pk=net.pk).update(mtu=576)
    Host.objects.create(name="h", contract_version=DOCUMENTS)
    DeliveryMark.objects.all().delete()
    upkeep.complete()
    assert list(Network.objects.order_by("created_at").values_list("mtu", flat=True)) == [1280, other.mtu]
    assert [row.subject_id for row in DeliveryMark.objects.all()] == [net.pk]


def test_held_addresses_are_freed_in_time(alice: Person, net: Network) -> None:
    subnet = net.subnets.get()
    for number, seconds in ((1, 3), (2, 7200)):
        released = timezone.now() - timedelta(seconds=seconds)
        FixedIP.every.create(subnet=subnet, number=number, address=f"10.20.0.{number}", released_at=released)
    upkeep.forget_released()
    assert [row.number for row in FixedIP.every.filter(port=None)] == [1]


@pytest.mark.both_databases("locks")
def test_a_port_that_was_made_together_with_a_subnet_gets_the_address_its_guest_makes(
    alice: Person, net: Network
) -> None:
    port = services.create_port(alice.project_id, net)
    subnet = services.create_subnet(net, "fd00:77::/64", ip_version=6, ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    made = FixedIP.objects.get(port=port, subnet=subnet).address
    FixedIP.objects.filter(port=port, subnet=subnet).delete()
    upkeep.follow_subnets()
    assert FixedIP.objects.get(port=port, subnet=subnet).address == made
    before = Port.objects.get(pk=port.pk).revision_number
    upkeep.follow_subnets()
    assert Port.objects.get(pk=port.pk).revision_number == before
