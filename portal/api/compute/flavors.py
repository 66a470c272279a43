"""Flavors (Compute API reference, "Flavors", "Flavors extra-specs", "Flavors access")."""

from __future__ import annotations

import functools
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.paging import next_links, read_page
from portal.api.compute import schemas
from portal.api.compute.server_requests import truth
from portal.api.compute.views import ComputeView
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.compute import selectors, services
from provisioning.compute.models import Flavor
from provisioning.compute.requests import FlavorRequest

_create_schema = functools.cache(schemas.flavor_create)


class FlavorsView(ComputeView):
    """``GET`` and ``POST /flavors``."""

    rules = {"GET": "compute:flavors:list", "POST": "compute:flavors:create"}
    detailed = False

    def get(self, request: Request) -> Response:
        """List the flavors the project may use."""
        page = read_page(request)
        query = request.query_params
        found = selectors.flavors_for(
            self.context,
            is_public=self._is_public(query.get("is_public")),
            min_ram=_number(query.get("minRam"), "minRam"),
            min_disk=_number(query.get("minDisk"), "minDisk"),
            limit=page.limit,
            marker=page.marker,
        )
        shapes = [self.shape(flavor) if self.detailed else self.brief(flavor) for flavor in found]
        answer: dict[str, Any] = {"flavors": shapes}
        url = f"{self.base}/flavors{'/detail' if self.detailed else ''}"
        following = next_links(request, page, [flavor.flavorid for flavor in found], url)
        if following:
            answer["flavors_links"] = following
        return Response(answer)

    def post(self, request: Request) -> Response:
        """Make a flavor."""
        given = self.body(_create_schema(self.microversion))["flavor"]
        ident = given.get("id")
        flavor = services.create_flavor(
            self.context,
            FlavorRequest(
                name=given["name"],
                vcpus=int(given["vcpus"]),
                memory_mb=int(given["ram"]),
                root_gb=int(given["disk"]),
                ephemeral_gb=int(given.get("OS-FLV-EXT-DATA:ephemeral") or 0),
                swap_mb=int(given.get("swap") or 0),
                flavorid=None if ident in {None, "auto"} else str(ident),
                description=given.get("description") or "",
                is_public=truth(given.get("os-flavor-access:is_public", True)),
                rxtx_factor=float(given.get("rxtx_factor", 1.0)),
            ),
        )
        return Response({"flavor": self.shape(flavor)})

    def brief(self, flavor: Flavor) -> dict[str, Any]:
        """An entry of the plain list."""
        shape: dict[str, Any] = {"id": flavor.flavorid, "name": flavor.name, "links": self._links(flavor)}
        if self.microversion >= (2, 55):
            shape["description"] = flavor.description or None
        return shape

    def shape(self, flavor: Flavor) -> dict[str, Any]:
        """One flavor whole."""
        shape: dict[str, Any] = {
            "id": flavor.flavorid,
            "name": flavor.name,
            "ram": flavor.memory_mb,
            "vcpus": flavor.vcpus,
            "disk": flavor.root_gb,
            "swap": flavor.swap_mb if flavor.swap_mb or self.microversion >= (2, 75) else "",
            "OS-FLV-EXT-DATA:ephemeral": flavor.ephemeral_gb,
            "OS-FLV-DISABLED:disabled": flavor.disabled,
            "os-flavor-access:is_public": flavor.is_public,
            "rxtx_factor": flavor.rxtx_factor,
            "links": self._links(flavor),
        }
        if self.microversion >= (2, 55):
            shape["description"] = flavor.description or None
        if self.microversion >= (2, 61):
            shape["extra_specs"] = flavor.extra_specs
        return shape

    def _links(self, flavor: Flavor) -> list[dict[str, str]]:
        bookmark = self.base.rsplit("/", 1)[0]
        return [
            {"rel": "self", "href": f"{self.base}/flavors/{flavor.flavorid}"},
            {"rel": "bookmark", "href": f"{bookmark}/flavors/{flavor.flavorid}"},
        ]

    def _is_public(self, text: str | None) -> bool | None:
        """Operators see public flavors unless they ask for others; everybody else sees what they may use."""
        if not self.allows("compute:flavors:list:all"):
            return None
        if text is None:
            return True
        return None if text.lower() == "none" else truth(text)


class FlavorsDetailView(FlavorsView):
    """``GET /flavors/detail``."""

    http_method_names = ["get", "head"]
    detailed = True


class FlavorView(FlavorsView):
    """``GET`` and ``DELETE /flavors/{id}``."""

    http_method_names = ["get", "head", "delete"]
    rules = {
        "GET": "compute:flavors:show",
        "POST": "compute:flavors:create",
        "DELETE": "compute:flavors:delete",
    }

    def get(self, request: Request, flavor_id: str = "") -> Response:
        """Show one flavor."""
        return Response({"flavor": self.shape(selectors.flavor_for(self.context, flavor_id))})

    def delete(self, request: Request, flavor_id: str) -> Response:
        """Delete a flavor; servers keep their copy."""
        services.delete_flavor(self.context, flavor_id)
        return Response(status=202)


class ExtraSpecsView(ComputeView):
    """``GET /flavors/{id}/os-extra_specs``."""

    rules = {"GET": "compute:flavor_extra_specs:list"}

    def get(self, request: Request, flavor_id: str, key: str | None = None) -> Response:
        """The extra specs of a flavor."""
        specs = selectors.flavor_for(self.context, flavor_id).extra_specs
        if key is None:
            return Response({"extra_specs": specs})
        if key not in specs:
            raise NotFoundError(f"Flavor {flavor_id} has no extra specs with key {key[:64]}.")
        return Response({key: specs[key]})


class ExtraSpecView(ExtraSpecsView):
    """``GET /flavors/{id}/os-extra_specs/{key}``."""

    rules = {"GET": "compute:flavor_extra_specs:show"}


class FlavorAccessView(ComputeView):
    """``GET /flavors/{id}/os-flavor-access``."""

    rules = {"GET": "compute:flavor_access:list"}

    def get(self, request: Request, flavor_id: str) -> Response:
        """The projects that see a private flavor."""
        flavor = selectors.flavor_for(self.context, flavor_id)
        if flavor.is_public:
            raise NotFoundError("Access list not available for public flavors.")
        rows = flavor.access.order_by("project_id")
        return Response(
            {"flavor_access": [{"flavor_id": flavor.flavorid, "tenant_id": row.project_id.hex} for row in rows]}
        )


def _number(text: str | None, field: str) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise InvalidInputError(f"Invalid {field} filter [{text[:32]}]", field=field)
    return int(text)
