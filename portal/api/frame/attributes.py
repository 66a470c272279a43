"""Attributes of a resource and parameters of a query, with the microversions that have them."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

from portal.api.common.microversions import NEWEST, OLDEST, Version
from portal.api.common.validation import Schema
from portal.api.common.views import ServiceView
from portal.api.frame.kinds import Kind, Reader
from provisioning.common.values.unset import UNSET


@dataclass(frozen=True)
class Parameter:
    """A parameter of a query: name, and schema of each value. Microversions without it ignore or reject it."""

    name: str
    checked_by: Schema
    _: KW_ONLY
    once: bool = False
    """Whether it may not be repeated."""
    since: Version = OLDEST
    until: Version = NEWEST

    def is_at(self, version: Version) -> bool:
        return self.since <= version <= self.until

    @property
    def schema(self) -> Schema:
        """The schema of all its values in a query."""
        return {"type": "array", "items": self.checked_by} | ({"maxItems": 1} if self.once else {})


@dataclass(frozen=True)
class Attribute:
    """An attribute with the name of the service's reference.

    A second one with the same name and other microversions replaces it there.
    """

    name: str
    kind: Kind
    _: KW_ONLY
    post: bool = False
    """Whether a body may set it at creation."""
    put: bool = False
    """Whether a body may update it."""
    required: bool = False
    """Whether a request that creates the object must contain the attribute."""
    default: object = UNSET
    """The value that means the same as omission."""
    column: str = ""
    """The record's column, if its name differs."""
    show: Callable[[Any], Any] | None = None
    """Computes the value from a record, if it is not a column; the kind then converts it. UNSET: it is omitted."""
    shown: bool = True
    rule: str = ""
    """The policy rule for seeing it; empty: all callers may."""
    since: Version = OLDEST
    until: Version = NEWEST

    @property
    def source(self) -> str:
        return self.column or self.name

    def is_at(self, version: Version) -> bool:
        return self.since <= version <= self.until

    def is_shown(self, view: ServiceView) -> bool:
        """Whether responses to this request contain the attribute."""
        return self.shown and self.is_at(view.microversion) and (not self.rule or view.allows(self.rule))

    @cached_property
    def value_of(self) -> Reader:
        """The function that returns a record's value in responses, or UNSET."""
        return self.kind.writing(self.show or attrgetter(self.source.replace("__", ".")))

    def reader(self, view: Any, rows: Sequence[Any]) -> Reader:
        """Return the function that returns a record's value in the response to this request, or UNSET.

        ``rows``: all records of the response, for values that are read for them together.
        """
        return self.value_of
