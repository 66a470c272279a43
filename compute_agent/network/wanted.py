"""What this host's network is to be, as one picture: what is plugged here, and what the host was told."""

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
    """What it is called in the DNS and told by DHCP."""
    port: PortRef

    @property
    def addresses(self) -> list[str]:
        """Its fixed addresses, of both IP versions."""
        return [fixed.address for fixed in self.port.fixed_ips]


@dataclass(frozen=True)
class Wanted:
    """Everything that the parts of the network bring the kernel to; mappings are by id."""

    ports: tuple[LocalPort, ...] = ()
    networks: Mapping[str, NetworkDocument] = field(default_factory=dict)
    """Those of documents and those that guests here lie on; the latter have no peers and no services yet."""
    routers: Mapping[str, RouterDocument] = field(default_factory=dict)
    floating_ips: Mapping[str, FloatingIpDocument] = field(default_factory=dict)
    security_groups: Mapping[str, SecurityGroupDocument] = field(default_factory=dict)
    untold: frozenset[str] = frozenset()
    """Networks whose document is not here: they are known by their guests' interfaces alone."""

    def ports_on(self, network_id: str) -> list[LocalPort]:
        """List the interfaces on a network."""
        return [each for each in self.ports if each.port.network.id == network_id]


@dataclass(frozen=True)
class Touched:
    """What may have changed since the kernel was last brought to what is wanted."""

    subjects: frozenset[tuple[str, str]] = frozenset()
    """Pairs of kind and id."""
    everything: bool = False

    def includes(self, kind: str, subject_id: str) -> bool:
        """Say whether the subject may have changed."""
        return self.everything or (kind, subject_id) in self.subjects

    def networks(self, wanted: Wanted) -> list[NetworkDocument]:
        """List the wanted networks that may have changed, or whose interfaces on this host did."""
        return [network for network in wanted.networks.values() if self.includes(NETWORK, network.id)]


EVERYTHING = Touched(everything=True)
