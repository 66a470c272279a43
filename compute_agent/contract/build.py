"""What one guest is made of: everything a host must know to build it, and nothing it need not know.

Units are in the field names or here: ``memory_mb``, ``min_ram`` in MiB; ``root_gb``, ``ephemeral_gb`` in GiB;
``swap_mb`` in MiB; ``size`` and ``virtual_size`` in bytes; ``mtu`` in bytes.  UUIDs are strings with dashes; MAC
addresses are lower case with colons.
"""

from typing import Literal

import msgspec


class Frozen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Base of every struct on the wire; unknown fields are ignored so that a newer side can speak to an older one."""


class ImageRef(Frozen, frozen=True):
    """The image a root disk is made from.  The bits are fetched from the portal while the build holds the right to
    them.
    """

    id: str
    name: str
    disk_format: str  # one of disk_formats.formats.FORMATS
    size: int  # bytes on the wire
    hash_algo: str  # e.g. "sha512"
    hash_value: str  # lower-case hex
    min_disk: int = 0  # GiB
    min_ram: int = 0  # MiB
    properties: dict[str, str] = {}


class FlavorRef(Frozen, frozen=True):
    """The size: a copy taken when the instance was created."""

    name: str
    vcpus: int
    memory_mb: int
    root_gb: int  # 0: the root disk has the image's own virtual size
    ephemeral_gb: int = 0
    swap_mb: int = 0
    extra_specs: dict[str, str] = {}


class FixedAddress(Frozen, frozen=True):
    """One address of a port with what the guest and DHCP need to use it."""

    address: str  # "10.20.0.5"
    prefix_length: int
    gateway: str | None = None
    dns_nameservers: list[str] = []
    subnet_id: str = ""
    enable_dhcp: bool = True


class SecurityRule(Frozen, frozen=True):
    """One allowed flow.

    Without a remote it is from and to anywhere; ``remote_group_id`` is from and to the members of the group on the same
    network and on those that routers join to it; ``remote_address_group_id`` is from and to the ranges that come with
    the security group.
    """

    direction: str  # "ingress" | "egress"
    ethertype: str = "IPv4"
    protocol: str | None = None  # "tcp", "udp", "icmp", a number as text, or None for any
    port_range_min: int | None = None  # for ICMP: the type
    port_range_max: int | None = None  # for ICMP: the code
    remote_ip_prefix: str | None = None
    remote_group_id: str | None = None
    remote_address_group_id: str | None = None
    id: str = ""  # the rule that it comes from


class Segment(Frozen, frozen=True):
    """What joins the bridges of a network on different hosts (Neutron's ``provider:*``)."""

    type: str  # "vxlan", "flat", "vlan"
    id: int | None = None  # the VNI or VLAN tag
    physical_network: str = ""  # of flat and vlan


class HostRoute(Frozen, frozen=True):
    """A route that guests are told by DHCP."""

    destination: str
    next_hop: str


class SubnetRef(Frozen, frozen=True):
    """One range of a network."""

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
    """Another address that a port may send from and is reached at."""

    address: str  # an address or a range in CIDR notation
    mac_address: str = ""  # empty: the port's own


class DhcpOption(Frozen, frozen=True):
    """One more DHCP option for a port (Neutron's ``extra_dhcp_opts``)."""

    name: str
    value: str
    ip_version: int = 4


class NetworkRef(Frozen, frozen=True):
    """The L2 network a port lies on, as far as a guest needs it to start; the rest is in the network's document."""

    id: str
    name: str
    bridge: str  # at most 15 characters, chosen by the control plane, unique in the cloud
    cidr: str  # "10.20.0.0/24" of the first IPv4 subnet
    gateway: str | None
    segment: Segment
    dhcp_address: str | None = None  # where DHCP answers when it is not the gateway
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
    security_group_ids: list[str] = []  # the groups it is a member of
    tag: str = ""  # what the guest's owner calls it
    dns_name: str = ""  # what it is called in the DNS; empty: by the guest's host name
    dns_domain: str = ""  # on a shared network, its project's own; the guest's name is answered in it only
    allowed_address_pairs: list[AddressPair] = []
    extra_dhcp_opts: list[DhcpOption] = []
    enabled: bool = True  # False: it passes nothing
    security_groups: list[str] = []  # names of the groups, for the guest to read


class GuestInterface(Frozen, frozen=True):
    """One interface that a guest has, with what its host was told of it; only the MAC address when that is lost."""

    mac_address: str
    port_id: str = ""
    network_id: str = ""
    addresses: list[str] = []
    port_security: bool = True
    security_group_ids: list[str] = []
    allowed_address_pairs: list[AddressPair] = []
    tag: str = ""


class KeyPairRef(Frozen, frozen=True):
    """The public key put into the guest."""

    name: str
    public_key: str
    type: str = "ssh"


class InjectedFile(Frozen, frozen=True):
    """One file that the guest finds in its seed."""

    path: str  # where the guest is to have it
    contents: str  # base64


class RescueImage(Frozen, frozen=True):
    """What a rescued guest boots from."""

    image: ImageRef
    kernel: ImageRef | None = None
    ramdisk: ImageRef | None = None


class VolumeConnection(Frozen, frozen=True):
    """How a guest's QEMU reaches an exported volume by NBD."""

    export: str
    socket: str = ""  # path of the daemon's unix socket, when it runs on the guest's host; else address and port
    address: str = ""
    port: int = 0
    tls: bool = False
    tls_hostname: str = ""  # the name in the daemon's certificate


class GuestDisk(Frozen, frozen=True):
    """A volume as a guest has it."""

    id: str  # of the volume
    attachment_id: str
    size_gb: int
    connection: VolumeConnection
    device: str = ""  # "vdb"; chosen by the portal
    boot_index: int | None = None  # 0: the guest boots from it and has no other root disk
    read_only: bool = False
    shareable: bool = False  # other guests may have it at the same time
    bus: str = "virtio"  # virtio, scsi, sata, ide, usb
    kind: Literal["disk", "cdrom", "lun"] = "disk"
    tag: str = ""  # what the guest's owner calls it
    iotune: dict[str, int] = {}  # libvirt's names: total_bytes_sec, read_iops_sec …
    serial: str = ""  # what the guest sees as the disk's serial number: the volume's id


class LocalDisk(Frozen, frozen=True):
    """An empty disk on the guest's host, which goes with the guest."""

    size_mb: int
    swap: bool = False  # formatted as swap space by the guest
    format: str = ""  # file system that it gets ("ext4" …); empty: the host's own choice
    device: str = ""
    boot_index: int | None = None


class InstanceSpec(Frozen, frozen=True):
    """The whole guest."""

    uuid: str
    name: str  # display name: user's text, hostile until escaped
    hostname: str  # RFC 952/1123 label, or a name with a domain
    project_id: str
    user_id: str
    image: ImageRef  # id empty: the guest boots from a volume, and only the properties count
    flavor: FlavorRef
    ports: list[PortRef]
    key_pair: KeyPairRef | None = None
    user_data: str | None = None  # base64, as the API took it
    metadata: dict[str, str] = {}
    config_drive: bool = False
    availability_zone: str = "nova"
    admin_password: str | None = None
    injected_files: list[InjectedFile] = []
    created_at: str = ""  # ISO 8601
    launch_index: int = 0
    reservation_id: str = ""
    kernel: ImageRef | None = None  # what the guest boots instead of its disk's boot sector, with ``os_command_line``
    ramdisk: ImageRef | None = None
    rescue: RescueImage | None = None  # while the guest is rescued
    posted_password: str = ""  # encrypted by the guest with its key, as it posted it
    volumes: list[GuestDisk] = []
    local_disks: list[LocalDisk] | None = None  # None: what the flavor says
    metadata_token: bool = False  # its metadata service answers only who shows a token (``HttpTokens`` of EC2)
    metadata_hops: int = 1  # machines that the answer with a token may pass, the guest being the first


def boot_volume(spec: InstanceSpec) -> GuestDisk | None:
    """Return the volume that is the guest's root disk; None for a guest with a root disk on its host."""
    return next((disk for disk in spec.volumes if disk.boot_index == 0), None)


def is_cd(image: ImageRef) -> bool:
    """Return whether guests have an image in a CD-ROM drive, beside an empty root disk."""
    return image.disk_format == "iso"


def image_refs(spec: InstanceSpec) -> list[ImageRef]:
    """Return every image that the guest is made of or boots from."""
    rescue = spec.rescue
    found = [spec.image, spec.kernel, spec.ramdisk]
    if rescue is not None:
        found += [rescue.image, rescue.kernel, rescue.ramdisk]
    return [image for image in found if image is not None and image.id]
