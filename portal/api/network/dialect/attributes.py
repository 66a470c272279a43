"""Attributes of a resource of the Networking API, with their use in lists and their policy rules."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from portal.api.frame import attributes as frame
from portal.api.frame.lists import Column
from portal.api.network.dialect.kinds import BOOLEAN, ID, MOMENT, PROJECT_ID, TEXT, Integer, Kind, Many, Text
from portal.api.network.dialect.query import Constant, boolean
from provisioning.common.values.numbers import MAX_INTEGER


@dataclass(frozen=True, kw_only=True)
class Attribute(frame.Attribute):
    """An attribute with Neutron's name. The policy rule of an attribute with its default is not checked at creation."""

    kind: Kind
    filter: Column | Constant | bool = True
    """Filter in lists: the column if True, none if False."""
    sort: bool | str = False
    """Whether lists can be sorted by it, or the column to sort by."""
    guards: Sequence[str] = ()
    """Verbs (``create``, ``update``, ``get``) for which it has its own policy rule, ``create_network:shared``."""
    parts: Sequence[str] = ()
    """Keys of the object, or of objects in a list, with their own rules: ``create_port:fixed_ips:ip_address``."""

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
