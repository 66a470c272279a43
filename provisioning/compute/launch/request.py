"""Requests to the compute services, independent of APIs and forms."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class NetworkRequest:
    """A network interface: on a network (optionally with a fixed address) or an existing port. Ids are the caller's
    text.
    """

    network_id: str | None = None
    port_id: str | None = None
    fixed_ip: str | None = None
    tag: str = ""
    """Shown to the guest in its metadata and config drive."""
    subnet_id: str | None = None
    """Subnet for the address; None: any subnet of the network."""


Networks = tuple[NetworkRequest, ...] | Literal["auto", "none"] | None
"""``auto`` and None: the project's only network; ``none``: no interface."""


@dataclass(frozen=True, slots=True)
class DiskRequest:
    """A requested disk (``block_device_mapping_v2`` of the API reference)."""

    source_type: str
    """``image``, ``volume``, ``snapshot`` or ``blank``."""
    destination_type: str
    """``local`` or ``volume``."""
    source_id: str | None = None
    """Id of the image, volume or snapshot, as the caller passed it."""
    boot_index: int | None = None
    """0: the boot disk; negative and None: not bootable."""
    size: int | None = None
    """GiB; MiB for swap."""
    volume_type: str = ""
    volume_name: str = ""
    """Name of a new volume, with ``{name}`` for the server's name; empty: none."""
    delete_on_termination: bool = False
    device_name: str = ""
    disk_bus: str = ""
    device_type: str = ""
    guest_format: str = ""
    """``swap``, or the file system of a local disk."""
    tag: str = ""
    mount: str = ""
    """Directory where cloud-init mounts the disk, with a new file system if it has none; empty: not mounted."""


@dataclass(frozen=True, slots=True)
class InjectedFile:
    """A file to write into the guest: ``contents`` in base64."""

    path: str
    contents: str


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """Parameters of a launch, named as in the Compute API."""

    name: str
    image_id: str
    """Empty: the server boots from one of ``disks``."""
    flavor_ref: str
    """A flavor's id, as in ``flavorRef``."""
    networks: Networks = None
    key_name: str | None = None
    security_groups: tuple[str, ...] | None = None
    """Names or ids; None: the project's ``default`` group."""
    user_data: str | None = None
    """Base64, at most 65,535 bytes."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    metadata_options: Mapping[str, Any] = field(default_factory=dict)
    """Columns of ``ec2.MetadataOptions``."""
    config_drive: bool = False
    min_count: int = 1
    max_count: int = 1
    availability_zone: str | None = None
    description: str | None = None
    hostname: str | None = None
    """None: derived from the name."""
    scheduler_hints: Mapping[str, object] = field(default_factory=dict)
    admin_password: str | None = None
    """None: generated if ENABLE_INSTANCE_PASSWORD is set."""
    access_ip_v4: str = ""
    access_ip_v6: str = ""
    disk_config: str = "MANUAL"
    """``MANUAL`` or ``AUTO``."""
    injected_files: tuple[InjectedFile, ...] = ()
    disks: tuple[DiskRequest, ...] = ()
    """Additional disks, or also the boot disk."""
    shares_volumes: bool = True
    """Whether ``disks`` may contain multiattach volumes (from microversion 2.60 on)."""
    trusted_certificates: tuple[str, ...] | None = None
    """Ids; stored, but image signatures are not verified."""
    host: str | None = None
    """Host requested by an operator (2.74); also possible in ``availability_zone`` as ``zone:host:node``."""
    hypervisor_hostname: str | None = None
    reachable: bool = False
    """Whether each server gets a floating IP, which is deleted with the server."""
    placeholder: str = ""
    """Text in ``name`` that is replaced by the number of each server; empty: several servers get ``-1``, ``-2`` …"""
    idempotency_key: str | None = None
    """Chosen by the caller; a launch with a key that was used before is not repeated."""
