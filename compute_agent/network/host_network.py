"""The contract of the host's network: bridges, DHCP, taps and filters."""

import abc

from compute_agent.contract.build import InstanceSpec, PortRef
from compute_agent.contract.messages import Leftover


class HostNetwork(abc.ABC):
    """Host networking; every method is idempotent, and a failure of this host raises RetryableHostError."""

    @abc.abstractmethod
    def init_host(self) -> None:
        """Prepare what all networks share: sysctls, the uplink, the base of the filter tables."""

    @abc.abstractmethod
    def plug(self, spec: InstanceSpec) -> None:
        """Make the bridges of the instance's networks; let DHCP answer its interfaces with their fixed addresses."""

    @abc.abstractmethod
    def apply_firewall(self, spec: InstanceSpec) -> None:
        """Install anti-spoofing (MAC, ARP, IP) and the security rules of every port, before the guest runs."""

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
    def check(self) -> list[str]:
        """Mend what died by itself, for example a DHCP server, and return a line for each thing mended."""

    @abc.abstractmethod
    def leftovers(self, guests: set[str]) -> list[Leftover]:
        """List what is plugged, leased or filtered here for none of ``guests`` (uuids); changes nothing."""
