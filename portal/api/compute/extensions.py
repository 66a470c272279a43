"""The API's extensions (Compute API reference, "Extensions")."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.views import ComputeView


class ExtensionsView(ComputeView):
    """``GET /extensions``: the API is one piece since 2.1, so the list is empty."""

    rules = {"GET": "compute:extensions:list"}

    def get(self, request: Request) -> Response:
        """No extensions."""
        return Response({"extensions": []})
