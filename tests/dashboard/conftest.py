"""The shared cast in front of the pages, and a cloud with one host played by a script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from provisioning.catalogue.services import refresh as read_catalogue
from provisioning.compute.launch.request import NetworkRequest
from provisioning.network import services as network
from provisioning.volumes.models import Backup
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create, CreateSnapshot, SnapshotRequest
from provisioning.volumes.services.lifecycle import manage
from tests.support.cast import People, Person, sign_in_browser
from tests.support.clouds import Cloud
from tests.support.standing import standing

SignedIn = Callable[[Person], Client]


def offered(page: Any, field: str) -> list[str]:
    """Return the labels of what a page's form offers in a field."""
    return [str(label) for _, label in page.context["form"].fields[field].widget.choices]


def ticked(page: Any, field: str) -> list[str]:
    """Return what is chosen in a field of a page's form."""
    result: list[str] = page.context["form"][field].value()
    return result


@pytest.fixture(autouse=True)
def _plain_static(plain_static: None) -> None:
    """Pages need no collectstatic here."""


@pytest.fixture(autouse=True)
def _silent_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts that are played by scripts answer no calls: pages do not wait for them."""
    monkeypatch.setattr(manage, "PATIENCE", 0.0)


@pytest.fixture
@standing
def cloud(db: None) -> Cloud:
    cloud = Cloud.make()
    cloud.add_host("host-1")
    return cloud


@pytest.fixture
def signed_in() -> SignedIn:
    """``signed_in(alice).get("/")``: a browser in which this person has signed in."""

    def make(person: Person) -> Client:
        client = Client(raise_request_exception=False)
        sign_in_browser(client, person)
        return client

    return make


@pytest.fixture
def at_alice(signed_in: SignedIn, alice: Person) -> Client:
    return signed_in(alice)


@pytest.fixture
@standing
def town(people: People, cloud: Cloud) -> None:
    """One thing of each kind in the operator's project, and the built-in image catalogue."""
    read_catalogue()
    own, context = people.operator.project_id, people.operator.context
    net = network.create_network(own, "own")
    subnet = network.create_subnet(net, "10.66.0.0/24")
    outside = network.create_network(own, "outside", external=True)
    network.create_subnet(outside, "203.0.113.0/24", enable_dhcp=False)
    network.create_connected_router(own, [subnet], gateway=network.Gateway(outside))
    network.create_floating_ip(own, outside)
    network.create_port(own, net, name="port")
    network.create_security_group(own, "front")
    cloud.agents["host-1"].serve()
    volume = Create.begin(context, VolumeRequest(size_gb=1, name="data"))
    cloud.run()
    CreateSnapshot.begin(context, volume.id, SnapshotRequest(name="before"))
    cloud.run()
    Backup.objects.create(project_id=own, volume_id=volume.id, name="copy", size_gb=1, status="available")
    cloud.launch(context, name="web", networks=(NetworkRequest(network_id=str(net.id)),))
    cloud.run()
