"""Resources of the Image API: objects without an envelope in bodies, without their unset attributes, and with links.

Also the API version of a request: in the path, ``/v2.7/images``, or in ``Accept``. As in Glance, every minor version is
version 2, and an unknown version gets the list of versions (300).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import URLPattern, re_path, resolve
from rest_framework.response import Response

from portal.api import frame
from provisioning.common.errors import ForbiddenError
from provisioning.identity import policy

MINOR_VERSIONS = (17, 15, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
"""Minor versions of v2, newest first.

2.1 added members, 2.2 protected properties, 2.3 deactivation, 2.5 shared and community images, 2.6 imports, 2.7 hidden
images and the multihash, 2.8 named stores (there is one), 2.12 the tasks of an image, 2.17 locations as resources. The
cache (2.14, 2.16, 2.18) is not supported.
"""
KNOWN = {"v2", *(f"v2.{minor}" for minor in MINOR_VERSIONS)}
MEDIA_TYPE = "application/vnd.openstack.images-"
_SERVICE = "/image"
_VERSION = re.compile("^/*([^/]*)")
_MARK = "_image_version_known"


def asks_by_type(request: HttpRequest) -> bool:
    """Whether the request's ``Accept`` specifies an API version that is not yet resolved. Under ``/versions`` the
    header is ignored.
    """
    named = request.headers.get("Accept", "").startswith(MEDIA_TYPE)
    return named and not hasattr(request, _MARK) and _version_in(_path_of(request)) != "versions"


def negotiated(request: HttpRequest) -> HttpResponseBase:
    """Answer a request in the API version that it specifies; an unknown version gets the list of versions."""
    path = _path_of(request)
    if asks_by_type(request):
        version, rest = request.headers["Accept"].removeprefix(MEDIA_TYPE), path
    else:
        version, rest = _version_in(path), _VERSION.sub("", path)
    setattr(request, _MARK, True)
    match = resolve(f"{_SERVICE}/v2{rest}" if version in KNOWN else f"{_SERVICE}/")
    request.resolver_match = match
    answer: HttpResponseBase = match.func(request, *match.args, **match.kwargs)
    return answer


def version_of(request: HttpRequest) -> str:
    """Return the version segment of the path."""
    return _version_in(_path_of(request))


def _path_of(request: HttpRequest) -> str:
    return request.path_info.removeprefix(_SERVICE)


def _version_in(path: str) -> str:
    return _VERSION.match(path)[1]  # type: ignore[index]


class ImageView(frame.ServiceView):
    """A resource of the Image API."""

    service = "image"

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        """Answer in the API version of the ``Accept`` header, if the client specified one."""
        if asks_by_type(request):
            return negotiated(request)
        return super().dispatch(request, *args, **kwargs)


READ_ONLY = frozenset({"self", "schema", "created_at", "updated_at"})


@dataclass(frozen=True, kw_only=True)
class Resource(frame.Resource):
    """The declaration of a resource; ``list(view)``, ``show(view, id)`` and the other calls get the view."""

    key: str = "name"
    """The attribute that identifies an object in paths; in bodies it is not empty."""
    seen: str = ""
    """The policy rule for seeing the objects of a list; empty: the rule of the list."""
    definitions: frame.Schema = field(default_factory=dict)
    """Definitions that the schemas of its attributes refer to."""
    links: Callable[["ListView", Sequence[Any]], frame.Json] = lambda view, rows: {}
    """Returns the members of a list's body other than the objects."""

    def envelope(self, view: Any, shape: Mapping[str, Any]) -> frame.Json:
        return dict(shape)

    def content(self, body: Any) -> Any:
        return body


class ResourceView(frame.ResourceView, ImageView):
    """Base of the views of a resource."""

    resource: ClassVar[Resource]
    statuses = {"create": 201, "delete": 204, "clear": 204}

    def enforce(self, *rules: str) -> None:
        """Check additional policy rules; raises ForbiddenError."""
        for rule in rules:
            policy.enforce(self.context, rule, self.policy_target())

    def row(self, identity: str) -> Any:
        """Return the object of the path; raises NotFoundError."""
        assert self.resource.show is not None  # noqa: S101 - only resources with objects have such paths
        return self.resource.show.call(self, identity)

    def shapes(self, rows: Sequence[Any], attributes: Sequence[frame.Attribute] | None = None) -> list[frame.Json]:
        """Return the objects without unset attributes."""
        found = super().shapes(rows, attributes)
        return [{name: value for name, value in shape.items() if value is not None} for shape in found]

    def checked_body(self) -> Any:
        """Return the validated body; raises ForbiddenError if the body has read-only attributes."""
        body = self.request.data
        for name in sorted(READ_ONLY & body.keys()) if isinstance(body, dict) else ():
            raise ForbiddenError(f"Attribute '{name}' is read-only.", field=name)
        return super().checked_body()

    def answer(self, verb: str, made: Any) -> Response:
        """Add the ``Location`` of a new object that has an address of its own."""
        response = super().answer(verb, made)
        if verb == "create" and "self" in response.data:
            response["Location"] = f"{frame.endpoint(self.request, 'image')}{response.data['self']}"
        return response


class ListView(ResourceView, frame.ListView):
    """``/image/v2/{resources}``."""

    def page(self) -> tuple[Sequence[Any], frame.Json]:
        """Return the objects of the requested page that the caller may see, and its links."""
        resource = self.resource
        rows = resource.list.call(self)
        return rows if not resource.seen or self.allows(resource.seen) else (), resource.links(self, rows)


class DetailView(ResourceView, frame.DetailView):
    """``/image/v2/{resources}/{name}``."""


def body_of(resource: Resource, settable: Sequence[frame.Attribute]) -> frame.Schema:
    """Return the schema of a body with these attributes."""
    properties = {each.name: each.kind.schema for each in settable}
    properties[resource.key] = properties[resource.key] | {"minLength": 1}
    return {
        "type": "object",
        "properties": properties,
        "required": [each.name for each in settable if each.required],
        "additionalProperties": False,
        "definitions": resource.definitions,
    }


IMAGE = frame.Dialect(
    lists=ListView,
    details=DetailView,
    identity="(?P<{parameter}>[^/]+)",
    new=lambda resource: body_of(resource, [each for each in resource.attributes if each.post]),
    changes=lambda resource: body_of(resource, [each for each in resource.attributes if each.put]),
)


def urls(views: Mapping[str, type[frame.ServiceView]]) -> list[URLPattern]:
    """Return the routes of declared calls below ``/v2``; a slash is optional, except where an id would follow it."""
    return [
        re_path(
            "^/v2/"
            + re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", where)
            + ("$" if any(each.startswith(f"{where}/{{") for each in views) else "/?$"),
            view.as_view(),
        )
        for where, view in views.items()
    ]


def routes(resource: Resource, dialect: frame.Dialect = IMAGE) -> list[URLPattern]:
    """Return the routes of a resource below ``/v2``; a slash is optional, except where an id would follow it."""
    found = dialect.views_of(resource)
    whole = dialect.list_path(resource) if len(found) > 1 else None
    return [re_path(rf"^/v2/{where}{'' if where == whole else '/?'}$", view.as_view()) for where, view in found.items()]
