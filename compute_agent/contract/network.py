"""Documents of networks, routers, floating IPs and security groups that are sent to hosts.

A document contains all the data that this host needs about its subject, and replaces the previous one. It describes the
desired state, not actions. The host stores it and applies it to its kernel; after a restart the host applies it again
without the portal. The ``digest`` of a request identifies the document: the host stores it and repeats it in ``Hello``.
Addresses are text without prefix length, ranges are CIDR; MAC addresses are lower case with colons; UUIDs have dashes;
MTU is in bytes.
"""

from compute_agent.contract.base import Message
from compute_agent.contract.build import Frozen, SecurityRule, Segment, SubnetRef

NETWORK, ROUTER, FLOATING_IP, SECURITY_GROUP = "network", "router", "floating_ip", "security_group"
"""The kinds of subjects with documents."""


class RemotePort(Frozen, frozen=True):
    """A port of the network on another host: the host to which frames for the port are sent, and the name of the port's
    guest. While a guest is being migrated, both hosts get its ports, and use them while the guest is not here.
    """

    id: str
    mac_address: str
    addresses: list[str]
    underlay: str = ""  # underlay address of the port's host; empty: unknown or no host
    hostname: str = ""  # the guest's host name; empty: the guest has no name on this network
    dns_domain: str = ""  # on a shared network: the domain of the port's project


class ServicePort(Frozen, frozen=True):
    """A port that belongs to no guest: the port of a network's services, which is the same on every host, or this
    host's own port on an external network. Only the addresses on an external network have a prefix length.
    """

    id: str
    mac_address: str
    addresses: list[str]


class NetworkDocument(Frozen, frozen=True):
    """One network as this host needs it."""

    id: str
    name: str
    bridge: str  # at most 15 characters, unique in the cloud
    mtu: int
    segment: Segment
    subnets: list[SubnetRef]
    dns_domain: str = "novalocal"
    external: bool = False
    enabled: bool = True  # False: the bridge exists without traffic
    service: ServicePort | None = None  # DHCP, DNS and metadata; None: no subnet has DHCP
    peers: list[str] = []  # underlay addresses of the other hosts that have the network
    remote_ports: list[RemotePort] = []  # ports of guests on other hosts
    shared_macs: list[str] = []  # of router interfaces; the same on every host, so they never cross the underlay
    gateway_port: ServicePort | None = None  # of an external network: this host's own address on it


class RouterInterface(Frozen, frozen=True):
    """An interface of a router, with the same MAC and addresses on every host."""

    port_id: str
    network_id: str
    mac_address: str
    addresses: list[str]  # with prefix length: "10.20.0.1/24"


class Route(Frozen, frozen=True):
    """A route to a range, with a next hop on one of the router's networks."""

    destination: str
    next_hop: str


class ExternalGateway(Frozen, frozen=True):
    """A router's external gateway."""

    network_id: str
    next_hops: list[str]  # the external subnets' gateways, at most one of each IP version
    enable_snat: bool = True
    port_id: str = ""
    mac_address: str = ""
    addresses: list[str] = []  # the router's external addresses, with prefix length
    here: bool = False  # whether this host has these addresses


class RouterDocument(Frozen, frozen=True):
    """One router as this host needs it."""

    id: str
    name: str
    enabled: bool = True  # False: the router forwards nothing
    interfaces: list[RouterInterface] = []
    routes: list[Route] = []
    external: ExternalGateway | None = None


class PortForward(Frozen, frozen=True):
    """Ports of a floating IP that are forwarded to as many ports of a guest's address, or to one port."""

    protocol: str  # "tcp", "udp", "icmp", "dccp", "sctp"
    external_first: int
    external_last: int
    internal_address: str
    internal_first: int
    internal_last: int


class FloatingIpDocument(Frozen, frozen=True):
    """One floating IP, for the host that has the address, and for hosts with guests to which ports of the address are
    forwarded.
    """

    id: str
    address: str
    network_id: str  # the external network
    router_id: str
    fixed_address: str | None = None  # None: only ``forwards``
    forwards: list[PortForward] = []
    bearer: str = ""  # underlay address of the host that has the floating IP; empty: this host
    port_id: str = ""  # a port whose guest is being migrated: the floating IP is on this host while the guest is here


class GroupMember(Frozen, frozen=True):
    """An address of a port in a security group, on any host."""

    network_id: str
    address: str


class AddressRanges(Frozen, frozen=True):
    """An address group: ranges of either IP version, with prefix length."""

    id: str
    addresses: list[str]


class SecurityGroupDocument(Frozen, frozen=True):
    """One security group: its rules and its members."""

    id: str
    rules: list[SecurityRule]
    stateful: bool = True
    members: list[GroupMember] = []
    address_groups: list[AddressRanges] = []  # the address groups that the rules refer to


class ApplyNetworkRequest(Message, frozen=True, omit_defaults=True):
    """Apply the network's document."""

    network: NetworkDocument
    digest: str = ""


class ApplyRouterRequest(Message, frozen=True, omit_defaults=True):
    """Apply the router's document."""

    router: RouterDocument
    digest: str = ""


class ApplyFloatingIpRequest(Message, frozen=True, omit_defaults=True):
    """Apply the floating IP's document."""

    floating_ip: FloatingIpDocument
    digest: str = ""


class ApplySecurityGroupRequest(Message, frozen=True, omit_defaults=True):
    """Apply the security group's document, also to running guests."""

    security_group: SecurityGroupDocument
    digest: str = ""


class ForgetRequest(Message, frozen=True):
    """Delete the document and all kernel objects of a subject that this host no longer needs. Succeeds if nothing
    exists.
    """


ApplyRequest = ApplyNetworkRequest | ApplyRouterRequest | ApplyFloatingIpRequest | ApplySecurityGroupRequest
DocumentRequest = ApplyRequest | ForgetRequest
