"""Several hosts on one machine: network namespaces that represent machines, a switch between them, the outside network.

Every host's namespace has two interfaces: ``underlay`` with the address that other hosts reach it at, and ``external``
without an address, which is connected to the external network. Each interface is connected to a bridge in the switch's
namespace. The namespace ``outside`` is connected to the external bridge, too. None of these namespaces is connected to
the machine's own network.
"""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute, NetlinkError

from compute_agent.network.kernel import namespace
from up.places import EXTERNAL, MOST_HOSTS, UNDERLAY, Places

END_WITHIN = 10.0
"""Seconds for the kernel to end processes that were killed."""
IFA_F_NODAD = 0x02
"""The flag of an address that is used without duplicate address detection (linux/if_addr.h)."""


class Switch(Places):
    """Creates the namespaces, simulates failures of single hosts, and removes the namespaces."""

    # --- making -------------------------------------------------------------------------------------------------------

    def make(self, hosts: int) -> None:
        """Create the missing namespaces of the switch, of the external network and of the hosts 1 to ``hosts``.

        Raises OSError, NetlinkError.
        """
        namespace.ensure(self.middle)
        with _netlink(self.middle) as route:
            _up(route, "lo")
            for bridge in (UNDERLAY, EXTERNAL):
                if not route.link_lookup(ifname=bridge):
                    route.link("add", ifname=bridge, kind="bridge", br_stp_state=0, br_mcast_snooping=0)
                _up(route, bridge)
        self._plug(self.world, EXTERNAL, "outside", self.outside)
        for number in range(1, hosts + 1):
            self.add(number)

    def add(self, number: int) -> None:
        """Create the missing parts of one host."""
        length = ipaddress.ip_network(self.underlay).prefixlen
        self._plug(self.machine(number), UNDERLAY, f"u{number}", (f"{self.underlay_address(number)}/{length}",))
        self._plug(self.machine(number), EXTERNAL, f"e{number}", ())

    def _plug(self, machine: str, interface: str, port: str, addresses: tuple[str, ...]) -> None:
        """Add an interface to a namespace, and connect it to the bridge with the interface's name by the switch's port
        ``port``.
        """
        namespace.ensure(machine)
        with _netlink(machine) as route:
            missing = not route.link_lookup(ifname=interface)
        if missing:
            self._unplug(port)
        with _netlink(machine) as route:
            _up(route, "lo")
            if missing:
                _settings(ip_forward="0")  # a new namespace may inherit the setting of the machine
                with _open(self.middle) as switch:
                    peer = {"ifname": port, "net_ns_fd": switch}
                    route.link("add", ifname=interface, kind="veth", peer=peer)
            index = _up(route, interface)
            for address in map(ipaddress.ip_interface, addresses):
                route.addr("replace", index=index, address=str(address.ip), prefixlen=address.network.prefixlen,
                           **({"flags": IFA_F_NODAD} if address.version == 6 else {}))  # fmt: skip
        with _netlink(self.middle) as route:
            route.link("set", index=_up(route, port), master=route.link_lookup(ifname=interface)[0])

    def _unplug(self, port: str) -> None:
        """Delete a port whose other end was in a deleted namespace: the kernel deletes both ends some time later."""
        with _netlink(self.middle) as route:
            for index in route.link_lookup(ifname=port):
                with contextlib.suppress(NetlinkError):  # the kernel was faster
                    route.link("del", index=index)

    # --- faults -------------------------------------------------------------------------------------------------------

    def cable(self, number: int, interface: str = UNDERLAY, *, plugged: bool = True) -> None:
        """Pull or plug in the cable of a host's interface."""
        with _netlink(self.middle) as route:
            (index,) = route.link_lookup(ifname=f"{interface[0]}{number}")
            route.link("set", index=index, state="up" if plugged else "down")

    def power_off(self, number: int) -> list[int]:
        """Simulate a power failure of a host: its agent, guests and servers end immediately, and their kernel objects
        are removed.

        Its disk (the state folder) and its cables stay. Return the processes that ended.
        """
        ended = kill(self._of_host(number))
        for name in self._of_host(number)[1:]:
            namespace.remove(name)
        return ended

    def _of_host(self, number: int) -> list[str]:
        """List a host's namespaces, beginning with the one that represents the machine."""
        return [self.machine(number), *namespace.listed(f"{self.machine(number)}-")]

    # --- removing -----------------------------------------------------------------------------------------------------

    def remove(self) -> list[str]:
        """End all processes in these namespaces, and remove the namespaces; return their names. Idempotent."""
        names = namespace.listed(f"{self.name}-")
        kill(names)
        return [name for name in names if namespace.remove(name)]


def processes_in(names: list[str]) -> set[int]:
    """Return the processes in any of the namespaces, except this process."""
    wanted = {(found.st_dev, found.st_ino) for name in names if (found := _stat(namespace.FOLDER / name))}
    processes = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    here = os.getpid()
    return {
        pid
        for pid in processes
        if pid != here and (found := _stat(Path(f"/proc/{pid}/ns/net"))) and (found.st_dev, found.st_ino) in wanted
    }


def kill(names: list[str]) -> list[int]:
    """Kill all processes in the namespaces and wait until they have ended; return their ids.

    Raises TimeoutError if one does not end.
    """
    ended: set[int] = set()
    deadline = time.monotonic() + END_WITHIN
    while pids := processes_in(names):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended |= pids
        if time.monotonic() > deadline:
            message = f"processes {sorted(pids)} in {names[0]} do not end"
            raise TimeoutError(message)
        time.sleep(0.01)
    return sorted(ended)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:  # gone, or a zombie
        return None


@contextlib.contextmanager
def _netlink(name: str) -> Iterator[Any]:
    """Open netlink in a namespace. The thread stays in the namespace, so that ``_settings`` applies there."""
    with namespace.inside(name), IPRoute() as route:
        yield route


@contextlib.contextmanager
def _open(name: str) -> Iterator[int]:
    descriptor = os.open(namespace.FOLDER / name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _up(route: Any, interface: str) -> int:
    (index,) = route.link_lookup(ifname=interface)
    route.link("set", index=index, state="up")
    return int(index)


def _settings(**values: str) -> None:
    for name, value in values.items():
        Path("/proc/sys/net/ipv4", name).write_text(value)


def main() -> None:
    """``python bin/libexec up.switch make NAME HOSTS``, or ``remove NAME``; ``power-off NAME NUMBER`` for tests."""
    parser = argparse.ArgumentParser(description="Several hosts on one machine, as network namespaces.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    actions: dict[str, tuple[str, Callable[[Switch, int], object]]] = {
        "make": ("HOSTS", lambda switch, hosts: switch.make(hosts)),
        "power-off": ("NUMBER", lambda switch, number: switch.power_off(number)),
        "remove": ("", lambda switch, _: switch.remove()),
    }
    for name, (argument, action) in actions.items():
        command = commands.add_parser(name)
        command.add_argument("name")
        if argument:
            command.add_argument("number", metavar=argument, type=int, choices=range(1, MOST_HOSTS + 1))
        command.set_defaults(action=action, number=0)
    given = parser.parse_args()
    given.action(Switch(given.name), given.number)


if __name__ == "__main__":
    main()
