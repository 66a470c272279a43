"""A cloud with one host, whose network has a way out; callers without a browser."""

from __future__ import annotations

import pytest

from provisioning.common.context import RequestContext
from provisioning.launches.plans.plan import LaunchPlan
from provisioning.network import services as network
from provisioning.network.models import Network
from tests.support.clouds import ADMIN, Cloud, context
from tests.support.standing import derived, standing


@pytest.fixture
@derived
def alice() -> RequestContext:
    return context("alice")


@pytest.fixture
@derived
def charlie() -> RequestContext:
    return context("charlie")


@pytest.fixture
@derived
def operator() -> RequestContext:
    return context("operator", ADMIN)


@pytest.fixture
@standing
def cloud(db: None) -> Cloud:
    cloud = Cloud.make()
    cloud.add_host("host-1")
    return cloud


@pytest.fixture
@standing
def outside(cloud: Cloud) -> Network:
    """An external network, to which a router connects the cloud's network."""
    made = network.create_network(context("operator").project_id or cloud.network.project_id, "public", external=True)
    network.create_subnet(made, "203.0.113.0/29", enable_dhcp=False)
    router = network.create_router(made.project_id, gateway=network.Gateway(made))
    network.add_interface_by_subnet(router, cloud.network.subnets.get(), anywhere=True)
    return made


@pytest.fixture
def plan(cloud: Cloud) -> LaunchPlan:
    """The smallest plan."""
    return LaunchPlan(name="web", image=str(cloud.image.id), flavor="1", networks=(str(cloud.network.id),))
