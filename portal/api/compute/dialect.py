"""The dialect of the Compute API: Nova's schema fragments, times, parameters, pages and links.

Also the API v2.0 under ``/compute/v2``: the views of v2.1 without microversions, for old clients. As in v2.0, it
ignores members of a body that the schema does not have.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ClassVar, cast

from django.http import HttpRequest, HttpResponseBase
from django.urls import URLPattern, resolve
from django.utils.dateparse import parse_datetime
from oslo_utils import strutils
from rest_framework.request import Request

from portal.api import frame
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.common.values.numbers import MAX_INTEGER

POSITIVE: frame.Schema = {
    "type": ["integer", "string"],
    "pattern": r"^[0-9]{1,10}\Z",
    "minimum": 1,
    "maximum": MAX_INTEGER,
}
NOT_NEGATIVE: frame.Schema = POSITIVE | {"minimum": 0}
# fmt: off
BOOLEAN: frame.Schema = {
    "enum": [
        True, "True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes",
        False, "False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no",
    ]
}
# fmt: on
"""The values that Nova accepts as booleans."""
TEXT: frame.Schema = {"type": "string", "pattern": r"^[^\x00]*\Z"}
"""Text of a query, without NUL characters."""
NAME: frame.Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": r"^(?!\s)[^\x00-\x1f\x7f]*(?<!\s)\Z",
}
"""A name without leading or trailing blanks."""
HOST: frame.Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[a-zA-Z0-9._-]*\Z"}
"""A host's name."""
COUNT: frame.Schema = {"type": "string", "pattern": r"^[0-9]{1,10}\Z"}
"""A whole number from 0 in a query."""
PAGE_SCHEMAS: frame.Schema = {"limit": COUNT, "marker": TEXT}
"""The query parameters of paging."""
STRICT_QUERIES = (2, 75)
"""From this version on an unknown parameter is rejected."""


def boolean(value: object) -> bool:
    """Read one of the values of ``BOOLEAN``; the schema has rejected all others."""
    return bool(strutils.bool_from_string(value))


SHARED_VOLUMES: frame.Version = (2, 60)
"""From this version on clients may attach multiattach volumes."""


def query(version: frame.Version, parameters: Mapping[str, frame.Schema]) -> frame.Schema:
    """Return the schema of a query. Parameters may be repeated; unknown parameters are accepted only before 2.75."""
    properties = {name: {"type": "array", "items": schema} for name, schema in parameters.items()}
    return {"type": "object", "properties": properties, "additionalProperties": version < STRICT_QUERIES}


def last(found: Mapping[str, list[str]], name: str) -> str | None:
    """Return the last value of a parameter, as Nova does; None if the parameter is missing."""
    values = found.get(name)
    return values[-1] if values else None


_NUMBER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)


def read_number(text: str) -> int:
    """Read an id in a path. As in Nova, raises InvalidInputError if it is not a whole number."""
    if not _NUMBER.fullmatch(text):
        raise InvalidInputError(f"Invalid input received: id must be a whole number, not {text[:64]!r}.")
    return int(text)


SECOND = timedelta(seconds=1) - timedelta.resolution


def timestamp(moment: datetime | None) -> str | None:
    """Format a time as ``2026-01-31T12:00:00Z``; None for None."""
    return None if moment is None else f"{_utc(moment).isoformat()[:19]}Z"


def timestamp_micro(moment: datetime | None) -> str | None:
    """Format a time as ``2026-01-31T12:00:00.000000``, without a time zone, as in actions and usage; None for None."""
    return None if moment is None else _utc(moment).isoformat(timespec="microseconds")[:26]


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)


def read_time(value: str, name: str) -> datetime:
    """Return a time of the query, in UTC if it has no time zone. Raises InvalidInputError if it is malformed."""
    try:
        found = parse_datetime(value.replace(" ", "+") if "T" in value else value)
        found = found if found is None or found.tzinfo else found.replace(tzinfo=UTC)
        if found is not None:
            return found.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidInputError(
        f"Invalid input for query parameters {name}. Value: {value[:64]}. {value[:64]!r} is not a 'date-time'",
        field=name,
    )


