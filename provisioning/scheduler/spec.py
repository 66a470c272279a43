"""The scheduler's input as plain values: the request and the hosts."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

RawId = uuid.UUID | str
"""A host's id with the type that the database driver returns; converted to a UUID only when needed."""


def raw_ids(ids: Iterable[uuid.UUID]) -> frozenset[RawId]:
    """Return the ids in every form that a database driver returns, for comparison with raw ids."""
    return frozenset(form for each in ids for form in (each, each.hex, str(each)))


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The requested server's group: Nova's name of the policy, and host id → number of its other servers there."""

    policy: str
    members: Mapping[uuid.UUID, int] = field(default_factory=dict)
    most: int = 1
    """Maximum number of an anti-affinity group's servers on a host."""


class HostNeed(NamedTuple):
    """A requirement on a host, or a forbidden trait."""

    asked: str
    """The property and its value in the image or flavor: ``os_secure_boot=required``."""
    words: str
    """The requirement's name in reasons: ``Secure Boot``."""
    trait: str = ""
    """The trait of hosts that meet the requirement; empty: no host meets it."""
    forbidden: bool = False


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """The requirements of a guest: memory in MiB, disk in GiB."""

    vcpus: int
    memory_mb: int
    disk_gb: int
    availability_zone: str = ""
    """The requested availability zone; empty: any zone."""
    excluded_hosts: frozenset[uuid.UUID] = frozenset()
    """Hosts on which this request has failed."""
    requested_host: str = ""
    """Name of the only acceptable host; empty: any."""
    same_hosts: frozenset[uuid.UUID] | None = None
    """Hosts of the servers in the hint ``same_host``; None: no such hint."""
    different_hosts: frozenset[uuid.UUID] = frozenset()
    """Hosts of the servers in the hint ``different_host``."""
    group: GroupSpec | None = None
    architecture: str = ""
    """The architecture of the image; empty: any."""
    aggregate_specs: Mapping[str, str] = field(default_factory=dict)
    """Requirements of the flavor on the metadata of aggregates."""
    ignored_hosts: frozenset[str] = frozenset()
    """Names of hosts that an operator excluded."""
    hypervisor_type: str = ""
    """The hypervisor of the image (``img_hv_type``); empty: any."""
    hypervisor_versions: str = ""
    """The image's condition on the hypervisor's version (``img_hv_requested_version``): ``>=6.0,<9``; empty: any."""
    capabilities: Mapping[str, str] = field(default_factory=dict)
    """Requirements of the flavor on the host (``capabilities:`` and extra specs without a scope)."""
    query: object = None
    """The hint ``query``, Nova's JSON condition as lists and texts, or None."""
    host_needs: tuple[HostNeed, ...] = ()
    """Requirements of the image and the flavor other than amounts."""
    cpu_features: frozenset[str] = frozenset()
    """The features of a running guest's processor, which a host must have for it to move there; empty: any."""
    cpu_vendor: str = ""
    """The vendor of a running guest's processor; empty: any."""
    image_id: uuid.UUID | None = None
    """The image that a host must download unless it is cached."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Additional data of hosts, by raw id; missing hosts have none.

    Only facts that a request or the settings need are read from the database.
    """

    io_ops: Mapping[RawId, int] = field(default_factory=dict)
    """Number of servers that are being built, copied or migrated on the host."""
    with_image: frozenset[RawId] = frozenset()
    """Hosts that have the request's image in their cache."""
    aggregate_metadata: Mapping[RawId, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    """Metadata key → its values in all aggregates of the host."""
    cpu_info: Mapping[RawId, Mapping[str, str]] = field(default_factory=dict)
    traits: Mapping[RawId, frozenset[str]] = field(default_factory=dict)
    """Names of the host's traits, as in OpenStack; operators define ``CUSTOM_…``."""


NO_FACTS = Facts()


class HostState(NamedTuple):
    """The recorded state of a host: memory in MiB, disk in GiB. ``*_limit`` are the amounts that may be allocated,
    after reserved amounts and ratios.
    """

    raw_id: RawId
    name: str
    availability_zone: str
    enabled: bool
    alive: bool
    vcpus_total: int
    vcpus_limit: int
    memory_mb_limit: int
    disk_gb_limit: int
    vcpus_allocated: int
    memory_mb_allocated: int
    disk_gb_allocated: int
    instances: int = 0
    failed_builds: int = 0
    """Number of failed builds since the last successful one."""
    max_instances: int | None = None
    """Limit set by the host's aggregates (``max_instances_per_host``); None: the setting applies."""
    max_io_ops: int | None = None
    """Limit set by the host's aggregates (``max_io_ops_per_host``); None: the setting applies."""
    architecture: str = ""
    """Processor architecture. It and the hypervisor's type and version are read only with the fact ``hardware``."""
    hypervisor_type: str = ""
    hypervisor_version: int = 0
    """libvirt's number: major * 1,000,000 + minor * 1,000 + release."""
    facts: Facts = NO_FACTS

    @property
    def id(self) -> uuid.UUID:
        return self.raw_id if isinstance(self.raw_id, uuid.UUID) else uuid.UUID(self.raw_id)

    @property
    def free_memory_mb(self) -> int:
        """MiB of memory that may still be allocated."""
        return max(self.memory_mb_limit - self.memory_mb_allocated, 0)

    @property
    def free_disk_gb(self) -> int:
        """GiB of disk that may still be allocated."""
        return max(self.disk_gb_limit - self.disk_gb_allocated, 0)

    @property
    def io_ops(self) -> int:
        """Number of servers that are being built, copied or migrated on the host."""
        return self.facts.io_ops.get(self.raw_id, 0)

    @property
    def has_image(self) -> bool:
        """Whether the host has the request's image in its cache."""
        return self.raw_id in self.facts.with_image

    @property
    def aggregate_metadata(self) -> Mapping[str, frozenset[str]]:
        """Metadata key → its values in all aggregates of the host."""
        return self.facts.aggregate_metadata.get(self.raw_id, {})

    @property
    def cpu_info(self) -> Mapping[str, str]:
        """Processor information from the host's agent."""
        return self.facts.cpu_info.get(self.raw_id, {})

    @property
    def traits(self) -> frozenset[str]:
        """Names of the host's traits, as in OpenStack; operators define ``CUSTOM_…``."""
        return self.facts.traits.get(self.raw_id, _NO_TRAITS)


_NO_TRAITS = frozenset[str]()
