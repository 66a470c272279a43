"""A resource of the Identity API."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portal.api.common.links import endpoint
from portal.api.common.validation import Schema
from portal.api.common.views import ServiceView
from portal.api.frame import attributes as frame_attributes
from portal.api.frame import resource as frame
from portal.api.frame.kinds import Checked
from portal.api.identity.dialect.bodies import hexadecimal
from portal.api.identity.dialect.lists import WHOLE, Lists
from provisioning.common.errors import NovellaError
from provisioning.common.values.unset import UNSET
from provisioning.identity.models import LONG

_TEXT: Schema = {"type": "string", "minLength": 1}


def _or_empty(text: str | None) -> str:
    return text or ""


def reference(longest: int = 64, *, null: bool = False) -> Checked:
    """Return a kind for the id of a record, which a body may have in any form."""
    schema = _TEXT | {"maxLength": longest}
    return Checked(schema | ({"type": ["string", "null"]} if null else {}), writer=hexadecimal)


KEY = reference()
KEY_OR_NULL = reference(null=True)
NAME = Checked(_TEXT | {"maxLength": 64, "pattern": r"\S"})
LONG_NAME = Checked(_TEXT | {"maxLength": LONG, "pattern": r"\S"})
TEXT = Checked({"type": ["string", "null"], "maxLength": 65_535}, _or_empty)
"""A description; null in a body is an empty one."""
SHORT_TEXT = Checked({"type": ["string", "null"], "maxLength": LONG}, _or_empty)
FLAG = Checked({"type": "boolean"})
IMMUTABLE = Checked(
    {
        "type": "object",
        "properties": {"immutable": {"type": ["boolean", "null"]}},
        "additionalProperties": False,
    }
)
"""The options of domains, projects and roles."""


@dataclass(frozen=True, kw_only=True)
class Attribute(frame_attributes.Attribute):
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
        self, view: ServiceView, rows: Sequence[Any], attributes: Sequence[frame_attributes.Attribute] | None = None
    ) -> list[dict[str, Any]]:
        """Return records in Keystone's format, in the responses of any view: with ``attributes``, by default all."""
        every = self.attributes if attributes is None else attributes
        shown = [(each.name, each.reader(view, rows)) for each in every if each.is_shown(view)]
        base, found = endpoint(view.request, "identity"), []
        for row in rows:
            own = {name: value for name, read in shown if (value := read(row)) is not UNSET}
            own["links"] = {"self": base + self.address(row)}
            found.append(row.extra | own if self.extra and row.extra else own)
        return found

    def shape(self, view: ServiceView, row: Any) -> dict[str, Any]:
        return self.shapes(view, [row])[0]


def body(
    name: str, properties: Mapping[str, Schema], required: Sequence[str] = (), *, extra: int = 0, least: int = 0
) -> Schema:
    """Return the schema of ``{name: {…}}`` with at least ``least`` attributes.

    ``extra``: maximum characters of the names of additional attributes; 0: there are none.
    """
    inner: Schema = {"type": "object", "properties": dict(properties), "required": [*required]}
    inner |= {"propertyNames": {"maxLength": extra}} if extra else {"additionalProperties": False}
    inner |= {"minProperties": least} if least else {}
    return {"type": "object", "properties": {name: inner}, "required": [name], "additionalProperties": False}


def new_body(resource: Resource) -> Schema:
    """Return the schema of a new object."""
    settable = [each for each in resource.attributes if each.post]
    required = [each.name for each in settable if each.required]
    return body(resource.name, {each.name: each.kind.schema for each in settable}, required, extra=resource.extra)


def changes_body(resource: Resource) -> Schema:
    """Return the schema of an update."""
    known = [each for each in resource.attributes if each.put or each.fixed]
    properties = {each.name: each.kind.schema for each in known}
    return body(resource.name, properties, extra=resource.extra, least=resource.least)
