"""What a face asks of the compute services, already free of HTTP and forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class NetworkRequest:
    """One network card: on a network (optionally with a fixed address) or an existing port.  Ids are text as the caller
    gave them.
    """

    network_id: str | None = None
    port_id: str | None = None
    fixed_ip: str | None = None


Networks = tuple[NetworkRequest, ...] | Literal["auto", "none"] | None
"""``auto`` and None: the project's only network; ``none``: no card at all."""


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """Everything a launch may say.  The names are those of the Compute API; unset means that the cloud chooses."""

    name: str
    image_id: str
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
    config_drive: bool = False
    min_count: int = 1
    max_count: int = 1
    availability_zone: str | None = None
    description: str | None = None
    hostname: str | None = None
    """None: made from the name."""
    scheduler_hints: Mapping[str, object] = field(default_factory=dict)
    idempotency_key: str | None = None
    """Text of the caller's choice: a launch with a key it has used before is not made again."""


@dataclass(frozen=True, slots=True)
class FlavorRequest:
    """A new size: memory and swap in MiB, disks in GiB.  ``flavorid`` None: a UUID is made."""

    name: str
    vcpus: int
    memory_mb: int
    root_gb: int
    ephemeral_gb: int = 0
    swap_mb: int = 0
    flavorid: str | None = None
    description: str = ""
    is_public: bool = True
    rxtx_factor: float = 1.0
    extra_specs: Mapping[str, str] = field(default_factory=dict)
