"""Flavors (Compute API reference, "Flavors")."""

import re
from typing import Any

from oslo_utils import strutils
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common import conditional
from portal.api.common.microversions import NEWEST
from portal.api.common.paging import next_links, read_page
from portal.api.compute.base import ComputeView
from portal.api.compute.flavors import schemas as flavor_schemas
from portal.api.compute.schemas import boolean, last
from provisioning.common.errors import InvalidInputError
from provisioning.common.listing import Sort
from provisioning.compute import selectors
from provisioning.compute.models import Flavor
from provisioning.compute.services.flavors import FlavorRequest, create_flavor, delete_flavor, update_flavor

_NUMBER = re.compile(r"-?[0-9]{1,10}", re.ASCII)


class FlavorShapes(ComputeView):
    """Representations of flavors."""

    def brief(self, flavor: Flavor) -> dict[str, Any]:
        shape: dict[str, Any] = {"id": flavor.flavorid, "name": flavor.name, "links": self._links(flavor)}
        if self.microversion >= (2, 55):
            shape["description"] = flavor.description or None
        return shape

    def shape(self, flavor: Flavor) -> dict[str, Any]:
        """A flavor in full, with its extra specs if the caller may see them."""
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
        if self.microversion >= (2, 61) and self.allows("os_compute_api:os-flavor-extra-specs:index"):
            shape["extra_specs"] = flavor.extra_specs
        return shape

    def _links(self, flavor: Flavor) -> list[dict[str, str]]:
        return [
            {"rel": "self", "href": f"{self.base}/flavors/{flavor.flavorid}"},
            {"rel": "bookmark", "href": f"{self.bookmark}/flavors/{flavor.flavorid}"},
        ]


class FlavorsView(FlavorShapes):
    """``GET`` and ``POST /flavors``."""

    rules = {"GET": "novella:flavors:index", "POST": "os_compute_api:os-flavor-manage:create"}
    schemas = {"POST": flavor_schemas.create}
    queries = {"GET": flavor_schemas.listing}
    detailed = False

    def get(self, request: Request) -> Response:
        """List the flavors that the project may use. Operators also see only public flavors, unless they filter by
        ``is_public``.
        """
        query = self.checked_query()
        page = read_page(request, zero_is_none=True)
        key = flavor_schemas.SORT_KEYS[last(query, "sort_key") or "flavorid"]
        falling = last(query, "sort_dir") == "desc"
        operator = self.allows("novella:flavors:index:all")

        def make() -> dict[str, Any]:
            found = selectors.flavors_for(
                self.context,
                is_public=_is_public(last(query, "is_public")) if operator else None,
                min_ram=_number(last(query, "minRam"), "minRam"),
                min_disk=_number(last(query, "minDisk"), "minDisk"),
                disabled=operator,
                sort=[Sort(name, falling) for name in dict.fromkeys((key, "id"))],
                limit=page.limit,
                marker=page.marker,
            )
            shapes = [self.shape(flavor) if self.detailed else self.brief(flavor) for flavor in found]
            url = f"{self.base}/flavors{'/detail' if self.detailed else ''}"
            following = next_links(request, page, [flavor.flavorid for flavor in found], url)
            return {"flavors": shapes} | ({"flavors_links": following} if following else {})

        return conditional.answer(self, make)

    def post(self, request: Request) -> Response:
        given = self.checked_body()["flavor"]
        ident = given.get("id")
        flavor = create_flavor(
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
                is_public=boolean(given.get("os-flavor-access:is_public", True)),
                rxtx_factor=float(given.get("rxtx_factor", 1.0)),
            ),
        )
        return Response({"flavor": self.shape(flavor)})


class FlavorsDetailView(FlavorsView):
    """``GET /flavors/detail``."""

    http_method_names = ["get", "head"]
    detailed = True


class FlavorView(FlavorShapes):
    """``GET``, ``PUT`` (2.55) and ``DELETE /flavors/{id}``."""

    rules = {
        "GET": "novella:flavors:show",
        "PUT": "os_compute_api:os-flavor-manage:update",
        "DELETE": "os_compute_api:os-flavor-manage:delete",
    }
    schemas = {"PUT": flavor_schemas.update}
    versions = {"PUT": ((2, 55), NEWEST)}

    def get(self, request: Request, flavor_id: str) -> Response:
        return Response({"flavor": self.shape(selectors.flavor_for(self.context, flavor_id, disabled=True))})

    def put(self, request: Request, flavor_id: str) -> Response:
        """Update the description of a flavor; null removes it."""
        text = self.checked_body()["flavor"]["description"]
        return Response({"flavor": self.shape(update_flavor(self.context, flavor_id, description=text or ""))})

    def delete(self, request: Request, flavor_id: str) -> Response:
        """Delete a flavor; servers keep their copy."""
        delete_flavor(self.context, flavor_id)
        return Response(status=202)


def _is_public(text: str | None) -> bool | None:
    """Read the filter ``is_public`` of an operator: True (public flavors) without a value, None (all flavors) for
    ``None``.
    """
    if text is None:
        return True
    if text.strip().lower() == "none":
        return None
    try:
        return strutils.bool_from_string(text, strict=True)
    except ValueError as error:
        raise InvalidInputError(f"Invalid is_public filter [{text[:32]}]", field="is_public") from error


def _number(text: str | None, field: str) -> int | None:
    if text is None:
        return None
    if not _NUMBER.fullmatch(text):
        raise InvalidInputError(f"Invalid {field} filter [{text[:32]}]", field=field)
    return int(text)
