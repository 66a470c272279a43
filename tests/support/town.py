"""Guests of two projects on several hosts, with a floating IP, and what the world outside sees of them."""

from __future__ import annotations

import base64
import contextlib
import http.client
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from openstack.connection import Connection

from tests.host.lab import Space
from tests.support.guests import Guest
from tests.support.one_machine import wait_for


@dataclass
class Town:
    """Guests of two projects on two hosts, and the way to the world outside.

    ``first`` and ``second`` are on one network, ``third`` on another one that a router joins to it; ``stranger`` is of
    another project, with the address of ``first``.
    """

    sdk: Connection
    first: Guest
    second: Guest
    third: Guest
    stranger: Guest
    floating: Any
    outside: Space

    @property
    def guests(self) -> dict[str, Guest]:
        return {"first": self.first, "second": self.second, "third": self.third, "stranger": self.stranger}

    def port_of(self, guest: Guest) -> Any:
        (port,) = self.sdk.network.ports(device_id=guest.server, fixed_ips=[f"ip_address={guest.address}"])
        return port

    def answers(self) -> bool:
        """Whether the floating IP answers the outside."""
        ping = ("busybox", "ping", "-c", "1", "-W", "2", self.floating.floating_ip_address)
        return "1 packets received" in self.outside.run(*ping, check=False)

    def page(self, address: str, port: int = 8080) -> str:
        """Return what the web server at an address says to the outside; nothing when it cannot be reached."""

        def ask() -> str:
            link = http.client.HTTPConnection(address, port, timeout=2)
            try:
                link.request("GET", "/")
                return link.getresponse().read().decode().strip()
            except OSError:
                return ""
            finally:
                link.close()

        return self.outside.do(ask)

    @contextmanager
    def let_in(self, port: int) -> Iterator[None]:
        """Let the world in to a TCP port of the guests of the default group."""
        net = self.sdk.network
        (group,) = net.security_groups(name="default", project_id=self.sdk.current_project_id)
        requested = {"direction": "ingress", "protocol": "tcp", "port_range_min": port, "port_range_max": port}
        rule = net.create_security_group_rule(security_group_id=group.id, **requested)
        yield
        net.delete_security_group_rule(rule)

    def dial(self, port: int) -> socket.socket:
        """Connect from outside to the floating IP as soon as that is let in."""
        values: list[socket.socket] = []

        def connects() -> bool:
            address = (self.floating.floating_ip_address, port)
            with contextlib.suppress(OSError):
                values.append(self.outside.do(lambda: socket.create_connection(address, timeout=2)))
            return bool(values)

        wait_for("it is let in", connects, 30)
        return values[0]


def launch(sdk: Connection, name: str, network: str, address: str, host: int) -> str:
    """Launch a server with a web server that says its name."""
    script = f"#!/bin/sh\nmkdir /www; echo {name} >/www/index.html; httpd -p 8080 -h /www\n"
    made = sdk.compute.create_server(
        name=name,
        image_id=sdk.image.find_image("novella-guest").id,
        flavor_id=sdk.compute.find_flavor("m1.nano").id,
        networks=[{"uuid": network, "fixed_ip": address}],
        key_name="packets",
        user_data=base64.b64encode(script.encode()).decode(),
        availability_zone=f"nova:host-{host}",
    )
    return str(made.id)


def says(sdk: Connection, guest: Guest, words: str) -> None:
    """Wait for words on a guest's console."""

    def is_so() -> bool:
        result = sdk.compute.get_server(guest.server)
        assert result.status != "ERROR", result.fault
        return result.status == "ACTIVE" and words in sdk.compute.get_server_console_output(guest.server)["output"]

    wait_for(f"{guest.address} says {words}", is_so)
