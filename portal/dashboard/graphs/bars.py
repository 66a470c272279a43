"""Limits and usage as bars, in groups."""

from collections.abc import Mapping
from dataclasses import dataclass

from portal.dashboard.words import wording
from provisioning.quotas.limits import DEFAULTS, UNLIMITED, is_per_type
from provisioning.volumes.selectors.types import DEFAULT

Detail = Mapping[str, tuple[int, int, int]]
"""Resource → limit, in use, reserved."""
LAUNCH = ("instances", "cores", "ram")
"""The resources of a launch, which lists show."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    "Compute": (
        *("instances", "cores", "ram", "key_pairs", "server_groups", "server_group_members", "metadata_items"),
        *("injected_files", "injected_file_content_bytes", "injected_file_path_bytes"),
    ),
    "Network": (
        *("networks", "subnets", "ports", "fixed_ips", "routers", "floatingips"),
        *("security_groups", "security_group_rules"),
        *("subnetpools", "address_scopes", "address_groups", "rbac_policies"),
    ),
    "Images": ("image_count_total", "image_size_total"),
    "Volumes": (
        *("volumes", "gigabytes", "per_volume_gigabytes", "snapshots", "backups", "backup_gigabytes", "groups"),
    ),
}
LABELS = wording.RESOURCES | {
    "key_pairs": "Key pairs",
    "server_groups": "Server groups",
    "server_group_members": "Servers in a group",
    "metadata_items": "Metadata items",
    "injected_files": "Injected files",
    "injected_file_content_bytes": "Size of an injected file",
    "injected_file_path_bytes": "Length of an injected file's path",
    "networks": "Networks",
    "subnets": "Subnets",
    "ports": "Ports",
    "fixed_ips": "IP addresses",
    "routers": "Routers",
    "floatingips": "Floating IPs",
    "security_groups": "Security groups",
    "security_group_rules": "Security group rules",
    "subnetpools": "Subnet pools",
    "address_scopes": "Address scopes",
    "address_groups": "Address groups",
    "rbac_policies": "RBAC policies",
    "image_count_total": "Images",
    "image_size_total": "Image storage",
    "volumes": "Volumes",
    "gigabytes": "Volume storage",
    "snapshots": "Snapshots",
    "per_volume_gigabytes": "Size of a volume",
    "backups": "Backups",
    "backup_gigabytes": "Backup storage",
    "groups": "Volume groups",
}
UNITS = {
    "ram": "MiB",
    "gigabytes": "GiB",
    "per_volume_gigabytes": "GiB",
    "backup_gigabytes": "GiB",
    "image_size_total": "MiB",
    "injected_file_content_bytes": "bytes",
    "injected_file_path_bytes": "bytes",
}
OF_EACH = {
    "key_pairs": "for each user",
    "per_volume_gigabytes": "for each volume",
    "server_group_members": "for each server group",
    "metadata_items": "for each instance",
    "injected_files": "for each instance",
    "injected_file_content_bytes": "for each file",
    "injected_file_path_bytes": "for each file",
}
"""Limits per object instead of per project; they have no usage and no bar."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One resource: amounts in the API's units; a limit of -1 is unlimited."""

    resource: str
    limit: int
    in_use: int = 0
    reserved: int = 0

    @property
    def label(self) -> str:
        return label_of(self.resource)

    @property
    def unit(self) -> str:
        """The unit of the input field; empty for counts."""
        return unit_of(self.resource)

    @property
    def each(self) -> str:
        """The object that the limit is for, if the limit is not per project; such a limit has no bar. Otherwise an
        empty text.
        """
        return OF_EACH.get(self.resource, "")

    @property
    def unlimited(self) -> bool:
        return self.limit == UNLIMITED

    @property
    def used(self) -> int:
        """In use and reserved together."""
        return self.in_use + self.reserved

    @property
    def over(self) -> bool:
        """Whether the usage exceeds the limit, because the limit was lowered later."""
        return not self.unlimited and self.used > self.limit

    @property
    def tone(self) -> str:
        """``this``, ``near`` (80 %) or ``over`` (exhausted)."""
        if self.unlimited or not self.used:
            return "this"
        if self.used >= self.limit:
            return "over"
        return "near" if self.used >= 0.8 * self.limit else "this"

    @property
    def in_use_width(self) -> str:
        """Width of the used part in percent."""
        return _percent(self.in_use, self._whole)

    @property
    def reserved_width(self) -> str:
        """Width of the reserved part in percent."""
        return _percent(self.reserved, self._whole)

    @property
    def used_text(self) -> str:
        """The usage with its unit."""
        return amount(self.resource, self.used)

    @property
    def reserved_text(self) -> str:
        """The reservation with its unit; empty if nothing is reserved."""
        return amount(self.resource, self.reserved) if self.reserved else ""

    @property
    def limit_text(self) -> str:
        """The limit with its unit."""
        return limit_text(self.resource, self.limit)

    @property
    def text(self) -> str:
        words = f"{self.used_text}, no limit" if self.unlimited else f"{self.used_text} of {self.limit_text}"
        return f"{self.label}: {words}" + (f", {self.reserved_text} of it reserved" if self.reserved else "")

    @property
    def _whole(self) -> int:
        """The amount of the whole bar: the limit, or the usage if that is larger; 0 without a limit."""
        return 0 if self.unlimited else max(self.limit, self.used)


def bars_of(detail: Detail, resources: tuple[str, ...]) -> list[Bar]:
    """Return the bars of these resources, in this order."""
    return [Bar(name, *detail[name]) for name in resources if name in detail]


def grouped(detail: Detail) -> dict[str, list[Bar]]:
    """Return all resources as bars, grouped by title."""
    known = {name for names in GROUPS.values() for name in names}
    groups = {title: bars_of(detail, names) for title, names in GROUPS.items()}
    groups["Other"] = bars_of(detail, tuple(name for name in DEFAULTS if name not in known))
    groups["Volume types"] = bars_of(detail, tuple(name for name in detail if is_per_type(name)))
    return {title: bars for title, bars in groups.items() if bars}


def label_of(resource: str) -> str:
    kind, _, volume_type = resource.partition("_")
    if resource not in DEFAULTS and is_per_type(resource):
        return f"{LABELS[kind]} of {'the default type' if volume_type == DEFAULT else f'type {volume_type}'}"
    return LABELS.get(resource) or resource.replace("_", " ").capitalize()


def limit_text(resource: str, limit: int) -> str:
    return "no limit" if limit == UNLIMITED else amount(resource, limit)


def unit_of(resource: str) -> str:
    """The unit of the input field; empty for counts."""
    return UNITS.get(resource, "GiB" if resource.startswith("gigabytes_") else "")


def amount(resource: str, value: int) -> str:
    if resource in ("ram", "image_size_total"):
        return wording.mebibytes(value)
    unit = unit_of(resource)
    return f"{value}{wording.JOINED}{unit}" if unit else str(value)


def _percent(part: int, whole: int) -> str:
    return f"{min(100 * part / whole, 100):.2f}" if whole > 0 else "0"
