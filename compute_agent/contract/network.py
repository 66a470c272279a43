"""What a host is told of networks, routers, floating IPs and security groups: one document for each.

A document is all that this host must know of its subject and replaces the one before; it says how things are to be,
never what to do next.  The host keeps it on its disk, brings its kernel to it, and after a restart needs nobody to do
so again.  The ``digest`` of a request tells one document from all others: the host keeps it and repeats it in
``Hello``.  Addresses are text without prefix length, ranges are CIDR; MAC addresses are lower case with colons; UUIDs
have dashes; MTU is in bytes.
"""

from compute_agent.contract.base import Message
from compute_agent.contract.build import Frozen, SecurityRule, Segment, SubnetRef

NETWORK, ROUTER, FLOATING_IP, SECURITY_GROUP = "network", "router", "floating_ip", "security_group"
"""The kinds of subjects that documents are about."""


class RemotePort(Frozen, frozen=True):
    """A port of the network that is not on this host: where frames for it go, and what its guest is called."""

    id: str
    mac_address: str
    addresses: list[str]
    underlay: str = ""  # underlay address of the host it is on; empty: on none, or not known
    hostname: str = ""  # its guest's; empty: it has no name here
    dns_domain: str = ""  # on a shared network: its project's own


class ServicePort(Frozen, frozen=True):
    """A port that Novella itself answers at: that of a network's services, the same on every host, or a host's own way
    into an external network (its addresses have a prefix length).
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
    enabled: bool = True  # False: the bridge is there and passes nothing
    service: ServicePort | None = None  # DHCP, names and metadata; None: no subnet wants DHCP
    peers: list[str] = []  # underlay addresses of the other hosts that have the network
    remote_ports: list[RemotePort] = []  # those of guests on other hosts
    shared_macs: list[str] = []  # of router interfaces: on every host, so they never cross the underlay
    gateway_port: ServicePort | None = None  # of an external network: this host's own address on it


class RouterInterface(Frozen, frozen=True):
    """One leg of a router, with the same MAC and addresses on every host."""

    port_id: str
    network_id: str
    mac_address: str
    addresses: list[str]  # with prefix length: "10.20.0.1/24"


class Route(Frozen, frozen=True):
    """A way to a range through a machine on one of the router's networks."""

    destination: str
    next_hop: str


class ExternalGateway(Frozen, frozen=True):
    """A router's way out."""

    network_id: str
    next_hops: list[str]  # the external subnets' gateways, at most one of each IP version
    enable_snat: bool = True
    port_id: str = ""
    mac_address: str = ""
    addresses: list[str] = []  # the router's own, with prefix length
    here: bool = False  # whether this host is the one that bears them


class RouterDocument(Frozen, frozen=True):
    """One router as this host needs it."""

    id: str
    name: str
    enabled: bool = True  # False: it passes nothing
    interfaces: list[RouterInterface] = []
    routes: list[Route] = []
    external: ExternalGateway | None = None


class PortForward(Frozen, frozen=True):
    """Ports of a floating IP that lead to ports of a guest's address; the internal range is as long, or one port."""

    protocol: str  # "tcp", "udp", "icmp", "dccp", "sctp"
    external_first: int
    external_last: int
    internal_address: str
    internal_first: int
    internal_last: int


class FloatingIpDocument(Frozen, frozen=True):
    """One floating IP, at the host that bears it and at others that it forwards to."""

    id: str
    address: str
    network_id: str  # the external one
    router_id: str
    fixed_address: str | None = None  # None: only what ``forwards`` says
    forwards: list[PortForward] = []
    bearer: str = ""  # underlay address of the host that bears the address; empty: this one


class GroupMember(Frozen, frozen=True):
    """An address of a port in a security group, on any host."""

    network_id: str
    address: str


class AddressRanges(Frozen, frozen=True):
    """An address group: ranges of either IP version, with prefix length."""

    id: str
    addresses: list[str]


class SecurityGroupDocument(Frozen, frozen=True):
    """One security group: what its ports may do, and who they are."""

    id: str
    rules: list[SecurityRule]
    stateful: bool = True
    members: list[GroupMember] = []
    address_groups: list[AddressRanges] = []  # those that the rules name


class ApplyNetworkRequest(Message, frozen=True, omit_defaults=True):
    """Bring the network to this."""

    network: NetworkDocument
    digest: str = ""


class ApplyRouterRequest(Message, frozen=True, omit_defaults=True):
    """Bring the router to this."""

    router: RouterDocument
    digest: str = ""


class ApplyFloatingIpRequest(Message, frozen=True, omit_defaults=True):
    """Bring the floating IP to this."""

    floating_ip: FloatingIpDocument
    digest: str = ""


class ApplySecurityGroupRequest(Message, frozen=True, omit_defaults=True):
    """Bring the security group to this, on running guests too."""

    security_group: SecurityGroupDocument
    digest: str = ""


class ForgetRequest(Message, frozen=True):
    """This host needs the subject no more: remove what is there of it.  Succeeds when there is nothing left."""


ApplyRequest = ApplyNetworkRequest | ApplyRouterRequest | ApplyFloatingIpRequest | ApplySecurityGroupRequest
DocumentRequest = ApplyRequest | ForgetRequest
