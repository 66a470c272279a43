"""Extra specs of flavors (Compute API reference, "Flavors extra-specs")."""

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.base import ComputeView
from portal.api.compute.schemas import Schema
from portal.api.frame.schemas import inner
from provisioning.common.errors import InvalidInputError
from provisioning.compute import selectors
from provisioning.compute.services.flavor_specs import delete_extra_spec, merge_extra_specs, no_such_spec

_CHECKED = (2, 86)
"""From this version on extra specs in known namespaces are validated."""
_SPECS: Schema = {
    "type": "object",
    "patternProperties": {r"^[a-zA-Z0-9-_:. ]{1,255}\Z": {"type": ["string", "number"], "maxLength": 255}},
    "additionalProperties": False,
}


class ExtraSpecsView(ComputeView):
    """``GET`` and ``POST /flavors/{id}/os-extra_specs``."""

    rules = {"GET": "os_compute_api:os-flavor-extra-specs:index", "POST": "os_compute_api:os-flavor-extra-specs:create"}
    schemas = {"POST": inner({"extra_specs": _SPECS}, ("extra_specs",))}

    def get(self, request: Request, flavor_id: str) -> Response:
        """List the extra specs of a flavor."""
        return Response({"extra_specs": selectors.flavor_for(self.context, flavor_id, disabled=True).extra_specs})

    def post(self, request: Request, flavor_id: str) -> Response:
        """Add or update extra specs; returns the body as it was sent."""
        given = self.checked_body()
        merge_extra_specs(
            self.context,
            flavor_id,
            given["extra_specs"],
            rule=self.rules["POST"],
            known_only=self.microversion >= _CHECKED,
        )
        return Response(given)


class ExtraSpecView(ComputeView):
    """``GET``, ``PUT`` and ``DELETE /flavors/{id}/os-extra_specs/{key}``."""

    rules = {
        "GET": "os_compute_api:os-flavor-extra-specs:show",
        "PUT": "os_compute_api:os-flavor-extra-specs:update",
        "DELETE": "os_compute_api:os-flavor-extra-specs:delete",
    }
    schemas = {"PUT": _SPECS | {"minProperties": 1, "maxProperties": 1}}

    def get(self, request: Request, flavor_id: str, key: str) -> Response:
        flavor = selectors.flavor_for(self.context, flavor_id, disabled=True)
        if key not in flavor.extra_specs:
            raise no_such_spec(flavor, key)
        return Response({key: flavor.extra_specs[key]})

    def put(self, request: Request, flavor_id: str, key: str) -> Response:
        """Set one extra spec; the key in the body must equal that in the path."""
        given = self.checked_body()
        if key not in given:
            raise InvalidInputError("Request body and URI mismatch", field=key[:64])
        merge_extra_specs(
            self.context, flavor_id, given, rule=self.rules["PUT"], known_only=self.microversion >= _CHECKED
        )
        return Response(given)

    def delete(self, request: Request, flavor_id: str, key: str) -> Response:
        """Remove one extra spec."""
        delete_extra_spec(self.context, flavor_id, key)
        return Response(status=200)
