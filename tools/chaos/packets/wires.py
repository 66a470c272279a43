"""A simulated hypervisor whose guests have real interfaces, each in its own network namespace and connected to a tap of
its host.

At first an interface has only the port's MAC address: it gets IP addresses from DHCP, as in a real guest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from compute_agent.contract.build import InstanceSpec, PortRef
from compute_agent.contract.power import PowerState
from compute_agent.network.kernel import links, namespace
from compute_agent.virt.errors import RetryableHostError
from compute_agent.virt.fake.driver import FakeDriver
from compute_agent.virt.fake.migration import Offered
from compute_agent.virt.fake.state import FakeGuest

INSIDE = "eth0"
"""An interface's name in its namespace."""
WIRED = {PowerState.RUNNING, PowerState.PAUSED}
"""Power states in which a guest has a QEMU process, and therefore taps."""


def space_of(machine: str, tap: str) -> str:
    """Return the namespace of the interface that is connected to a tap of a machine."""
    return f"{machine}-{tap}"


class WiredDriver(FakeDriver):
    """Creates a guest's taps when the guest starts, as QEMU does, and removes them when it ends."""

    def __init__(self, state_dir: Path, *, machine: str, vcpus: int, memory_mb: int, disk_gb: int) -> None:
        """``machine`` is the network namespace that represents the host."""
        super().__init__(state_dir, vcpus=vcpus, memory_mb=memory_mb, disk_gb=disk_gb)
        self._machine = machine
        self._wires = state_dir / "wires"
        """A file with the ports of each defined domain."""

    def init_host(self) -> None:
        """Plug and unplug taps so that they match the saved guests: the process may have been killed after it saved a
        change and before it changed the taps.
        """
        super().init_host()
        self._wires.mkdir(mode=0o700, exist_ok=True)
        with self._changed:
            guests = self._state.guests.values()
            wired = [port for guest in guests if guest.power in WIRED for port in self._ports(guest.uuid)]
        taps = {port.tap for port in wired}
        for name in namespace.listed(space_of(self._machine, "tap")):
            if name.removeprefix(space_of(self._machine, "")) not in taps:
                self._cut(name.removeprefix(space_of(self._machine, "")))
        self._plug([port for port in wired if not self._is_wired(port)])

    # ----- domains --------------------------------------------------------------------------------------------------

    def define(self, spec: InstanceSpec, attempt: int) -> None:
        with self._changed:
            self._unplug(self._ports(spec.uuid))
            self._note(spec.uuid, spec.ports)
            super().define(spec, attempt)

    def attach_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        with self._changed:
            guest = self._guest(spec.uuid)
            if port.mac_address in guest.interfaces:
                return
            self._note(spec.uuid, [*self._ports(spec.uuid), port])
            if guest.power in WIRED:
                self._plug([port])
            super().attach_interface(spec, port)

    def detach_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        with self._changed:
            super().detach_interface(spec, port)
            self._unplug([port])
            if spec.uuid in self._state.guests:
                self._note(spec.uuid, [each for each in self._ports(spec.uuid) if each.id != port.id])

    def destroy(self, uuid: str) -> None:
        with self._changed:
            self._unplug(self._ports(uuid))
            self._path(uuid).unlink(missing_ok=True)
            super().destroy(uuid)

    def run_received(self, spec: InstanceSpec, attempt: int, offered: Offered) -> None:
        with self._changed:
            self._note(spec.uuid, spec.ports)
            self._plug(spec.ports)
            super().run_received(spec, attempt, offered)

    def change_guest(self, uuid: str, *, leaving: bool, power: PowerState) -> None:
        with self._changed:
            super().change_guest(uuid, leaving=leaving, power=power)
            if power not in WIRED:
                self._unplug(self._ports(uuid))

    def _power(self, guest: FakeGuest, state: PowerState) -> None:
        if state == PowerState.RUNNING:
            self._plug(self._ports(guest.uuid))
        super()._power(guest, state)
        if state not in WIRED:
            self._unplug(self._ports(guest.uuid))

    # ----- what is on disk ------------------------------------------------------------------------------------------

    def _path(self, uuid: str) -> Path:
        return self._wires / f"{uuid}.json"

    def _ports(self, uuid: str) -> list[PortRef]:
        try:
            return msgspec.json.decode(self._path(uuid).read_bytes(), type=list[PortRef])
        except FileNotFoundError:
            return []

    def _note(self, uuid: str, ports: Sequence[PortRef]) -> None:
        fresh = self._path(uuid).with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(list(ports)))
        fresh.replace(self._path(uuid))

    # ----- taps -----------------------------------------------------------------------------------------------------

    def _is_wired(self, port: PortRef) -> bool:
        return port.tap in links.names() and bool(namespace.listed(space_of(self._machine, port.tap)))

    def _plug(self, ports: Sequence[PortRef]) -> None:
        """Create an interface and its tap for each port, and add the tap to the bridge of the network, which has to
        exist.
        """
        for port in ports:
            self._cut(port.tap)
            name = space_of(self._machine, port.tap)
            namespace.ensure(name)
            with links.netlink("create the guest's tap") as route, namespace.opened(name) as space:
                bridge = route.link_lookup(ifname=port.network.bridge)
                if not bridge:
                    raise RetryableHostError(f"There is no bridge {port.network.bridge} for a guest's interface.")
                inner: dict[str, Any] = {"ifname": INSIDE, "net_ns_fd": space, "address": port.mac_address}
                route.link("add", ifname=port.tap, kind="veth", mtu=port.network.mtu, peer=inner)
                links.silence(port.tap)
                (index,) = route.link_lookup(ifname=port.tap)
                route.link("set", index=index, master=bridge[0], state="up")
            with namespace.inside(name), links.netlink("start the guest's interface") as route:
                for each in ("lo", INSIDE):
                    route.link("set", index=route.link_lookup(ifname=each)[0], state="up")

    def _unplug(self, ports: Sequence[PortRef]) -> None:
        for port in ports:
            self._cut(port.tap)

    def _cut(self, tap: str) -> None:
        links.delete(tap)
        namespace.remove(space_of(self._machine, tap))
