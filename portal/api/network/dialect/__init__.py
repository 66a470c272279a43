"""The dialect of the Networking API: its resources, with the use of attributes in lists and their policy rules, the
source of objects, and operations; names in the DNS (RFC 1123).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db.models import Q

from portal.api import frame
from portal.api.network.dialect.kinds import BOOLEAN, ID, MOMENT, PROJECT_ID, TEXT, Integer, Kind, Many, Text, quoted
from portal.api.network.dialect.query import boolean
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.lists.listing import Part
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.network.selectors import tags

_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", re.ASCII)


@dataclass(frozen=True)
class DnsName(Text):
    """One label of a host name, or empty."""

    longest: int = 63

    def read(self, value: object) -> str:
        found = super().read(value)
        if found and not _LABEL.fullmatch(found):
            raise ValueError(f"{quoted(value)} is not a valid host name without a domain")
        return found.lower()


@dataclass(frozen=True)
class DnsDomain(Text):
    """A domain, with or without Neutron's trailing dot, or empty."""

    longest: int = 253

    def read(self, value: object) -> str:
        found = super().read(value)
        if found and not all(_LABEL.fullmatch(label) for label in found.removesuffix(".").split(".")):
            raise ValueError(f"{quoted(value)} is not a valid domain")
        return found


@dataclass(frozen=True, kw_only=True)
class Attribute(frame.Attribute):
    """An attribute with Neutron's name. The policy rule of an attribute with its default is not checked at creation."""

    kind: Kind
    filter: frame.Filter | bool = True
    """Filter in lists: the column if True, none if False."""
    sort: bool | str = False
    """Whether lists can be sorted by the attribute; a text is the name of the column to sort by."""
    guards: Sequence[str] = ()
    """Verbs (``create``, ``update``, ``get``) for which the attribute has its own policy rule, such as
    ``create_network:shared``.
    """
    parts: Sequence[str] = ()
    """Keys of the object, or of objects in a list, with their own rules: ``create_port:fixed_ips:ip_address``."""

    @property
    def declared_filter(self) -> frame.Filter | None:
        if isinstance(self.filter, bool):
            return frame.Filter(self.name, self.source, self.kind.read_filter) if self.filter else None
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
        filter=frame.Filter("shared", seen, boolean),
        sort=seen if sort else False,
        **setting,
    )


ZONES = (
    Attribute(
        name="availability_zone_hints", kind=Many(Text(shortest=1), most=20), post=True, default=[], filter=False
    ),
    Attribute(name="availability_zones", kind=Many(Text()), filter=False, show=lambda row: ()),
)
"""Zones of networks and routers: the hints, and the current zones. A list reads the zones of all its objects
together.
"""
TAGS = Attribute(name="tags", kind=Many(Text()), filter=False, show=lambda row: ())
"""Every resource with tags has this attribute. A list reads the tags of all its objects together."""


def own_project(row: Any) -> dict[str, object]:
    return {"project_id": row.project_id}


@dataclass(frozen=True, kw_only=True)
class Resource(frame.Resource):
    """The declaration of a resource, whose policy rules have the names of its operations: ``create_network``.

    A resource without a table is a sequence of objects with a ``pk``; it can be filtered by its attributes only.

    ``list`` and ``show`` get ``all_projects``. ``create(context, values)`` returns a new row; ``update(context, row,
    values, revision)`` and ``delete(context, row, revision)`` lock the row and compare its revision unless that is
    None. Each calls one service.
    """

    attributes: Sequence[Attribute]
    related: Sequence[str] = ()
    """Relations that a list prefetches."""
    narrow: Callable[[Any, Part], tuple[Sequence[Any], Part]] | None = None
    """Applies filters on other than attributes to a sequence without a table, and returns the remaining filters."""
    more: Callable[[RequestContext, Sequence[Any]], Mapping[UUID, Mapping[str, Any]]] | None = None
    """Returns row id → values that replace the values of the attributes."""
    target: Callable[[Any], Mapping[str, object]] = own_project
    """Policy target of an object."""
    parent: Callable[[RequestContext, frame.Values], Mapping[str, object]] | None = None
    """Additional policy target of a new object, e.g. the owner of its network."""
    filters: Sequence[frame.Filter] = ()
    """Filters in addition to the filters by attributes."""
    before: Callable[[RequestContext], object] | None = None
    """Called before objects are read."""
    tagged: bool = True
    quota: str = ""
    """The quota that new objects count against."""
    in_quota: Callable[[frame.Values], bool] = lambda values: True
    """Whether a new object counts against the quota."""

    def __post_init__(self) -> None:
        """Derive path, tags and the rules for seeing attributes."""
        object.__setattr__(self, "path", self.path or (self.plural or f"{self.name}s").replace("_", "-"))
        super().__post_init__()
        every = (*self.attributes, TAGS) if self.tagged else self.attributes
        seen = (replace(a, rule=self.rule("get", a.name)) if "get" in a.guards else a for a in every)
        object.__setattr__(self, "attributes", tuple(seen))

    @property
    def rules(self) -> Sequence[str]:
        """The policy rules of its operations and attributes."""
        verbs = {"get": True, "create": self.create, "update": self.update, "delete": self.delete}
        found = [f"{verb}_{self.name}" for verb, offered in verbs.items() if offered]
        found += [self.rule(verb, each.name) for each in self.attributes for verb in each.guards]
        found += [
            self.rule(verb, f"{each.name}:{part}")
            for each in self.attributes
            for part in each.parts
            for verb in ("create", "update")
        ]
        found += [f"{verb}_{self.plural}_tags" for verb in ("get", "update", "delete") if self.tagged]
        return found

    def rule(self, verb: str, attribute: str = "") -> str:
        verb = {"list": "get", "show": "get"}.get(verb, verb)
        return f"{verb}_{self.name}:{attribute}" if attribute else f"{verb}_{self.name}"

    @cached_property
    def every_filter(self) -> Sequence[frame.Filter]:
        """The filters by attributes, which apply if the caller may see the attribute, and other filters."""
        result = [each.declared_filter for each in self.attributes if each.declared_filter]
        if "updated_at" in self.by_name:
            result.append(frame.Filter("changed_since", condition=_changed_since))
        if self.tagged:
            result += [frame.Filter(name, condition=condition) for name, condition in tags.FILTERS.items()]
        return (*result, *self.filters)

    @cached_property
    def sort_keys(self) -> Mapping[str, str]:
        return {each.name: each.sort_column for each in self.attributes if each.sort_column}


def _changed_since(values: list[str]) -> Q:
    try:
        moments = [MOMENT.read(value) for value in values]
    except ValueError:
        msg = f"Invalid input for changed_since. Reason: {values[0][:64]!r} is not a valid time."
        raise InvalidInputError(msg, field="changed_since") from None
    return Q(updated_at__gte=max(moments))
