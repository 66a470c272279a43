"""Attributes of a resource: kind, access, and the microversions that have them."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from operator import attrgetter
from typing import Any

from portal.api.common.microversions import NEWEST, OLDEST, Version
from portal.api.common.views import ServiceView
from portal.api.frame.kinds import Kind
from provisioning.common.unset import UNSET


@dataclass(frozen=True)
class Attribute:
    """An attribute with the name of the service's reference."""

    name: str
    kind: Kind
    _: KW_ONLY
    post: bool = False
    """Whether a body may set it at creation."""
    put: bool = False
    """Whether a body may update it."""
    required: bool = False
    """Whether every body of a creation must have it."""
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
        """Whether the responses to this request have it."""
        return self.shown and self.is_at(view.microversion) and (not self.rule or view.allows(self.rule))

    def value_of(self, row: Any) -> Any:
        """Return the value in responses, or UNSET."""
        value = self.show(row) if self.show else attrgetter(self.source.replace("__", "."))(row)
        return value if value is UNSET else self.kind.write(value)

    def value_for(self, view: Any, row: Any) -> Any:
        """Return the value in the response to this request, or UNSET."""
        return self.value_of(row)
