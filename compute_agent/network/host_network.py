"""The interface of the host's network: bridges, DHCP, taps and filters."""

import abc
import socket
from collections.abc import Collection
from dataclasses import dataclass

from compute_agent.contract.build import InstanceSpec, PortRef
from compute_agent.contract.messages import Leftover, Owned, Tracking
from compute_agent.network.state.documents import Document

Target = tuple[socket.socket, tuple[str, int]]
"""A non-blocking TCP socket in the right namespace, not yet connected, and the address to connect it to."""


@dataclass(frozen=True)
class GuestInterface:
    """A guest's interface on this host. ``floating`` is the floating IP of its first fixed address; empty if it has
    none.
    """

    uuid: str
    port_id: str
    floating: str = ""


@dataclass(frozen=True, slots=True)
class Leased:
    """A guest has received an address of its interface by DHCP, or (``held`` False) has released it."""

    uuid: str
    port_id: str
    address: str
    held: bool


class HostNetwork(abc.ABC):
    """Host networking.  Every method is idempotent; a failure of this host raises RetryableHostError."""

    @abc.abstractmethod
    def init_host(self) -> None:
        """Prepare the state that all networks share: sysctls, the uplink, the base of the filter tables."""

    @abc.abstractmethod
    def plug(self, spec: InstanceSpec, *, away: bool = False) -> None:
        """Create the bridges of the instance's networks, and start DHCP for its interfaces. ``away``: the guest is
        being migrated to this host, and its traffic goes to the other host until ``switch``.
        """

    @abc.abstractmethod
    def switch(self, uuid: str, *, here: bool) -> None:
        """Send the traffic of a guest to this host, and announce its addresses; or (not ``here``) to the other host of
        its migration. No effect for an instance that is not plugged.
        """

    @abc.abstractmethod
    def apply_firewall(self, spec: InstanceSpec) -> None:
        """Install anti-spoofing (MAC, ARP, IP) and the security rules of every port, before the guest runs.

        When this returns, DHCP answers.
        """

    @abc.abstractmethod
    def unplug_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        """Remove lease, tap and filters of an interface that was detached; ``spec``: the guest without it."""

    @abc.abstractmethod
    def unplug(self, uuid: str) -> None:
        """Remove leases, taps and filters of the instance, and bridges (with DHCP servers) that no guest uses."""

    @abc.abstractmethod
    def restore(self, specs: list[InstanceSpec]) -> None:
        """Bring the host to exactly the state that these instances need, after a restart of the agent or the machine.

        Running guests are not affected.
        """

    @abc.abstractmethod
    def guest_socket(self, instance_id: str, port_id: str, address: str, port: int) -> Target:
        """Open a socket from this host to a TCP port at a fixed address of the guest's interface, bypassing the
        security groups. The caller connects the socket. Never waits for the guest.

        Raises InstanceNotFoundError if the instance does not have the interface or address here, UnsupportedError if
        the host cannot reach its network.
        """

    @abc.abstractmethod
    def check(self) -> list[str]:
        """Repair failures, for example of a DHCP server, and return a line for each repair."""

    def leases(self) -> list[Leased]:
        """Return lease events since the last call; the first call returns all current leases."""
        return []

    def warnings(self) -> list[str]:
        """Return missing requirements and failures of this host, as sentences for operators. Callable from
        any thread.
        """
        return []

    def tracking(self) -> Tracking | None:
        """Measure the tracked connections of guests, None if none are tracked. Call it in a thread that may block."""
        return None

    def flows(self, uuid: str) -> bytes:
        """Return the tracked connections of a guest that is being migrated, for ``adopt`` on the other host."""
        return b""

    def adopt(self, uuid: str, flows: bytes) -> None:
        """Track the connections that a guest had on the other host of its migration, so that the filters accept their
        packets. ``flows`` were sent by that host, which is not trusted.
        """
        return

    def interface_at(self, network_id: str, address: str) -> GuestInterface | None:
        """Return the interface with this fixed or link-local address on the network; callable from any thread."""
        return None

    @abc.abstractmethod
    def leftovers(self, guests: set[str]) -> list[Leftover]:
        """List interfaces, leases and filters on this host that do not belong to any of ``guests`` (UUIDs). Changes
        nothing.
        """

    @abc.abstractmethod
    def apply(self, document: Document, generation: int, digest: str = "") -> None:
        """Store the document with its digest, replacing the previous version, and apply it.

        The document is stored even if applying it fails; ``check`` then retries.
        """

    @abc.abstractmethod
    def forget(self, kind: str, subject_id: str) -> None:
        """Delete the document and the kernel objects of its subject."""

    @abc.abstractmethod
    def documents(self) -> list[Owned]:
        """List the stored documents, with whether guests of this host need them."""

    @abc.abstractmethod
    def forget_outdated(self, outdated: Collection[Owned]) -> None:
        """Delete these documents, except those that were replaced by a newer generation in the meantime."""
