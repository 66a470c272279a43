"""What a face asks of the compute services, already free of HTTP and forms."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class NetworkRequest:
    """One network interface: on a network (optionally with a fixed address) or an existing port.  Ids are text as the
    caller gave them.
    """

    network_id: str | None = None
    port_id: str | None = None
    fixed_ip: str | None = None
    tag: str = ""
    """What the guest finds in its config drive about the interface."""
    subnet_id: str | None = None
    """The subnet of the network that its address is to be of; None: any."""


Networks = tuple[NetworkRequest, ...] | Literal["auto", "none"] | None
"""``auto`` and None: the project's only network; ``none``: no interface at all."""


@dataclass(frozen=True, slots=True)
class DiskRequest:
    """One disk that is asked for (the reference's ``block_device_mapping_v2``)."""

    source_type: str
    """``image``, ``volume``, ``snapshot`` or ``blank``."""
    destination_type: str
    """``local`` or ``volume``."""
    source_id: str | None = None
    """Of the image, the volume or the snapshot, as the caller gave it."""
    boot_index: int | None = None
    """0: the server boots from it; negative and None: it does not."""
    size: int | None = None
    """GiB, of swap MiB."""
    volume_type: str = ""
    delete_on_termination: bool = False
    device_name: str = ""
    disk_bus: str = ""
    device_type: str = ""
    guest_format: str = ""
    """``swap``, or the file system of a local disk."""
    tag: str = ""


@dataclass(frozen=True, slots=True)
class InjectedFile:
    """One file written into the guest: ``contents`` in base64."""

    path: str
    contents: str


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """Everything a launch may say.  The names are those of the Compute API; unset means that the cloud chooses."""

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
    """Base64, at most 65,535 bytes of it."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    metadata_options: Mapping[str, Any] = field(default_factory=dict)
    """Columns of ``ec2.MetadataOptions``: how guests read their metadata."""
    config_drive: bool = False
    min_count: int = 1
    max_count: int = 1
    availability_zone: str | None = None
    description: str | None = None
    hostname: str | None = None
    """None: made from the name."""
    scheduler_hints: Mapping[str, object] = field(default_factory=dict)
    admin_password: str | None = None
    """None: one is made when the setting ENABLE_INSTANCE_PASSWORD says so."""
    access_ip_v4: str = ""
    access_ip_v6: str = ""
    disk_config: str = "MANUAL"
    """``MANUAL`` or ``AUTO``."""
    injected_files: tuple[InjectedFile, ...] = ()
    disks: tuple[DiskRequest, ...] = ()
    """Beside a root disk made from the image, or with the one to boot from."""
    shares_volumes: bool = True
    """Whether one of ``disks`` may be a multiattach volume (from 2.60 on)."""
    trusted_certificates: tuple[str, ...] | None = None
    """Ids, kept as given: image signatures are not checked."""
    host: str | None = None
    """The host an operator wants (2.74); ``availability_zone`` may also name one as ``zone:host:node``."""
    hypervisor_hostname: str | None = None
    idempotency_key: str | None = None
    """Text of the caller's choice: a launch with a key it has used before is not made again."""
