"""A resource of the Networking API: its attributes, the source of its objects, and its operations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db.models import Q

from portal.api.frame import resource as frame
from portal.api.frame.resource import Values
from portal.api.network.dialect.attributes import TAGS, Attribute
from portal.api.network.dialect.kinds import MOMENT
from portal.api.network.dialect.query import Filters, Made
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.lists.listing import Part
from provisioning.network.selectors import tags


def own_project(row: Any) -> dict[str, object]:
    return {"project_id": row.project_id}


@dataclass(frozen=True, kw_only=True)
class Resource(frame.Resource):
    """The declaration of a resource, whose policy rules have the names of its operations: ``create_network``.

    A resource without a table is a sequence of objects with a ``pk``; its only filters are those of its attributes.

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
    """Returns values by row id that replace those of the attributes."""
    target: Callable[[Any], Mapping[str, object]] = own_project
    """Policy target of an object."""
    parent: Callable[[RequestContext, Values], Mapping[str, object]] | None = None
    """Additional policy target of a new object, e.g. the owner of its network."""
    filters: Filters = field(default_factory=dict)
    """Filters in addition to those of the attributes."""
    before: Callable[[RequestContext], object] | None = None
    """Called before objects are read."""
    tagged: bool = True
    quota: str = ""
    """The quota that new objects count against."""
    in_quota: Callable[[Values], bool] = lambda values: True
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
    def every_filter(self) -> Filters:
        """Return the filters of all attributes, for those who may see them."""
        own = {each.name: each.column_filter for each in self.attributes}
        found: dict[str, Any] = {name: column for name, column in own.items() if column is not None}
        if "updated_at" in self.by_name:
            found["changed_since"] = Made(_changed_since)
        if self.tagged:
            found |= {name: Made(make) for name, make in tags.FILTERS.items()}
        return found | dict(self.filters)

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
