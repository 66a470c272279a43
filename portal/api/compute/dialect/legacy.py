"""The Compute API v2.0 under ``/compute/v2``: the views of v2.1 without microversions, for old clients.

Members of a body that the schema does not have are ignored, as in v2.0.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

from django.http import HttpRequest, HttpResponseBase
from django.urls import resolve

from portal.api.common import links
from portal.api.common.microversions import Microversions, Version
from portal.api.common.validation import Schema, validate
from portal.api.common.views import schema_for
from portal.api.compute.dialect.base import ComputeView

View = Callable[..., HttpResponseBase]


class WithoutMicroversions(ComputeView):
    """Mixin that every view gets under ``/compute/v2``."""

    microversions: ClassVar[Microversions | None] = None
    microversion: Version = (2, 1)

    @property
    def base(self) -> str:
        """The endpoint's address, ``…/compute/v2``."""
        return links.endpoint(self.request, "compute").rsplit("/", 1)[0] + "/v2" + self._project

    def body(self, schema: Schema) -> Any:
        """Return the validated body without members that the schema does not have."""
        return validate(pruned(self.request.data, schema), schema)

    def checked_body(self) -> Any:
        """Return the validated body without members that the schema does not have."""
        return self.body(schema_for(self.schemas, str(self.request.method), self.microversion))


class LegacyView(ComputeView):
    """Forwards ``/compute/v2/…`` to the view of ``/compute/v2.1/…``, which checks its own rule."""

    public = True
    microversions: ClassVar[Microversions | None] = None

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
