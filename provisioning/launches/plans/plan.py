"""The plan of a launch: every choice of the wizard, as one value that can be stored, compared and launched."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from provisioning.common.errors import InvalidInputError, NovellaError
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.compute.launch.multipart import with_config
from provisioning.compute.launch.request import DiskRequest, LaunchRequest, NetworkRequest
from provisioning.compute.records.names import SERVER_NAME

PLACEHOLDER = "{n}"
"""Text in a name that is replaced by the number of each server."""
MOST_DISKS = 8
"""Data disks of one plan."""
Opening = Literal["ssh", "web"]


class DataDisk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A new empty volume for each server; ``mount``: its directory in the guest, empty: not formatted.

    ``name``: may contain ``{name}`` for the server's name, and ``{n}`` for its number; empty: derived from the server's
    name.
    """

    size_gb: int
    mount: str = ""
    name: str = ""


class LaunchPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All choices of a launch. Ids are text, as callers sent them; empty means the default."""

    name: str = ""
    """May contain ``{n}``."""
    image: str = ""
    boot_from: str = ""
    """``volume:<id>`` or ``snapshot:<id>`` instead of an image."""
    on_volume: bool = False
    """Whether the root disk is a new volume."""
    volume_size: int | None = None
    """GiB of the new volume of the root disk."""
    delete_volume: bool = False
    """Whether the root disk's volume is deleted with the server."""
    flavor: str = ""
    key_name: str = ""
    password: bool = False
    """Whether a server without a key gets a generated password."""
    count: int = 1
    availability_zone: str = ""
    server_group: str = ""
    networks: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    reachable: bool = False
    """Whether each server gets a floating IP, which is deleted with it."""
    openings: tuple[Opening, ...] = ()
    """Services that are reachable from any address."""
    disks: tuple[DataDisk, ...] = ()
    delete_disks: bool = False
    """Whether the data disks are deleted with the server."""
    snippets: tuple[str, ...] = ()
    """Built-in names, and ids of the project's snippets."""
    user_data: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] = {}
    description: str = ""
    config_drive: bool = False
    lease_days: int | None = None
    """Days after which the servers are deleted; None: never."""

    @property
    def needs_password(self) -> bool:
        return self.password and not self.key_name

    def request(
        self,
        *,
        idempotency_key: str,
        configs: Sequence[tuple[str, str]] = (),
        extra_groups: Sequence[str] = (),
        password: str | None = None,
    ) -> LaunchRequest:
        """Return the request to the Compute service. ``configs``: name and text of the chosen snippets.

        Raises InvalidInputError for ``disks``.
        """
        networks = tuple(NetworkRequest(network_id=each) for each in self.networks)
        disks = (*self._root(), *self._data())
        return LaunchRequest(
            name=self.name,
            image_id="" if self._root() else self.image,
            disks=disks,
            flavor_ref=self.flavor,
            key_name=self.key_name or None,
            networks=networks or "none",
            security_groups=(*self.security_groups, *extra_groups) or None,
            user_data=self._user_data(configs),
            metadata=self.metadata,
            tags=self.tags,
            config_drive=self.config_drive,
            min_count=self.count,
            max_count=self.count,
            availability_zone=self.availability_zone or None,
            scheduler_hints={"group": self.server_group} if self.server_group else {},
            description=self.description or None,
            admin_password=password,
            reachable=self.reachable,
            placeholder=PLACEHOLDER,
            idempotency_key=idempotency_key,
        )

    def _root(self) -> tuple[DiskRequest, ...]:
        """Return the boot volume; empty if the root disk is local to the host."""
        kind, _, source = self.boot_from.partition(":")
        if not kind and not self.on_volume:
            return ()
        return (
            DiskRequest(
                source_type=kind or "image",
                destination_type="volume",
                source_id=source or self.image,
                boot_index=0,
                size=None if kind else self.volume_size,
                delete_on_termination=self.delete_volume,
            ),
        )

    def _data(self) -> tuple[DiskRequest, ...]:
        if len(self.disks) > MOST_DISKS:
            raise InvalidInputError(f"At most {MOST_DISKS} data disks are possible.", field="disks")
        return tuple(
            DiskRequest(
                source_type="blank",
                destination_type="volume",
                size=each.size_gb,
                delete_on_termination=self.delete_disks,
                volume_name=each.name or default_disk_name(position),
                mount=each.mount,
            )
            for position, each in enumerate(self.disks)
        )

    def _user_data(self, configs: Sequence[tuple[str, str]]) -> str | None:
        text = self.user_data.replace("\r\n", "\n")
        result = base64.b64encode(text.encode()).decode() if text.strip() else None
        for name, config in configs:
            result = with_config(result, config, name)
        return result


def default_disk_name(position: int) -> str:
    """Return the name of a data disk that was not named: ``{name}-data``, ``{name}-data-2`` …"""
    return f"{SERVER_NAME}-data" + (f"-{position + 1}" if position else "")


FIELDS = LaunchPlan.__struct_fields__
"""Names of the choices, in the order of the wizard."""
FIELD_OF: Mapping[str, str] = {
    "imageRef": "image",
    "flavorRef": "flavor",
    "group": "server_group",
    "hostname": "name",
    "min_count": "count",
    "max_count": "count",
    "block_device_mapping": "boot_from",
    "block_device_mapping_v2": "boot_from",
    "volume_id": "boot_from",
    "size_gb": "volume_size",
    "mount": "disks",
    "floating_network_id": "reachable",
}
"""Field of an error of the Compute service → choice, where the names differ."""


def choices_of(error: NovellaError) -> list[str]:
    """Return the choices that an error of a launch depends on; another value of any of them can be a correction."""
    others = error.others if isinstance(error, InvalidInputError) else ()
    return [FIELD_OF.get(name, name) for name in (error.field, *others) if name]


def plan_of(values: object) -> LaunchPlan:
    """Return the plan of stored or submitted values. Raises InvalidInputError."""
    try:
        plan = msgspec.convert(values, LaunchPlan)
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"The launch is invalid: {error}") from error
    numbers = [plan.count, plan.volume_size or 1, plan.lease_days or 1, *(each.size_gb for each in plan.disks)]
    if not all(0 < number <= MAX_INTEGER for number in numbers):
        raise InvalidInputError("The launch is invalid: a number is out of range.")
    return plan


def read_plan(text: str) -> LaunchPlan:
    """Return the plan in a JSON text. Raises InvalidInputError."""
    try:
        return plan_of(msgspec.json.decode(text))
    except msgspec.DecodeError as error:
        raise InvalidInputError(f"The launch is invalid: {error}") from error


def values_of(plan: LaunchPlan) -> dict[str, Any]:
    """Return the plan as JSON values, without those that are defaults."""
    values: dict[str, Any] = msgspec.to_builtins(plan)
    usual = msgspec.to_builtins(LaunchPlan())
    return {name: value for name, value in values.items() if value != usual[name]}
