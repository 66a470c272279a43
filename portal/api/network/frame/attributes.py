"""One attribute of a resource: what it is, who may set and see it, and what lists do with it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from portal.api.network.frame.kinds import BOOLEAN, ID, MOMENT, PROJECT_ID, TEXT, Integer, Kind, Many, Text
from portal.api.network.frame.query import Column, Constant, boolean
from provisioning.common.numbers import MAX_INTEGER
from provisioning.common.unset import UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """An attribute in Neutron's words."""

    name: str
    kind: Kind
    post: bool = False
    """Whether a body may set it when the object is made."""
    put: bool = False
    """Whether a body may change it."""
    required: bool = False
    """Whether every body that makes one has it."""
    default: object = UNSET
    """What is the same as saying nothing: no rule is asked for it at creation."""
    column: str = ""
    """The record's, when it has another name than the attribute."""
    show: Callable[[Any], Any] | None = None
    """Makes the value of the record, where it is no column; the kind writes it."""
    shown: bool = True
    filter: Column | Constant | bool = True
    """What lists are filtered by: the column itself when True, nothing when False."""
    sort: bool | str = False
    """Whether lists are sorted by it, or by which column."""
    guards: Sequence[str] = ()
    """``create``, ``update``, ``get``: where a rule of its own is asked, ``create_network:shared``."""
    parts: Sequence[str] = ()
    """Keys of the object, or of a list's objects, with rules of their own: ``create_port:fixed_ips:ip_address``."""

    @property
    def source(self) -> str:
        return self.column or self.name

    def value_of(self, row: Any) -> Any:
        """Return what an answer says."""
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
    """Return what every resource has: id, owner, description, times and revision; and a name unless it has none.

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
    """Return ``shared``: whether a policy shares it with everybody or with the caller's project.

    ``setting``: how bodies share it with everybody; the selector fills in ``shared_with_caller``.
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
"""Of networks and routers: what was hinted at, and where it is now, which a list reads for all of its objects."""
TAGS = Attribute(name="tags", kind=Many(Text()), filter=False, show=lambda row: ())
"""Shown by every resource that has tags; the list reads those of all its objects at once."""
