"""Views of the specs of a type: key-value pairs in one of its columns."""

from collections.abc import Callable
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.volume.dialect.schemas import SPECS
from portal.api.volume.dialect.views import ResourceView
from provisioning.common.errors import InvalidInputError, NotFoundError

ITEM = SPECS | {"minProperties": 1, "maxProperties": 1}


class SpecsView(ResourceView):
    """Base of ``GET`` and ``POST /{types}/{id}/{specs}``."""

    http_method_names: list[str] = []

    column: ClassVar[str]
    """The column of the specs, and their name in bodies."""
    change: ClassVar[Callable[..., object]]
    """The service that adds or updates specs of a type."""
    created: ClassVar[int] = 200
    """Status of a successful POST."""

    def specs(self, row: Any) -> dict[str, str]:
        """Return the specs that the caller may see."""
        found: dict[str, str] = getattr(row, self.column)
        return found

    def get(self, request: Request, identity: str) -> Response:
        return Response({self.column: self.specs(self.row(identity))})

    def post(self, request: Request, identity: str) -> Response:
        """Add or update specs."""
        asked = self.checked_body()[self.column]
        type(self).change(self.row(identity), asked)
        return Response({self.column: asked}, status=self.created)


class SpecView(SpecsView):
    """Base of ``GET``, ``PUT`` and ``DELETE /{types}/{id}/{specs}/{key}``."""

    missing: ClassVar[str]
    """Message about a key without a spec; placeholders ``{id}`` and ``{key}``."""
    remove: ClassVar[Callable[..., object]]
    """The service that deletes a spec of a type."""

    def get(self, request: Request, identity: str, key: str) -> Response:  # type: ignore[override]  # one more part
        row = self.row(identity)
        specs = self.specs(row)
        if key not in specs:
            raise NotFoundError(self.missing.format(id=row.pk, key=key[:64]))
        return Response({key: specs[key]})

    def put(self, request: Request, identity: str, key: str) -> Response:
        asked = self.checked_body()
        if key not in asked:
            raise InvalidInputError("Request body and URI mismatch")
        type(self).change(self.row(identity), asked)
        return Response(asked)

    def delete(self, request: Request, identity: str, key: str) -> Response:
        type(self).remove(self.row(identity), key)
        return self.accepted()
