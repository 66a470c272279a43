"""The scheduler's input as plain values: the request and the hosts."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

RawId = uuid.UUID | str
"""The id of a host as the database gives it: read as a UUID only where somebody asks for one."""


def raw_ids(ids: Iterable[uuid.UUID]) -> frozenset[RawId]:
    """Return ids in every form that a database gives them in, so that raw ids can be looked up unread."""
    return frozenset(form for each in ids for form in (each, each.hex, str(each)))


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The group of a server, with Nova's name of its policy, and how many of the other members each host has."""

    policy: str
    members: Mapping[uuid.UUID, int] = field(default_factory=dict)
    most: int = 1
    """Servers of an anti-affine group that one host may have."""


class HostNeed(NamedTuple):
    """Something that a host must offer, or a trait that it must not have."""

    asked: str
    """The property and its value, as the image or the flavor has them: ``os_secure_boot=required``."""
    words: str
    """Its name in reasons: ``Secure Boot``."""
    trait: str = ""
    """The trait of hosts that offer it; empty: no host does."""
    forbidden: bool = False


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """What a guest needs: memory in MiB, disk in GiB."""

    vcpus: int
    memory_mb: int
    disk_gb: int
    availability_zone: str = ""
    """Empty: any."""
    excluded_hosts: frozenset[uuid.UUID] = frozenset()
    """Hosts that failed this request."""
    requested_host: str = ""
    """The name of the only host that will do; empty: any."""
    same_hosts: frozenset[uuid.UUID] | None = None
    """Hosts of the servers it is to be with; None: not asked for."""
    different_hosts: frozenset[uuid.UUID] = frozenset()
    """Hosts of the servers it is to be apart from."""
    group: GroupSpec | None = None
    architecture: str = ""
    """The processor that the image is made for; empty: any."""
    aggregate_specs: Mapping[str, str] = field(default_factory=dict)
    """What the flavor asks of the aggregates' metadata."""
    ignored_hosts: frozenset[str] = frozenset()
    """Names of hosts that will not do, as an operator says."""
    hypervisor_type: str = ""
    """The hypervisor that the image is made for (``img_hv_type``); empty: any."""
    hypervisor_versions: str = ""
    """What the image asks of its version (``img_hv_requested_version``): ``>=6.0,<9``; empty: any."""
    capabilities: Mapping[str, str] = field(default_factory=dict)
    """What the flavor asks of the host (``capabilities:`` and extra specs without a scope)."""
    query: object = None
    """The hint ``query``, Nova's JSON condition as lists and texts; None: none."""
    host_needs: tuple[HostNeed, ...] = ()
    """The needs of the image and the flavor beside amounts."""
    image_id: uuid.UUID | None = None
    """The image that a host would have to fetch, unless it has it."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of hosts besides their rows, by raw id; a host that is missing has none of it.

    Only what a request or the settings ask for is read from the database.
    """

    io_ops: Mapping[RawId, int] = field(default_factory=dict)
    """Servers that are being built, copied or moved there now."""
    with_image: frozenset[RawId] = frozenset()
    """Hosts that have the request's image in their cache."""
    aggregate_metadata: Mapping[RawId, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    """Key → values over all aggregates of the host."""
    cpu_info: Mapping[RawId, Mapping[str, str]] = field(default_factory=dict)
    traits: Mapping[RawId, frozenset[str]] = field(default_factory=dict)
    """Traits, by their names in OpenStack; ``CUSTOM_…`` are those of operators."""


NO_FACTS = Facts()


class HostState(NamedTuple):
    """One host as the records have it: memory in MiB, disk in GiB; ``*_limit`` are what may be allocated, ratios and
    reserves applied.
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
    """Builds that failed there since the last one that went well."""
    max_instances: int | None = None
    """What its aggregates say (``max_instances_per_host``); None: the setting holds."""
    max_io_ops: int | None = None
    """The same of ``max_io_ops_per_host``."""
    architecture: str = ""
    """This and what its hypervisor is are read only where ``needs`` has ``hardware``."""
    hypervisor_type: str = ""
    hypervisor_version: int = 0
    """As libvirt says it: major * 1,000,000 + minor * 1,000 + release."""
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
        """Servers that are being built, copied or moved there now."""
        return self.facts.io_ops.get(self.raw_id, 0)

    @property
    def has_image(self) -> bool:
        """Whether the request's image is in its cache."""
        return self.raw_id in self.facts.with_image

    @property
    def aggregate_metadata(self) -> Mapping[str, frozenset[str]]:
        """Key → values over all its aggregates."""
        return self.facts.aggregate_metadata.get(self.raw_id, {})

    @property
    def cpu_info(self) -> Mapping[str, str]:
        """What its agent reports of its processors."""
        return self.facts.cpu_info.get(self.raw_id, {})

    @property
    def traits(self) -> frozenset[str]:
        """Its traits, by their names in OpenStack; ``CUSTOM_…`` are those of operators."""
        return self.facts.traits.get(self.raw_id, _NO_TRAITS)


_NO_TRAITS = frozenset[str]()
