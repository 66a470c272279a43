"""The dialect of the Identity API: its resources, and their views: lists, and updates by PATCH."""

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portal.api import frame
from portal.api.identity.dialect import lists
from portal.api.identity.dialect.lists import WHOLE, Lists, hexadecimal
from provisioning.common.errors import InvalidInputError, NotFoundError, NovellaError
from provisioning.common.values.unset import UNSET
from provisioning.identity.directory.listing import RowPage
from provisioning.identity.models import LONG

_TEXT: frame.Schema = {"type": "string", "minLength": 1}


def _or_empty(text: str | None) -> str:
    return text or ""


def reference(longest: int = 64, *, null: bool = False) -> frame.Checked:
    """Return a kind for the id of a record, which a body may have in any form."""
    schema = _TEXT | {"maxLength": longest}
    return frame.Checked(schema | ({"type": ["string", "null"]} if null else {}), writer=hexadecimal)


KEY = reference()
KEY_OR_NULL = reference(null=True)
NAME = frame.Checked(_TEXT | {"maxLength": 64, "pattern": r"\S"})
LONG_NAME = frame.Checked(_TEXT | {"maxLength": LONG, "pattern": r"\S"})
TEXT = frame.Checked({"type": ["string", "null"], "maxLength": 65_535}, _or_empty)
"""A description; null in a body means an empty text."""
SHORT_TEXT = frame.Checked({"type": ["string", "null"], "maxLength": LONG}, _or_empty)
FLAG = frame.Checked({"type": "boolean"})
IMMUTABLE = frame.Checked(
    {
        "type": "object",
        "properties": {"immutable": {"type": ["boolean", "null"]}},
        "additionalProperties": False,
    }
)
"""The options of domains, projects and roles."""


@dataclass(frozen=True, kw_only=True)
class Attribute(frame.Attribute):
    """An attribute with Keystone's name."""

    fixed: type[NovellaError] | None = None
    """The error of an update that changes it; an update may repeat its value."""
    refused: bool = False
    """Whether a body that may not set it is rejected; by default its value is ignored."""
    additional: bool = False
    """Whether it is stored with the additional attributes of a body."""


@dataclass(frozen=True, kw_only=True)
class Resource(frame.Resource):
    """The declaration of a resource. Responses add the links of an object.

    ``list`` and ``show`` get the ids of a path as ``show(id)``; ``list(view, part)`` of a ``Paged`` list returns a
    ``RowPage``. ``update(view, record, values)`` and ``delete(view, record)`` get the record of the path.
    """

    attributes: Sequence[Attribute]
    lists: Lists = WHOLE
    extra: int = 0
    """Maximum characters of the names of additional attributes, which are stored and shown; 0: there are none."""
    least: int = 0
    """Minimum number of attributes in an update."""
    target: Callable[[Any], Mapping[str, object]] | None = None
    """Returns the policy target of one record, or of None if it does not exist."""

    def address(self, row: Any) -> str:
        """Return the path of a record after ``/v3``."""
        own = f"/{self.path}/{hexadecimal(row.pk)}"
        if self.below is None:
            return own
        above = (f"/{each.path}/{hexadecimal(getattr(row, each.parameter))}" for each in self.ancestors)
        return "".join((*above, own))

    def shapes(
        self, view: frame.ServiceView, rows: Sequence[Any], attributes: Sequence[frame.Attribute] | None = None
    ) -> list[frame.Json]:
        """Return records in Keystone's format, in the responses of any view: with ``attributes``, by default all."""
        every = self.attributes if attributes is None else attributes
        shown = [(each.name, each.reader(view, rows)) for each in every if each.is_shown(view)]
        base, found = frame.endpoint(view.request, "identity"), []
        for row in rows:
            own = {name: value for name, read in shown if (value := read(row)) is not UNSET}
            own["links"] = {"self": base + self.address(row)}
            found.append(row.extra | own if self.extra and row.extra else own)
        return found

    def shape(self, view: frame.ServiceView, row: Any) -> frame.Json:
        return self.shapes(view, [row])[0]


def body(
    name: str, properties: Mapping[str, frame.Schema], required: Sequence[str] = (), *, extra: int = 0, least: int = 0
) -> frame.Schema:
    """Return the schema of ``{name: {…}}`` with at least ``least`` attributes.

    ``extra``: maximum characters of the names of additional attributes; 0: there are none.
    """
    inner: frame.Schema = {"type": "object", "properties": dict(properties), "required": [*required]}
    inner |= {"propertyNames": {"maxLength": extra}} if extra else {"additionalProperties": False}
    inner |= {"minProperties": least} if least else {}
    return {"type": "object", "properties": {name: inner}, "required": [name], "additionalProperties": False}


def new_body(resource: Resource) -> frame.Schema:
    """Return the schema of a new object."""
    settable = [each for each in resource.attributes if each.post]
    required = [each.name for each in settable if each.required]
    return body(resource.name, {each.name: each.kind.schema for each in settable}, required, extra=resource.extra)


def changes_body(resource: Resource) -> frame.Schema:
    """Return the schema of an update."""
    known = [each for each in resource.attributes if each.put or each.fixed]
    properties = {each.name: each.kind.schema for each in known}
    return body(resource.name, properties, extra=resource.extra, least=resource.least)


