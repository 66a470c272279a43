"""``/v3/OS-TRUST/trusts``: trusts and their roles."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas, ServiceView
from portal.api.identity.fields import further, moment
from portal.api.identity.fragments import list_links
from portal.api.identity.roles import shapes as role_shapes
from portal.api.identity.trusts import schemas, shapes
from provisioning.common.errors import ForbiddenError, NotFoundError
from provisioning.common.ids import read_id
from provisioning.identity import policy
from provisioning.identity.models import Project, Trust, User
from provisioning.identity.selectors.lookups import existing
from provisioning.identity.selectors.trusts import existing_trust, roles_named, roles_of_trust, trusts
from provisioning.identity.services.trusts import (
    TrustRequest,
    create_trust,
    delete_trust,
    refuse_application_credentials,
)

TRUSTOR, TRUSTEE = "target.trust.trustor_user_id", "target.trust.trustee_user_id"
"""Names of the attributes in policy rules, as in Keystone."""
_KNOWN = frozenset({*schemas.FIELDS, "id", "deleted_at", "roles_links"})


class TrustsView(ServiceView):
    """``/v3/OS-TRUST/trusts``."""

    rules = {"GET": "identity:list_trusts", "POST": "identity:create_trust"}
    queries: ClassVar[Schemas] = {"GET": schemas.LIST}
    schemas: ClassVar[Schemas] = {"POST": schemas.CREATE}

    def rule_of(self, method: str) -> str | None:
        """Return the rule: trustors and trustees may list their own trusts. As in Keystone, the filter by trustor
        decides if both are set.
        """
        if method == "POST" or not self._asked:
            return super().rule_of(method)
        if "trustor_user_id" in self._asked:
            return "identity:list_trusts_for_trustor"
        return "identity:list_trusts_for_trustee"

    @property
    def _asked(self) -> dict[str, str]:
        query = self.request.query_params
        return {name: query[name] for name in ("trustor_user_id", "trustee_user_id") if query.get(name)}

    def policy_target(self) -> dict[str, object]:
        """Return trustor and trustee in the query or body; an invalid body is rejected after the policy check."""
        if self.request.method != "POST":
            return {TRUSTOR: self._asked.get("trustor_user_id"), TRUSTEE: self._asked.get("trustee_user_id")}
        body = self.request.data
        given = body.get("trust") if isinstance(body, dict) else None
        return {TRUSTOR: given.get("trustor_user_id", self.context.user_id) if isinstance(given, dict) else None}

    def get(self, request: Request) -> Response:
        """List trusts without their roles."""
        refuse_application_credentials(self.context)
        asked = self._asked
        found = trusts(trustor_id=asked.get("trustor_user_id"), trustee_id=asked.get("trustee_user_id"))
        items = [shapes.listed(request, each) for each in found]
        return Response({"trusts": items, "links": list_links(request, "/OS-TRUST/trusts")})

    def post(self, request: Request) -> Response:
        """Create a trust with the caller as trustor (201)."""
        body = self.checked_body()["trust"]
        if read_id(body["trustor_user_id"]) != self.context.user_id:
            raise ForbiddenError("The authenticated user should match the trustor.")
        made = create_trust(self.context, _request(body))
        return Response({"trust": shapes.trust(request, made)}, status=201)


class OfTrustView(ServiceView):
    """Base of the views of one trust; only its trustor and trustee can find it."""

    record: Trust

    def check_rule(self, request: Request) -> None:
        """Find the trust, check whether the caller may see it, and then check whether the policy allows this request.

        A used-up trust can only be deleted, which revokes the tokens obtained with it.
        """
        self.record = existing_trust(self.kwargs["trust_id"], used_up=request.method == "DELETE")
        if not policy.allows(self.context, "identity:get_trust", self.policy_target()):
            raise NotFoundError(f"Could not find trust: {self.kwargs['trust_id'][:64]}.")
        super().check_rule(request)
        refuse_application_credentials(self.context)

    def policy_target(self) -> dict[str, object]:
        return {TRUSTOR: self.record.trustor_id, TRUSTEE: self.record.trustee_id}


class TrustView(OfTrustView):
    """``/v3/OS-TRUST/trusts/{id}``."""

    rules = {"GET": "identity:get_trust", "DELETE": "identity:delete_trust"}

    def get(self, request: Request, trust_id: str) -> Response:
        return Response({"trust": shapes.trust(request, self.record)})

    def delete(self, request: Request, trust_id: str) -> Response:
        """Delete the trust and the trusts redelegated from it."""
        delete_trust(self.record, caller=self.context)
        return Response(status=204)


class TrustRolesView(OfTrustView):
    """``/v3/OS-TRUST/trusts/{id}/roles``."""

    rules = {"GET": "identity:list_roles_for_trust"}

    def get(self, request: Request, trust_id: str) -> Response:
        """List the roles that the trust delegates."""
        links = shapes.roles_links(request, self.record)
        return Response({"roles": shapes.roles(request, self.record), "links": links})


class TrustRoleView(OfTrustView):
    """``/v3/OS-TRUST/trusts/{id}/roles/{id}``."""

    rules = {"GET": "identity:get_role_for_trust"}

    def get(self, request: Request, trust_id: str, role_id: str) -> Response:
        """Show a role that the trust delegates; 404 for any other role."""
        wanted = read_id(role_id)
        role = next((role for role in roles_of_trust(self.record) if role.id == wanted), None)
        if role is None:
            raise NotFoundError(f"Could not find role: {role_id[:64]}.")
        return Response({"role": role_shapes.role(request, role)})


def _request(body: dict[str, Any]) -> TrustRequest:
    project_id = body.get("project_id")
    return TrustRequest(
        trustee=existing(User, body["trustee_user_id"]),
        impersonation=body["impersonation"],
        project=existing(Project, project_id) if project_id else None,
        roles=roles_named(body.get("roles", [])),
        expires_at=moment(body, "expires_at"),
        remaining_uses=body.get("remaining_uses"),
        allow_redelegation=bool(body.get("allow_redelegation")),
        redelegation_count=body.get("redelegation_count"),
        redelegated_trust_id=body.get("redelegated_trust_id"),
        extra=further(body, _KNOWN),
    )
