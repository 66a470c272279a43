"""Attributes of a resource: type, access, and use in lists."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from portal.api.network.dialect.kinds import BOOLEAN, ID, MOMENT, PROJECT_ID, TEXT, Integer, Kind, Many, Text
from portal.api.network.dialect.query import Column, Constant, boolean
from provisioning.common.numbers import MAX_INTEGER
from provisioning.common.unset import UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """An attribute with Neutron's name."""

    name: str
    kind: Kind
    post: bool = False
    """Whether a body may set it at creation."""
    put: bool = False
    """Whether a body may update it."""
    required: bool = False
    """Whether every body of a creation must have it."""
    default: object = UNSET
    """Value equal to omission: its policy rule is not checked at creation."""
    column: str = ""
    """The record's column, if its name differs."""
    show: Callable[[Any], Any] | None = None
    """Computes the value from a record, if it is not a column; the kind then converts it."""
    shown: bool = True
    filter: Column | Constant | bool = True
    """Filter in lists: the column if True, none if False."""
    sort: bool | str = False
    """Whether lists can be sorted by it, or the column to sort by."""
    guards: Sequence[str] = ()
    """Verbs (``create``, ``update``, ``get``) for which it has its own policy rule, ``create_network:shared``."""
    parts: Sequence[str] = ()
    """Keys of the object, or of objects in a list, with their own rules: ``create_port:fixed_ips:ip_address``."""

    @property
    def source(self) -> str:
        return self.column or self.name

    def value_of(self, row: Any) -> Any:
        """Return the value in responses."""
        return self.kind.write(self.show(row) if self.show else attrgetter(self.source.replace("__", "."))(row))

    @property
    def column_filter(self) -> Column | Constant | None:
        if isinstance(self.filter, bool):
            return Column(self.source, self.kind.read_filter) if self.filter else None
        return self.filter

    @property
    def sort_column(self) -> str:
        if isinstance(self.sort, bool):
            return self.source if self.sort else ""
        return self.sort


def standard(*, named: bool = True, name_required: bool = False, owner: str = "project_id") -> tuple[Attribute, ...]:
    """Return the attributes of every resource: id, owner, description, times, revision and, by default, name.

    ``owner``: the column of the project.
    """
    name = (Attribute(name="name", kind=TEXT, post=True, put=True, required=name_required, sort=True),) if named else ()
    return (
        Attribute(name="id", kind=ID, sort=True),
        *name,
        Attribute(name="description", kind=TEXT, post=True, put=True, sort=True),
        Attribute(name="project_id", kind=PROJECT_ID, post=True, column=owner, sort=True),
        Attribute(name="tenant_id", kind=PROJECT_ID, post=True, column=owner, sort=True),
        Attribute(name="created_at", kind=MOMENT, filter=False, sort=True),
        Attribute(name="updated_at", kind=MOMENT, filter=False, sort=True),
        Attribute(name="revision_number", kind=Integer(0, MAX_INTEGER), sort=True),
    )


def shared(*, sort: bool = True, **setting: Any) -> Attribute:
    """Return ``shared``: whether a policy shares the object with all projects or with the caller's.

    ``setting``: how bodies share it with all projects; the selector fills in ``shared_with_caller``.
    """
    seen = "shared_with_caller"
    return Attribute(
        name="shared",
        kind=BOOLEAN,
        show=attrgetter(seen),
        filter=Column(seen, boolean),
        sort=seen if sort else False,
        **setting,
    )


ZONES = (
    Attribute(
        name="availability_zone_hints", kind=Many(Text(shortest=1), most=20), post=True, default=[], filter=False
    ),
    Attribute(name="availability_zones", kind=Many(Text()), filter=False, show=lambda row: ()),
)
"""Zones of networks and routers: the hints, and the current ones, which a list reads for all its objects together."""
TAGS = Attribute(name="tags", kind=Many(Text()), filter=False, show=lambda row: ())
"""Shown by every resource with tags; a list reads those of all its objects together."""