class ResourceView(frame.ResourceView):
    """Base of the views of a resource."""

    statuses = {"create": 201, "delete": 204}

    @property
    def ids(self) -> Mapping[str, str]:
        """The ids in the path by parameter."""
        own = {self.resource.parameter if name == "identity" else name: text for name, text in self.kwargs.items()}
        return {**self.above, **own}

    @property
    def parents(self) -> tuple[Any, ...]:
        """The first arguments of the functions that list and show: the records that the path begins with."""
        return ()

    @functools.cached_property
    def found(self) -> Any:
        """The record of the path, or None if it does not exist."""
        try:
            return self.resource.show.call(*self.parents, self.ids[self.resource.parameter])
        except NotFoundError as error:
            self._missing = error
            return None

    @property
    def record(self) -> Any:
        """The record of the path. Raises NotFoundError."""
        if self.found is None:
            raise self._missing
        return self.found

    def handle_exception(self, exc: Exception) -> Any:
        """Forget the record, so that a request that is retried looks it up again."""
        vars(self).pop("found", None)
        return super().handle_exception(exc)

    def row(self, identity: str) -> Any:
        """Return the record of the path. Raises NotFoundError."""
        return self.record

    def shapes(self, rows: Sequence[Any], attributes: Sequence[frame.Attribute] | None = None) -> list[frame.Json]:
        """Return records in Keystone's format."""
        found: list[frame.Json] = self.resource.shapes(self, rows, attributes)
        return found

    def values(self, *, new: bool = False) -> frame.Values:
        """Return the values of a body by column, and the additional ones as ``extra``. Raises InvalidInputError, or the
        error of a fixed attribute that an update would change.
        """
        known, values = self.resource.attributes, self.resource.content(self.checked_body())
        settable = [each for each in known if (each.post if new else each.put) and each.name in values]
        for each in known:
            if each.name in values and each not in settable:
                self._check(each, values[each.name], new=new)
        own = {each.name for each in known if not each.additional}
        found = {each.source: each.kind.read(values[each.name]) for each in settable if each.name in own}
        more = lists.additional(values, own)
        return found | ({"extra": more} if more else {})

    def _check(self, attribute: Attribute, value: object, *, new: bool) -> None:
        """Raise an error if a body may not have the value of an attribute that it cannot set."""
        name = attribute.name
        if attribute.fixed and not new:
            if value != attribute.value_of(self.record):
                raise attribute.fixed(f"Update of `{name}` is not allowed.", field=name)
        elif attribute.refused:
            raise InvalidInputError(f"Invalid input for field/attribute {name}. The cloud sets it.", field=name)


class ListView(ResourceView, frame.ListView):
    """``/v3/{resources}``."""

    @property
    def address(self) -> str:
        """The path of the list after ``/v3``."""
        return f"/{self.resource.path}"

    def rows(self) -> Sequence[Any]:
        """Return the records of a list without pages."""
        found: Sequence[Any] = self.resource.list.call(*self.parents)
        return found

    def find(self, part: Any) -> RowPage[Any]:
        """Return a page of a list that the database pages."""
        found: RowPage[Any] = self.resource.list.call(self, part)
        return found

    def page(self) -> tuple[Sequence[Any], frame.Json]:
        """Return the requested page and its links."""
        found: tuple[Sequence[Any], frame.Json] = self.resource.lists.page(self)
        return found


class DetailView(ResourceView, frame.DetailView):
    """``/v3/{resources}/{id}``."""

    def policy_target(self) -> dict[str, object]:
        """Return the target that the resource declares."""
        return {} if self.resource.target is None else dict(self.resource.target(self.found))

    def reference(self, identity: str) -> Any:
        return self.record


IDENTITY = frame.Dialect(
    lists=ListView,
    details=DetailView,
    identity="{{{parameter}}}",
    query=lambda resource: resource.lists.schema,
    new=new_body,
    changes=changes_body,
    methods=frame.METHODS | {"update": "PATCH"},
)


def routes(
    resource: Resource, beside: Mapping[str, type[frame.ServiceView]] | None = None, dialect: frame.Dialect = IDENTITY
) -> dict[str, type[frame.ServiceView]]:
    """Return the pattern of each path after ``/v3`` with its view.

    ``beside``: path below one object → ordinary view.
    """
    one = dialect.path_of(resource)
    return patterns(dialect.views_of(resource)) | patterns(
        {f"{one}/{where}": view for where, view in (beside or {}).items()}
    )


def patterns(views: Mapping[str, type[frame.ServiceView]]) -> dict[str, type[frame.ServiceView]]:
    """Return the pattern of each path after ``/v3`` with its view."""
    return {"/" + re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", where): view for where, view in views.items()}


def listed(resource: Resource) -> Callable[[Any, Iterable[Any]], frame.Json]:
    """Return the shape of a list of another resource's records, at the path of the request."""
    return lambda view, rows: lists.listing(
        view.request, resource.plural, resource.shapes(view, [*rows]), lists.own_path(view.request)
    )