def read_end(value: str, name: str) -> datetime:
    """Return an upper bound in the query. A time in whole seconds includes this second, because responses show times
    without fractions.
    """
    found = read_time(value, name)
    return found if found.microsecond else found + SECOND


MICROVERSIONS = frame.Microversions("compute", (2, 1), (2, 96), legacy_header="X-OpenStack-Nova-API-Version")
"""The supported range; fields appear and disappear as in the reference, up to 2.96."""


LIST_PAGES = frame.Pages(zero_is_none=True)
"""Lists with a marker."""
WITH_OFFSET = frame.Pages()
"""Lists with an offset."""


class ComputeView(frame.ServiceView):
    """A resource of the Compute API.

    Its path may contain the caller's project, ``/v2.1/{project_id}/servers``; the routes remove it.
    """

    service: ClassVar[str] = "compute"
    microversions: ClassVar[frame.Microversions | None] = MICROVERSIONS
    url_project: str | None = None

    def dispatch(self, request: HttpRequest, *args: Any, url_project: str | None = None, **kwargs: Any) -> Any:
        """Store the project of the path; handlers are called without it."""
        self.url_project = url_project
        return super().dispatch(request, *args, **kwargs)

    def check_rule(self, request: Request) -> None:
        """Reject the path of another project, as Nova does, then check the policy; a path with NUL characters is
        404.
        """
        if self.url_project is not None and read_id(self.url_project) != self.context.project_id:
            mine = self.context.project_id.hex if self.context.project_id else None
            raise InvalidInputError(
                f"Malformed request URL: URL's project_id '{self.url_project}' doesn't match Context's"
                f" project_id '{mine}'"
            )
        super().check_rule(request)
        if "\0" in request.path:
            raise NotFoundError("The resource could not be found.")

    @property
    def base(self) -> str:
        """The endpoint's address, with the project if the request's path contains one."""
        return frame.endpoint(self.request, "compute") + self._project

    @property
    def bookmark(self) -> str:
        """The service's address without a version, for bookmark links."""
        return frame.endpoint(self.request, "compute").rsplit("/", 1)[0] + self._project

    @property
    def _project(self) -> str:
        return "" if self.url_project is None else f"/{self.url_project}"


View = Callable[..., HttpResponseBase]


class WithoutMicroversions(ComputeView):
    """Mixin that every view gets under ``/compute/v2``."""

    microversions: ClassVar[frame.Microversions | None] = None
    microversion: frame.Version = (2, 1)

    @property
    def base(self) -> str:
        """The endpoint's address, ``…/compute/v2``."""
        return frame.endpoint(self.request, "compute").rsplit("/", 1)[0] + "/v2" + self._project

    def body(self, schema: frame.Schema) -> Any:
        """Return the validated body without members that the schema does not have."""
        return frame.validate(pruned(self.request.data, schema), schema)

    def checked_body(self) -> Any:
        """Return the validated body without members that the schema does not have."""
        return self.body(frame.schema_for(self.schemas, str(self.request.method), self.microversion))


class LegacyView(ComputeView):
    """Forwards ``/compute/v2/…`` to the view of ``/compute/v2.1/…``, which checks its own rule."""

    public = True
    microversions: ClassVar[frame.Microversions | None] = None

    def dispatch(self, request: HttpRequest, *args: Any, url_project: str | None = None, **kwargs: Any) -> Any:
        """Answer with the response of the view of ``/compute/v2.1/…``."""
        found = resolve(f"/compute/v2.1/{kwargs['rest']}")
        view = _without_microversions(cast("View", found.func))
        return view(request, *found.args, **found.kwargs, url_project=url_project)

    def get(self, request: HttpRequest, rest: str) -> None:
        """Never called: ``dispatch`` answers every method."""

    post = put = delete = get


@functools.cache
def _without_microversions(view: View) -> View:
    """Return the view function of the same class without microversions; URL parameters are unchanged."""
    known: type[Any] = view.cls  # type: ignore[attr-defined]
    if not issubclass(known, ComputeView):
        return view
    made = cast("type[ComputeView]", type(f"Legacy{known.__name__}", (WithoutMicroversions, known), {}))
    return cast("View", made.as_view(**view.initkwargs))  # type: ignore[attr-defined]


