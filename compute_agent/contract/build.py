"""The spec of one guest: all the information that a host needs to build it.

Units are in the field names or here: ``memory_mb``, ``min_ram`` in MiB; ``root_gb``, ``ephemeral_gb`` in GiB;
``swap_mb`` in MiB; ``size`` and ``virtual_size`` in bytes; ``mtu`` in bytes. UUIDs are strings with dashes; MAC
addresses are lower case with colons.
"""

from typing import Literal

import msgspec


class Frozen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Base class of transmitted structs. Unknown fields are ignored, so that both sides may have different versions."""


class ImageRef(Frozen, frozen=True):
    """The image of a root disk. The agent downloads the image's data from the portal, which permits the download while
    a command needs the image.
    """

    id: str
    name: str
    disk_format: str  # one of disk_formats.formats.FORMATS
    size: int  # bytes of the download
    hash_algo: str  # e.g. "sha512"
    hash_value: str  # lower-case hex
    min_disk: int = 0  # GiB
    min_ram: int = 0  # MiB
    properties: dict[str, str] = {}


class FlavorRef(Frozen, frozen=True):
    """A copy of the flavor, taken when the instance was created."""

    name: str
    vcpus: int
    memory_mb: int
    root_gb: int  # 0: the root disk has the image's own virtual size
    ephemeral_gb: int = 0
    swap_mb: int = 0
    extra_specs: dict[str, str] = {}


class FixedAddress(Frozen, frozen=True):
    """One address of a port, with the data that the guest and DHCP need to use it."""

    address: str  # "10.20.0.5"
    prefix_length: int
    gateway: str | None = None
    dns_nameservers: list[str] = []
    subnet_id: str = ""
    enable_dhcp: bool = True


class SecurityRule(Frozen, frozen=True):
    """One kind of allowed traffic.

    A rule without a remote allows all addresses. ``remote_group_id`` allows the members of the group on the network of
    the port and on networks that routers connect to that network. ``remote_address_group_id`` allows the ranges that
    are sent with the security group.
    """

    direction: str  # "ingress" | "egress"
    ethertype: str = "IPv4"
    protocol: str | None = None  # "tcp", "udp", "icmp", a number as text, or None for any
    port_range_min: int | None = None  # for ICMP: the type
    port_range_max: int | None = None  # for ICMP: the code
    remote_ip_prefix: str | None = None
    remote_group_id: str | None = None
    remote_address_group_id: str | None = None
    id: str = ""  # the id of the rule in the Networking API


class Segment(Frozen, frozen=True):
    """The segment of a network: it connects the network's bridges on different hosts (Neutron's ``provider:*``)."""

    type: str  # "vxlan", "flat", "vlan"
    id: int | None = None  # the VNI or VLAN tag
    physical_network: str = ""  # of flat and vlan


class HostRoute(Frozen, frozen=True):
    """A route that guests get by DHCP."""

    destination: str
    next_hop: str


class SubnetRef(Frozen, frozen=True):
    """One subnet of a network."""

    id: str
    cidr: str
    gateway: str | None = None
    enable_dhcp: bool = True
    dns_nameservers: list[str] = []
    host_routes: list[HostRoute] = []
    ipv6_ra_mode: str = ""  # "slaac", "dhcpv6-stateless", "dhcpv6-stateful"; empty: none, or IPv4
    ipv6_address_mode: str = ""
    routed: bool = False  # a router of Novella has the gateway's address


class AddressPair(Frozen, frozen=True):
    """An additional address that a port may send from and receive at."""

    address: str  # an address or a range in CIDR notation
    mac_address: str = ""  # empty: the port's MAC address


class DhcpOption(Frozen, frozen=True):
    """An additional DHCP option of a port (Neutron's ``extra_dhcp_opts``)."""

    name: str
    value: str
    ip_version: int = 4


class NetworkRef(Frozen, frozen=True):
    """The layer 2 network of a port, with the data that a guest needs to start. All other data is in the network's
    document.
    """

    id: str
    name: str
    bridge: str  # at most 15 characters, chosen by the control plane, unique in the cloud
    cidr: str  # "10.20.0.0/24" of the first IPv4 subnet
    gateway: str | None
    segment: Segment
    dhcp_address: str | None = None  # the address of the DHCP server if it is not the gateway
    mtu: int = 1500
    dns_domain: str = "novalocal"
    dns_nameservers: list[str] = []
    subnets: list[SubnetRef] = []


class PortRef(Frozen, frozen=True):
    """One network interface of the guest."""

    id: str
    mac_address: str
    tap: str  # "tap" + the first 11 characters of the port's id
    network: NetworkRef
    fixed_ips: list[FixedAddress]
    port_security: bool = True
    security_group_ids: list[str] = []  # the groups that the port is a member of
    tag: str = ""  # the owner's tag
    dns_name: str = ""  # the port's DNS name; empty: the guest's host name
    dns_domain: str = ""  # on a shared network: the domain of the port's project, below the network's domain
    allowed_address_pairs: list[AddressPair] = []
    extra_dhcp_opts: list[DhcpOption] = []
    enabled: bool = True  # False: no traffic
    security_groups: list[str] = []  # names of the groups, for the guest to read


class GuestInterface(Frozen, frozen=True):
    """An interface of a guest, with the data that its host received about it. If that data is lost, only the MAC
    address is set.
    """

    mac_address: str
    port_id: str = ""
    network_id: str = ""
    addresses: list[str] = []
    port_security: bool = True
    security_group_ids: list[str] = []
    allowed_address_pairs: list[AddressPair] = []
    tag: str = ""


class KeyPairRef(Frozen, frozen=True):
    """The public key that is injected into the guest."""

    name: str
    public_key: str
    type: str = "ssh"


class InjectedFile(Frozen, frozen=True):
    """A file that the cloud-init seed injects into the guest."""

    path: str  # in the guest
    contents: str  # base64


class RescueImage(Frozen, frozen=True):
    """The images that a rescued guest boots from."""

    image: ImageRef
    kernel: ImageRef | None = None
    ramdisk: ImageRef | None = None


class VolumeConnection(Frozen, frozen=True):
    """The NBD connection of a guest's QEMU to an exported volume."""

    export: str
    socket: str = ""  # path of the daemon's unix socket if the daemon runs on the guest's host; else address and port
    address: str = ""
    port: int = 0
    tls: bool = False
    tls_hostname: str = ""  # the name in the daemon's certificate


class GuestDisk(Frozen, frozen=True):
    """A volume that is attached to a guest."""

    id: str  # of the volume
    attachment_id: str
    size_gb: int
    connection: VolumeConnection
    device: str = ""  # "vdb"; chosen by the portal
    boot_index: int | None = None  # 0: the guest boots from this volume and has no other root disk
    read_only: bool = False
    shareable: bool = False  # other guests may attach it at the same time
    bus: str = "virtio"  # virtio, scsi, sata, ide, usb
    kind: Literal["disk", "cdrom", "lun"] = "disk"
    tag: str = ""  # the owner's tag
    iotune: dict[str, int] = {}  # libvirt's names: total_bytes_sec, read_iops_sec …
    serial: str = ""  # the disk's serial number in the guest: the volume's id


class LocalDisk(Frozen, frozen=True):
    """An empty disk on the guest's host, which is deleted with the guest."""

    size_mb: int
    swap: bool = False  # formatted as swap space by the guest
    format: str = ""  # file system ("ext4" …); empty: the host's choice
    device: str = ""
    boot_index: int | None = None


class InstanceSpec(Frozen, frozen=True):
    """The complete spec of a guest."""

    uuid: str
    name: str  # display name: untrusted text, must be escaped
    hostname: str  # RFC 952/1123 label, or a name with a domain
    project_id: str
    user_id: str
    image: ImageRef  # id empty: the guest boots from a volume, and only the properties count
    flavor: FlavorRef
    ports: list[PortRef]
    key_pair: KeyPairRef | None = None
    user_data: str | None = None  # base64, as sent to the API
    metadata: dict[str, str] = {}
    config_drive: bool = False
    availability_zone: str = "nova"
    admin_password: str | None = None
    injected_files: list[InjectedFile] = []
    created_at: str = ""  # ISO 8601
    launch_index: int = 0
    reservation_id: str = ""
    kernel: ImageRef | None = None  # booted instead of the disk's boot sector, with ``os_command_line``
    ramdisk: ImageRef | None = None
    rescue: RescueImage | None = None  # set while the guest is rescued
    posted_password: str = ""  # posted by the guest, encrypted with the key of its key pair
    volumes: list[GuestDisk] = []
    local_disks: list[LocalDisk] | None = None  # None: the flavor's ephemeral and swap disks
    cpu_features: list[str] | None = None  # the only features of the host's processor for the guest; None: all
    metadata_token: bool = False  # metadata requires a token (``HttpTokens`` of EC2)
    metadata_hops: int = 1  # hop limit of the response with a token; 1: only the guest itself


def boot_volume(spec: InstanceSpec) -> GuestDisk | None:
    """Return the volume that is the guest's root disk; None for a guest with a root disk on its host."""
    return next((disk for disk in spec.volumes if disk.boot_index == 0), None)


def is_cd(image: ImageRef) -> bool:
    """Return whether guests get the image as a CD-ROM, with an empty root disk."""
    return image.disk_format == "iso"


def image_refs(spec: InstanceSpec) -> list[ImageRef]:
    """Return every image that the guest is built from or boots from."""
    rescue = spec.rescue
    images = [spec.image, spec.kernel, spec.ramdisk]
    if rescue is not None:
        images += [rescue.image, rescue.kernel, rescue.ramdisk]
    return [image for image in images if image is not None and image.id]
