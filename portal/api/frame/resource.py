"""A resource of an API: its attributes, each of a kind that reads and converts values, its operations, and the JSON
schemas of its bodies; attributes and parameters have the microversions that they belong to.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

from portal.api.common.requests import NEWEST, OLDEST, Schema, Version, body
from portal.api.common.views import ServiceView
from provisioning.common.values.unset import UNSET

Reader = Callable[[Any], Any]
"""Returns a value of a record."""


class Kind(ABC):
    """One kind of value."""

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The schema in bodies and in the OpenAPI document."""

    def read(self, value: Any) -> Any:
        """Return the value of a body in normal form."""
        return value

    def write(self, value: Any) -> Any:
        """Return a record's value for a response."""
        return value

    def writing(self, read: Reader) -> Reader:
        """Return a function that reads a record's value with ``read`` and writes it; UNSET remains."""
        write = self.write

        def value(row: Any) -> Any:
            found = read(row)
            return found if found is UNSET else write(found)

        return value


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Checked(Kind):
    """A kind that only its schema checks. ``reader`` converts values of valid bodies, and ``writer`` converts values of
    records.

    Null is written as null.
    """

    checked_by: Schema
    reader: Callable[[Any], Any] = _same
    writer: Callable[[Any], Any] = _same

    @property
    def schema(self) -> Schema:
        return self.checked_by

    def read(self, value: Any) -> Any:
        return self.reader(value)

    def write(self, value: Any) -> Any:
        return None if value is None else self.writer(value)

    def writing(self, read: Reader) -> Reader:
        writer = self.writer
        if writer is _same:
            return read

        def value(row: Any) -> Any:
            found = read(row)
            return found if found is None or found is UNSET else writer(found)

        return value


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
    """An attribute, named as in the service's reference.

    A second declaration of the same name replaces the first one in its own microversions.
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

        ``rows``: all records of the response, for values that are read with one query for all records.
        """
        return self.value_of


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
    """Schema of the body, if it differs from the schema of the attributes."""
    parameters: Sequence[Parameter] = ()
    """Parameters of the query, if they differ from the dialect's."""
    since: Version = OLDEST
    until: Version = NEWEST


@dataclass(frozen=True, kw_only=True)
class Resource:
    """The declaration of a resource. Operations that are None are not supported.

    ``list(context, all_projects=…)`` returns the objects that a caller may see, ``show(context, id)`` one of them,
    or raises its NotFoundError. ``create(view, values)``, ``update(view, id, values)`` and ``delete(view, id)`` call
    one service each. They return an object to show, a body, a whole response, or None for a response without a body.
    ``clear(view)`` deletes all objects of a list that is below one object of another resource.
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
    """Attributes in the list of a resource that has a second list, at ``/detail``, with all attributes."""
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
        """Return the objects in the form that the body of a list has."""
        return shapes

    def content(self, body: Any) -> Any:
        """Return the object in the body of a request."""
        return body[self.name]

    @cached_property
    def by_name(self) -> Mapping[str, Any]:
        return {attribute.name: attribute for attribute in self.attributes}


def new_body(resource: Resource) -> Callable[[Version], Schema]:
    """Return a function for the schema of a new object at a microversion."""
    settable = [each for each in resource.attributes if each.post]
    return lambda version: body(resource.name, properties_at(settable, version), required_at(settable, version))


def changes_body(resource: Resource) -> Callable[[Version], Schema]:
    """Return a function for the schema of a change at a microversion."""
    return lambda version: body(resource.name, properties_at([a for a in resource.attributes if a.put], version))


def query_of(parameters: Sequence[Parameter], *, strict_from: Version = NEWEST) -> Callable[[Version], Schema]:
    """Return a function for the schema of a query at a microversion.

    Before ``strict_from``, unknown parameters are accepted.
    """
    return lambda version: {
        "type": "object",
        "properties": {each.name: each.schema for each in parameters if each.is_at(version)},
        "additionalProperties": version < strict_from,
    }


def properties_at(attributes: Sequence[Attribute], version: Version) -> dict[str, Schema]:
    return {each.name: each.kind.schema for each in attributes if each.is_at(version)}


def required_at(attributes: Sequence[Attribute], version: Version) -> list[str]:
    return [each.name for each in attributes if each.required and each.is_at(version)]
