"""The base of the views of metadata definitions."""

from typing import Any

from rest_framework.request import Request

from portal.api.common.paging import Page
from portal.api.image.base import ImageView
from portal.api.image.images.queries import read_page
from provisioning.common.errors import ForbiddenError, InvalidInputError
from provisioning.common.listing import Sort
from provisioning.identity import policy

READ_ONLY = frozenset({"self", "schema", "created_at", "updated_at"})


class MetadefView(ImageView):
    """A resource of the metadata definitions."""

    def enforce(self, *rules: str) -> None:
        """Check additional policy rules; raises ForbiddenError."""
        for rule in rules:
            policy.enforce(self.context, rule, self.policy_target())

    def definition(self) -> Any:
        """Return the validated body; raises ForbiddenError if the body has read-only fields."""
        body = self.request.data
        for name in sorted(READ_ONLY & body.keys()) if isinstance(body, dict) else ():
            raise ForbiddenError(f"Attribute '{name}' is read-only.", field=name)
        return self.checked_body()


def read_sort(request: Request) -> list[Sort]:
    """Return the order in ``sort_key`` and ``sort_dir``. Raises InvalidInputError for an unknown direction."""
    way = request.query_params.get("sort_dir", "desc")
    if way not in {"asc", "desc"}:
        raise InvalidInputError(f"Invalid sort direction: {way[:80]}", field="sort_dir")
    return [Sort(request.query_params.get("sort_key", "created_at"), descending=way == "desc")]


def read_choice(request: Request, name: str, choices: tuple[str, ...]) -> str | None:
    """Return the value of a filter that has fixed values; raises InvalidInputError for any other value."""
    value = request.query_params.get(name) or None
    if value is not None and value not in choices:
        raise InvalidInputError(f"Invalid {name} value: {value[:80]}", field=name)
    return value


def page_of(request: Request) -> Page:
    """Return the requested page. Raises InvalidInputError for a marker with NUL."""
    page = read_page(request)
    if page.marker is not None and "\0" in page.marker:
        raise InvalidInputError("The marker has a NUL character in it.", field="marker")
    return page
