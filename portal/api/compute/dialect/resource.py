"""Resources of the Compute API: lists with parameters and pages, links, and routes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from django.urls import URLPattern

from portal.api.common.views import ServiceView
from portal.api.compute.dialect.base import LIST_PAGES, ComputeView
from portal.api.compute.dialect.schemas import COUNT, STRICT_QUERIES, TEXT
from portal.api.compute.dialect.timestamps import timestamp_micro
from portal.api.frame import resource as frame
from portal.api.frame import views
from portal.api.frame.attributes import Attribute, Parameter
from portal.api.frame.kinds import Checked, Reader
from portal.api.frame.parts import urls
from portal.api.frame.schemas import query_of
from portal.api.frame.views import Dialect

SHOWN = Checked({})
"""A value of responses, not converted."""
TEXT_OR_NULL = Checked({}, writer=lambda text: text or None)
"""A text of responses; null if it is empty."""
ID = Checked({}, writer=str)
PROJECT = Checked({}, writer=lambda identity: identity.hex)
"""The id of a project or user, which Keystone writes without dashes."""
TIME = Checked({}, writer=timestamp_micro)
PAGES = (Parameter("limit", COUNT), Parameter("marker", TEXT))


@dataclass(frozen=True, kw_only=True)
class Resource(frame.Resource):
    """The declaration of a resource. The first argument of its services is the view. ``list(view, query)`` also gets
    the query parameters, and ``limit`` and ``marker`` at microversions that have pages.
    """

    key: str = "id"
    """The attribute that identifies an object in markers and links."""


class Links(Attribute):
    """The links of an object, with and without the version."""

    def reader(self, view: Any, rows: Sequence[Any]) -> Reader:
        where, key = view.resource.path, view.key
        own, bookmark = f"{view.base}/{where}/", f"{view.bookmark}/{where}/"

        def links(row: Any) -> list[dict[str, str]]:
            found = key(row)
            return [{"rel": "self", "href": f"{own}{found}"}, {"rel": "bookmark", "href": f"{bookmark}{found}"}]

        return links


LINKS = Links("links", SHOWN)


class ResourceView(views.ResourceView, ComputeView):
    """Base of the views of a resource."""

    resource: ClassVar[Resource]

    @property
    def key(self) -> Reader:
        """The function that returns the id of an object in markers and links, at the microversion."""
        found = self.resource.attributes
        return next(a.value_of for a in found if a.name == self.resource.key and a.is_at(self.microversion))

    def row(self, identity: str) -> Any:
        """Return the object of the path. Raises NotFoundError."""
        assert self.resource.show is not None  # noqa: S101 - only resources that are shown have it
        return self.resource.show.call(self, identity)


class ListView(ResourceView, views.ListView):
    """``/v2.1/{resources}``."""

    def page(self) -> tuple[Sequence[Any], dict[str, Any]]:
        """Return the requested objects, and the link to the next page where lists have pages."""
        resource, known = self.resource, self.parameters.get("GET", ())
        query = self.asked if known else {}
        if not any(each.name == "marker" and each.is_at(self.microversion) for each in known):
            return resource.list.call(self, query), {}
        page = LIST_PAGES.read(self.request)
        rows = resource.list.call(self, query, limit=page.limit, marker=page.marker)
        following = LIST_PAGES.links(self.request, page, [self.key(row) for row in rows], f"{self.base}/{self.path}")
        return rows, {f"{resource.plural}_links": following} if following else {}


class DetailView(ResourceView, views.DetailView):
    """``/v2.1/{resources}/{id}``."""


COMPUTE = Dialect(
    lists=ListView,
    details=DetailView,
    identity="<str:{parameter}>",
    parameters=partial(query_of, strict_from=STRICT_QUERIES),
)


def routes(
    resource: Resource, beside: Mapping[str, type[ServiceView]] | None = None, dialect: Dialect = COMPUTE
) -> list[URLPattern]:
    """Return the routes of a resource below ``/v2.1``.

    ``beside``: path below one object → ordinary view.
    """
    more = {f"{dialect.path_of(resource)}/{where}": view for where, view in (beside or {}).items()}
    result: dict[str, type[ServiceView]] = {**dialect.views_of(resource), **more}
    return urls("/v2.1/", result)
