"""``/v3/policies``: policy texts that services once read; deprecated, stored but not used."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas, ServiceView
from portal.api.identity import fragments
from portal.api.identity.catalog import schemas
from portal.api.identity.fields import further
from portal.api.identity.short_lists import listed, query_of
from provisioning.identity.models import Policy
from provisioning.identity.selectors.catalog import existing_policy, policies
from provisioning.identity.services.policies import create_policy, delete_policy, update_policy

_KNOWN = frozenset({"type", "blob"})


def _values(body: dict[str, Any]) -> dict[str, Any]:
    given = body["policy"]
    others = further(given, dict.fromkeys((*_KNOWN, "id")))
    return {name: value for name, value in given.items() if name in _KNOWN} | ({"extra": others} if others else {})


class PoliciesView(ServiceView):
    """``/v3/policies``."""

    rules = {"GET": "identity:list_policies", "POST": "identity:create_policy"}
    schemas: ClassVar[Schemas] = {"POST": schemas.POLICY_CREATE}
    queries: ClassVar[Schemas] = {"GET": query_of("type")}

    def get(self, request: Request) -> Response:
        """List policies."""
        items = (shape(request, each) for each in policies())
        return Response(listed(request, "policies", items, filters=("type",)))

    def post(self, request: Request) -> Response:
        """Create a policy (201)."""
        values = _values(self.checked_body())
        made = create_policy(values.pop("type"), values.pop("blob"), **values)
        return Response({"policy": shape(request, made)}, status=201)


class PolicyView(ServiceView):
    """``/v3/policies/{id}``."""

    rules = {"GET": "identity:get_policy", "PATCH": "identity:update_policy", "DELETE": "identity:delete_policy"}
    schemas: ClassVar[Schemas] = {"PATCH": schemas.POLICY_UPDATE}

    def get(self, request: Request, policy_id: str) -> Response:
        """Show a policy."""
        return Response({"policy": shape(request, existing_policy(policy_id))})

    def patch(self, request: Request, policy_id: str) -> Response:
        """Change a policy."""
        policy = existing_policy(policy_id)
        return Response({"policy": shape(request, update_policy(policy, **_values(self.checked_body())))})

    def delete(self, request: Request, policy_id: str) -> Response:
        """Delete a policy."""
        delete_policy(existing_policy(policy_id))
        return Response(status=204)


def shape(request: Request, record: Policy) -> fragments.Shape:
    key = record.id.hex
    return {
        **record.extra,
        "id": key,
        "type": record.type,
        "blob": record.blob,
        "links": fragments.self_link(request, f"/policies/{key}"),
    }