def pruned(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return the value without members that the schema does not list, for objects whose schema allows no additional
    properties. Members that match a pattern property are kept.
    """
    if isinstance(value, list):
        inner = schema.get("items")
        return [pruned(item, inner) for item in value] if isinstance(inner, dict) else value
    if not isinstance(value, dict):
        return value
    properties: Mapping[str, Any] = schema.get("properties", {})
    closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    return {
        name: pruned(item, properties.get(name, {})) for name, item in value.items() if name in properties or not closed
    }


SHOWN = frame.Checked({})
"""A value of responses, not converted."""
TEXT_OR_NULL = frame.Checked({}, writer=lambda text: text or None)
"""A text of responses; null if it is empty."""
ID = frame.Checked({}, writer=str)
PROJECT = frame.Checked({}, writer=lambda identity: identity.hex)
"""The id of a project or user, which Keystone writes without dashes."""
TIME = frame.Checked({}, writer=timestamp_micro)
PAGES = (frame.Parameter("limit", COUNT), frame.Parameter("marker", TEXT))


@dataclass(frozen=True, kw_only=True)
class Resource(frame.Resource):
    """The declaration of a resource. The first argument of its services is the view. ``list(view, query)`` also gets
    the query parameters, and ``limit`` and ``marker`` at microversions that have pages.
    """

    key: str = "id"
    """The attribute that identifies an object in markers and links."""


class Links(frame.Attribute):
    """The links of an object, with and without the version."""

    def reader(self, view: Any, rows: Sequence[Any]) -> frame.Reader:
        where, key = view.resource.path, view.key
        own, bookmark = f"{view.base}/{where}/", f"{view.bookmark}/{where}/"

        def links(row: Any) -> list[dict[str, str]]:
            found = key(row)
            return [{"rel": "self", "href": f"{own}{found}"}, {"rel": "bookmark", "href": f"{bookmark}{found}"}]

        return links


LINKS = Links("links", SHOWN)


class ResourceView(frame.ResourceView, ComputeView):
    """Base of the views of a resource."""

    resource: ClassVar[Resource]

    @property
    def key(self) -> frame.Reader:
        """The function that returns the id of an object in markers and links, at the microversion."""
        found = self.resource.attributes
        return next(a.value_of for a in found if a.name == self.resource.key and a.is_at(self.microversion))

    def row(self, identity: str) -> Any:
        """Return the object of the path. Raises NotFoundError."""
        assert self.resource.show is not None  # noqa: S101 - only resources that are shown have it
        return self.resource.show.call(self, identity)


class ListView(ResourceView, frame.ListView):
    """``/v2.1/{resources}``."""

    def page(self) -> tuple[Sequence[Any], frame.Json]:
        """Return the requested objects, and the link to the next page where lists have pages."""
        resource, known = self.resource, self.parameters.get("GET", ())
        query = self.query_values if known else {}
        if not any(each.name == "marker" and each.is_at(self.microversion) for each in known):
            return resource.list.call(self, query), {}
        page = LIST_PAGES.read(self.request)
        rows = resource.list.call(self, query, limit=page.limit, marker=page.marker)
        following = LIST_PAGES.links(self.request, page, [self.key(row) for row in rows], f"{self.base}/{self.path}")
        return rows, {f"{resource.plural}_links": following} if following else {}


class DetailView(ResourceView, frame.DetailView):
    """``/v2.1/{resources}/{id}``."""


COMPUTE = frame.Dialect(
    lists=ListView,
    details=DetailView,
    identity="<str:{parameter}>",
    parameters=partial(frame.query_of, strict_from=STRICT_QUERIES),
)


def routes(
    resource: Resource, beside: Mapping[str, type[frame.ServiceView]] | None = None, dialect: frame.Dialect = COMPUTE
) -> list[URLPattern]:
    """Return the routes of a resource below ``/v2.1``.

    ``beside``: path below one object → ordinary view.
    """
    more = {f"{dialect.path_of(resource)}/{where}": view for where, view in (beside or {}).items()}
    result: dict[str, type[frame.ServiceView]] = {**dialect.views_of(resource), **more}
    return frame.urls("/v2.1/", result)
