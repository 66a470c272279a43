"""The contract of the host's network: bridges, DHCP, taps and filters."""

import abc
import socket
from collections.abc import Collection
from dataclasses import dataclass

from compute_agent.contract.build import InstanceSpec, PortRef
from compute_agent.contract.messages import Leftover, Owned, Tracking
from compute_agent.network.documents import Document

Target = tuple[socket.socket, tuple[str, int]]
"""A TCP socket that is not connected, does not block and belongs to the right namespace, and where to connect it."""


@dataclass(frozen=True)
class GuestInterface:
    """A guest's interface here; ``floating`` is the floating address of its first fixed address, if there is one."""

    uuid: str
    port_id: str
    floating: str = ""


@dataclass(frozen=True, slots=True)
class Leased:
    """A guest has taken an address of its interface by DHCP, or (``held`` False) has given it back."""

    uuid: str
    port_id: str
    address: str
    held: bool


class HostNetwork(abc.ABC):
    """Host networking; every method is idempotent, and a failure of this host raises RetryableHostError."""

    @abc.abstractmethod
    def init_host(self) -> None:
        """Prepare what all networks share: sysctls, the uplink, the base of the filter tables."""

    @abc.abstractmethod
    def plug(self, spec: InstanceSpec) -> None:
        """Make the bridges of the instance's networks, and let DHCP begin to answer its interfaces."""

    @abc.abstractmethod
    def apply_firewall(self, spec: InstanceSpec) -> None:
        """Install anti-spoofing (MAC, ARP, IP) and the security rules of every port, before the guest runs.

        When it returns, DHCP answers.
        """

    @abc.abstractmethod
    def unplug_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        """Remove lease, tap and filters of an interface that the guest has no more; ``spec``: the guest without it."""

    @abc.abstractmethod
    def unplug(self, uuid: str) -> None:
        """Remove leases, taps and filters of the instance, and bridges (with DHCP servers) that no guest uses."""

    @abc.abstractmethod
    def restore(self, specs: list[InstanceSpec]) -> None:
        """After a restart of the agent or the machine: bring the host to exactly the state these instances need.

        Running guests are not hurt.
        """

    @abc.abstractmethod
    def guest_socket(self, instance_id: str, port_id: str, address: str, port: int) -> Target:
        """Open a socket that reaches a TCP port at a fixed address of the guest's interface from this host, past the
        security groups; the caller connects it.  Never waits for the guest.

        Raises InstanceNotFoundError when interface or address are none of the instance's here, UnsupportedError when
        the host has no way to its network.
        """

    @abc.abstractmethod
    def check(self) -> list[str]:
        """Mend what died by itself, for example a DHCP server, and return a line for each thing mended."""

    def leases(self) -> list[Leased]:
        """Return what has happened to leases since the last call; all that are there at the first."""
        return []

    def warnings(self) -> list[str]:
        """Return what this host lacks, or could not do, in sentences for operators; from any thread."""
        return []

    def tracking(self) -> Tracking | None:
        """Measure how many connections of guests are tracked, in a thread that may wait; None: none are."""
        return None

    def interface_at(self, network_id: str, address: str) -> GuestInterface | None:
        """Return whose interface here has the address on the network, its link-local one included; from any thread."""
        return None

    @abc.abstractmethod
    def leftovers(self, guests: set[str]) -> list[Leftover]:
        """List what is plugged, leased or filtered here for none of ``guests`` (uuids); changes nothing."""

    @abc.abstractmethod
    def apply(self, document: Document, generation: int, digest: str = "") -> None:
        """Keep the document with its digest in the place of the one before, and bring the host to it.

        It is kept even when that fails: ``check`` tries again.
        """

    @abc.abstractmethod
    def forget(self, kind: str, subject_id: str) -> None:
        """Forget the document and remove what is here of its subject."""

    @abc.abstractmethod
    def documents(self) -> list[Owned]:
        """List the documents that are kept, and say which of them guests of this host need."""

    @abc.abstractmethod
    def forget_outdated(self, outdated: Collection[Owned]) -> None:
        """Forget these documents, but for those of which a newer generation came meanwhile."""
