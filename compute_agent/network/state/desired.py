"""The desired state of this host's network, from plugged instances and received documents."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from compute_agent.contract.build import PortRef
from compute_agent.contract.network import (
    NETWORK,
    FloatingIpDocument,
    NetworkDocument,
    RouterDocument,
    SecurityGroupDocument,
)


@dataclass(frozen=True)
class LocalPort:
    """An interface of a guest on this host."""

    instance_id: str
    hostname: str
    """The guest's name in DNS and DHCP."""
    port: PortRef
    away: bool = False
    """Whether the guest is on the other host of its migration."""

    @property
    def addresses(self) -> list[str]:
        """The interface's fixed addresses, of both IP versions."""
        return [fixed.address for fixed in self.port.fixed_ips]


@dataclass(frozen=True)
class DesiredState:
    """The state that the parts of the network apply to the kernel; mappings are by id."""

    ports: tuple[LocalPort, ...] = ()
    networks: Mapping[str, NetworkDocument] = field(default_factory=dict)
    """All networks with a document, and all networks of guests' interfaces. A network without a document has no peers
    and no services.
    """
    routers: Mapping[str, RouterDocument] = field(default_factory=dict)
    floating_ips: Mapping[str, FloatingIpDocument] = field(default_factory=dict)
    security_groups: Mapping[str, SecurityGroupDocument] = field(default_factory=dict)
    undocumented: frozenset[str] = frozenset()
    """Networks without a document, which are known only from their guests' interfaces."""

    def ports_on(self, network_id: str) -> list[LocalPort]:
        """Return the interfaces on a network."""
        return [each for each in self.ports if each.port.network.id == network_id]


@dataclass(frozen=True)
class Touched:
    """Subjects that may have changed since the desired state was last applied."""

    subjects: frozenset[tuple[str, str]] = frozenset()
    """Pairs of kind and id."""
    everything: bool = False

    def includes(self, kind: str, subject_id: str) -> bool:
        """Return whether the subject may have changed."""
        return self.everything or (kind, subject_id) in self.subjects

    def networks(self, desired: DesiredState) -> list[NetworkDocument]:
        """Return the desired networks that may have changed, or whose interfaces on this host may have changed."""
        return [network for network in desired.networks.values() if self.includes(NETWORK, network.id)]


EVERYTHING = Touched(everything=True)
