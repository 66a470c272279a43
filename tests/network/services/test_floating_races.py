"""An address, an interface or a gateway that goes while something begins to lead there: nothing leads to a stranger."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from provisioning.common.errors import NovellaError
from provisioning.network import services
from provisioning.network.models import FixedIP, FloatingIP, Network, Port, PortForwarding, Router
from provisioning.network.records.owners import ROUTER_INTERFACE
from provisioning.network.services import Gateway
from provisioning.network.services.addressing import ipam
from provisioning.network.services.floating_ips import floating_ips, port_forwardings
from provisioning.network.services.floating_ips.port_forwardings import ForwardingRequest
from provisioning.network.services.ports import interfaces
from provisioning.network.services.routing import router_interfaces
from tests.support.cast import Person
from tests.support.landing import diagonal

pytestmark = [pytest.mark.slow, pytest.mark.both_databases("locks"), pytest.mark.django_db(transaction=True)]
GUEST = uuid.uuid4()
ADDRESS = "10.20.0.50"


class Town:
    """Alice's network behind a router, a port of hers, a port of a guest's, and a floating IP that leads nowhere."""

    def __init__(self, alice: Person, operator: Person, net: Network) -> None:
        external = services.create_network(operator.project_id, "public")
        services.create_subnet(external, "203.0.113.0/29", enable_dhcp=False)
        services.update_network(external, {"external": True})
        external.refresh_from_db()
        self.subnet = net.subnets.get()
        self.router = services.create_router(alice.project_id, gateway=Gateway(external))
        services.add_interface_by_subnet(self.router, self.subnet)
        requested = [{"network_id": str(net.id), "fixed_ip": ADDRESS}]
        [self.guest] = services.allocate(GUEST, alice.project_id, requested, [], "host-1", "nova")
        self.port = services.create_port(alice.project_id, net)
        self.floating = services.create_floating_ip(alice.project_id, external)

    def lost(self) -> list[str]:
        """What leads to an address that its port does not have, or through a router that does not lead there."""
        ends = [(row, row.fixed_port, row.fixed_address) for row in FloatingIP.objects.exclude(fixed_port=None)]
        ends += [(row.floating_ip, row.internal_port, row.internal_ip_address) for row in PortForwarding.objects.all()]
        return [str(address) for floating, port, address in ends if not self._leads(floating, port, address)]

    def _leads(self, floating: FloatingIP, port: Port | None, address: str | None) -> bool:
        fixed = FixedIP.objects.filter(port=port, address=address)
        legs = Port.objects.filter(device_owner=ROUTER_INTERFACE, fixed_ips__subnet__in=fixed.values("subnet"))
        ways = Router.objects.filter(pk__in=legs.values("device_id"), gateway_port__network=floating.network_id)
        return ways.filter(pk=floating.router_id).exists()


@pytest.fixture
def town(alice: Person, operator: Person, net: Network) -> Town:
    return Town(alice, operator, net)


def forward(floating: FloatingIP, port: Port) -> None:
    request = ForwardingRequest("tcp", (2222, 2222), port, port.fixed_ips.get().address, (22, 22))
    services.create_port_forwarding(floating, request)


LEADS: dict[str, Callable[[FloatingIP, Port], Any]] = {"a floating IP": services.associate, "a forwarding": forward}
GOES: dict[str, tuple[str, Callable[[Town], Any], tuple[object, str]]] = {
    "an address": (
        "port", lambda town: services.update_port(town.port, {}, fixed_ips=[]), (ipam, "release"),
    ),
    "a port": ("port", lambda town: services.delete_port(town.port), (ipam, "release")),
    "a guest's address": (
        "guest", lambda town: interfaces.remove_address(GUEST, ADDRESS), (ipam, "release"),
    ),
    "a guest's interface": (
        "guest", lambda town: interfaces.remove_interface(GUEST, town.guest.id), (ipam, "release_of_ports"),
    ),
    "a guest": ("guest", lambda town: services.release(GUEST), (ipam, "release_of_ports")),
    "a router's interface": (
        "port", lambda town: services.remove_interface_by_subnet(town.router, town.subnet),
        (router_interfaces, "_delete"),
    ),
    "a router's gateway": (
        "port", lambda town: services.update_router(town.router, {"gateway": None}), (ipam, "release"),
    ),
}  # fmt: skip


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, place: tuple[object, str], other: Callable[[], Any]
) -> Callable[[], Any]:
    """Let another transaction begin when the first one gets to ``place``; return how to wait for its error or None."""
    raised: list[NovellaError] = []
    threads: list[threading.Thread] = []
    real = getattr(*place)

    def late() -> None:
        try:
            other()
        except NovellaError as error:
            raised.append(error)
        finally:
            connection.close()

    def at(*args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
        if not threads:
            threads.append(threading.Thread(target=late))
            threads[0].start()
            threads[0].join(0.3)  # it waits in the database
        return result

    def ended() -> NovellaError | None:
        threads[0].join(300)
        assert not threads[0].is_alive()
        return raised[0] if raised else None

    monkeypatch.setattr(*place, at)
    return ended


@diagonal(what=list(GOES), kind=list(LEADS))
def test_what_is_going_is_not_led_to(town: Town, what: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, go, place = GOES[what]
    ended = meanwhile(monkeypatch, place, lambda: LEADS[kind](town.floating, getattr(town, name)))
    go(town)
    assert ended() is not None
    assert town.lost() == []


@diagonal(what=list(GOES), kind=list(LEADS))
def test_what_begins_to_be_led_to_stays_or_is_left(
    town: Town, what: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, go, _ = GOES[what]
    place = (floating_ips, "_fixed") if kind == "a floating IP" else (port_forwardings, "_check")
    ended = meanwhile(monkeypatch, place, lambda: go(town))
    LEADS[kind](town.floating, getattr(town, name))
    error = ended()
    assert town.lost() == []
    assert (error is not None) == ("router" in what)
