"""NOVELLA_AUTO_FLOATING_IP: every new server gets a floating IP, which goes with it."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, OverQuotaError
from provisioning.compute.actions.delete import delete
from provisioning.compute.launch import create
from provisioning.compute.models import Instance
from provisioning.network import selectors
from provisioning.network import services as network
from provisioning.network.models import FloatingIP, Network, Router
from provisioning.quotas.selectors import usage_of
from provisioning.quotas.services.limits import set_limits
from tests.core.test_attempts import fail_once
from tests.support.clouds import Cloud, context, state_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def cloud(cloud: Cloud, settings: Any) -> Cloud:
    settings.AUTO_FLOATING_IP = "public"
    return cloud


@pytest.fixture
def outside(cloud: Cloud) -> Network:
    made = network.create_network(context("operator").project_id or cloud.network.project_id, "public", external=True)
    network.create_subnet(made, "203.0.113.0/29", enable_dhcp=False)
    return made


@pytest.fixture
def router(cloud: Cloud, outside: Network) -> Router:
    made = network.create_router(outside.project_id, gateway=network.Gateway(outside))
    network.add_interface_by_subnet(made, cloud.network.subnets.get(), anywhere=True)
    return made


def used(alice: RequestContext) -> int:
    assert alice.project_id
    return usage_of(alice.project_id)["floatingips"]


def led_to(server: Instance) -> str:
    """The floating IP that the records show at a server's only address."""
    [shown] = selectors.addresses_of([server.id])[server.id]
    [address] = shown.floating
    return address


@pytest.mark.slow
def test_a_new_server_has_one_until_it_is_deleted(cloud: Cloud, router: Router, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    server = cloud.launch(alice)
    assert used(alice) == 1
    cloud.run()
    assert led_to(server) == FloatingIP.objects.get(with_instance=server.id).address
    delete(alice, server.id)
    cloud.run()
    assert not FloatingIP.objects.exists()
    assert used(alice) == 0


@pytest.mark.slow
@pytest.mark.both_databases
def test_it_follows_to_the_next_host(cloud: Cloud, router: Router, alice: RequestContext) -> None:
    for name in ("kelvin", "ohm"):
        cloud.add_host(name)
    server = cloud.launch(alice)
    address = FloatingIP.objects.get().address
    fail_once(cloud, server, "The disk is full.")
    assert FloatingIP.objects.get().address == address
    cloud.run()
    assert (state_of(server), led_to(server)) == (("active", None), address)


def test_without_a_way_there_none_is_taken(cloud: Cloud, outside: Network, alice: RequestContext) -> None:
    cloud.launch(alice)
    assert not FloatingIP.objects.exists()


def test_a_name_that_is_no_external_networks_changes_nothing(
    cloud: Cloud, router: Router, alice: RequestContext, settings: Any
) -> None:
    settings.AUTO_FLOATING_IP = "net"
    cloud.launch(alice)
    assert not FloatingIP.objects.exists()


@pytest.mark.slow
def test_a_full_quota_refuses_the_launch(cloud: Cloud, router: Router, alice: RequestContext) -> None:
    assert alice.project_id
    set_limits(alice.project_id, {"floatingips": 2})
    assert len(create.launch(alice, cloud.request(min_count=1, max_count=3))) == 2
    with pytest.raises(OverQuotaError) as refused:
        cloud.launch(alice)
    assert refused.value.resource == "floatingips"
    assert (Instance.objects.count(), used(alice)) == (2, 2)


@pytest.mark.slow
def test_no_address_left_refuses_the_launch(cloud: Cloud, router: Router, alice: RequestContext) -> None:
    for _ in range(4):  # of eight: the network's, the gateway, the router's and the last one
        cloud.launch(alice)
    with pytest.raises(ConflictError):
        cloud.launch(alice)
    assert (Instance.objects.count(), used(alice)) == (4, 4)
