"""Views of the resources of the Identity API: lists, and updates by PATCH."""

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rest_framework.response import Response

from portal.api.common.views import ServiceView
from portal.api.frame import attributes as frame
from portal.api.frame import views
from portal.api.frame.resource import Values
from portal.api.frame.views import METHODS, Dialect
from portal.api.identity.dialect import bodies
from portal.api.identity.dialect.resource import Attribute, Resource, changes_body, new_body
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.identity.directory.listing import RowPage


class ResourceView(views.ResourceView):
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

    def handle_exception(self, exc: Exception) -> Response:
        """Forget the record, so that a request that is retried looks it up again."""
        vars(self).pop("found", None)
        return super().handle_exception(exc)

    def row(self, identity: str) -> Any:
        """Return the record of the path. Raises NotFoundError."""
        return self.record

    def shapes(self, rows: Sequence[Any], attributes: Sequence[frame.Attribute] | None = None) -> list[dict[str, Any]]:
        """Return records in Keystone's format."""
        found: list[dict[str, Any]] = self.resource.shapes(self, rows, attributes)
        return found

    def values(self, *, new: bool = False) -> Values:
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
        more = bodies.additional(values, own)
        return found | ({"extra": more} if more else {})

    def _check(self, attribute: Attribute, value: object, *, new: bool) -> None:
        """Raise an error if a body may not have the value of an attribute that it cannot set."""
        name = attribute.name
        if attribute.fixed and not new:
            if value != attribute.value_of(self.record):
                raise attribute.fixed(f"Update of `{name}` is not allowed.", field=name)
        elif attribute.refused:
            raise InvalidInputError(f"Invalid input for field/attribute {name}. It is given by the cloud.", field=name)


class ListView(ResourceView, views.ListView):
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

    def page(self) -> tuple[Sequence[Any], dict[str, Any]]:
        """Return the requested page and its links."""
        found: tuple[Sequence[Any], dict[str, Any]] = self.resource.lists.page(self)
        return found


class DetailView(ResourceView, views.DetailView):
    """``/v3/{resources}/{id}``."""

    def policy_target(self) -> dict[str, object]:
        """Return the target that the resource declares."""
        return {} if self.resource.target is None else dict(self.resource.target(self.found))

    def reference(self, identity: str) -> Any:
        return self.record


IDENTITY = Dialect(
    lists=ListView,
    details=DetailView,
    identity="{{{parameter}}}",
    query=lambda resource: resource.lists.schema,
    new=new_body,
    changes=changes_body,
    methods=METHODS | {"update": "PATCH"},
)


def routes(
    resource: Resource, beside: Mapping[str, type[ServiceView]] | None = None, dialect: Dialect = IDENTITY
) -> dict[str, type[ServiceView]]:
    """Return the pattern of each path after ``/v3`` with its view.

    ``beside``: path below one object → ordinary view.
    """
    one = dialect.path_of(resource)
    return patterns(dialect.views_of(resource)) | patterns(
        {f"{one}/{where}": view for where, view in (beside or {}).items()}
    )


def patterns(views: Mapping[str, type[ServiceView]]) -> dict[str, type[ServiceView]]:
    """Return the pattern of each path after ``/v3`` with its view."""
    return {"/" + re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", where): view for where, view in views.items()}


def listed(resource: Resource) -> Callable[[Any, Iterable[Any]], dict[str, Any]]:
    """Return the shape of a list of another resource's records, at the path of the request."""
    return lambda view, rows: bodies.listing(
        view.request, resource.plural, resource.shapes(view, [*rows]), bodies.own_path(view.request)
    )
