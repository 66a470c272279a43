"""A resource of an API: its attributes and its operations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

from portal.api.common.microversions import NEWEST, OLDEST, Version
from portal.api.common.validation import Schema
from portal.api.common.views import ServiceView
from portal.api.frame.attributes import Attribute, Parameter

Values = dict[str, Any]
"""Values of a body, parsed: by attribute, or as arguments of services by column."""


@dataclass(frozen=True)
class Operation:
    """One operation: the function that it calls, its policy rule, and its description in the OpenAPI document."""

    call: Callable[..., Any]
    rule: str = ""
    description: str = ""
    """If empty, the description of the policy rule is used."""
    _: KW_ONLY
    also: Sequence[str] = ()
    """Additional policy rules, checked without an object."""
    status: int = 0
    """Status of a success, if it is not the dialect's."""
    shows: Sequence[Attribute] | None = None
    """Attributes in the response, if not all."""
    body: Schema | Callable[[Version], Schema] | None = None
    """Schema of the body, if not that of the attributes."""
    parameters: Sequence[Parameter] = ()
    """Parameters of the query, if not those of the dialect."""
    since: Version = OLDEST
    until: Version = NEWEST


@dataclass(frozen=True, kw_only=True)
class Resource:
    """The declaration of a resource. Operations that are None are not supported.

    ``list(context, all_projects=…)`` returns the objects that a caller may see, ``show(context, id)`` one of them, or
    raises its NotFoundError. ``create(view, values)``, ``update(view, id, values)`` and ``delete(view, id)`` call one
    service each. They return an object to show, None for a response without a body, or the whole response.
    ``clear(view)`` deletes all objects of the list, those below one object of another resource.
    """

    name: str
    """As in bodies and rules: ``security_group``."""
    attributes: Sequence[Attribute]
    list: Operation
    detailed: Operation | None = None
    """The list at ``/detail``, if it has a rule or a description of its own."""
    show: Operation | None = None
    create: Operation | None = None
    update: Operation | None = None
    delete: Operation | None = None
    clear: Operation | None = None
    below: "Resource | None" = None
    """The resource whose objects have these."""
    short: Sequence[Attribute] = ()
    """Attributes of its list, if a second list at ``/detail`` has all of them."""
    plural: str = ""
    path: str = ""
    parameter: str = ""
    """The name of its id in paths: ``snapshot_id``."""
    since: Version = OLDEST
    until: Version = NEWEST

    def __post_init__(self) -> None:
        """Derive plural, path and parameter from the name."""
        object.__setattr__(self, "plural", self.plural or f"{self.name}s")
        object.__setattr__(self, "path", self.path or self.plural)
        object.__setattr__(self, "parameter", self.parameter or f"{self.name}_id")

    @cached_property
    def ancestors(self) -> "Sequence[Resource]":
        """The resources whose ids are in its path, the outermost first."""
        return () if self.below is None else (*self.below.ancestors, self.below)

    def operation(self, verb: str) -> Operation | None:
        found: Operation | None = getattr(self, verb)
        return found

    def rule(self, verb: str) -> str:
        """Return the policy rule of an operation."""
        operation = self.operation(verb)
        return operation.rule if operation else ""

    def envelope(self, view: ServiceView, shape: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body of a response with one object."""
        return {self.name: shape}

    def entries(self, shapes: Sequence[Mapping[str, Any]]) -> Any:
        """Return the objects as in the body of a list."""
        return shapes

    def content(self, body: Any) -> Any:
        """Return the object in the body of a request."""
        return body[self.name]

    @cached_property
    def by_name(self) -> Mapping[str, Any]:
        return {attribute.name: attribute for attribute in self.attributes}
