"""``/v3/users/{id}/access_rules``: requests that a user's application credentials may send."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.identity import fragments
from portal.api.identity.credentials import application_credentials
from portal.api.identity.credentials.application_credentials import NotByTrustView
from provisioning.identity.models import AccessRule
from provisioning.identity.selectors.application_credentials import access_rules_of, existing_access_rule
from provisioning.identity.services.application_credentials import delete_access_rule


class AccessRulesView(NotByTrustView):
    """``GET /v3/users/{id}/access_rules``."""

    rules = {"GET": "identity:list_access_rules"}

    def get(self, request: Request, user_id: str) -> Response:
        """List the access rules; they are created with application credentials."""
        user = self.user
        found = (_shape(request, rule) for rule in access_rules_of(user))
        return Response(fragments.listing(request, "access_rules", found, f"/users/{user.id.hex}/access_rules"))


class AccessRuleView(NotByTrustView):
    """``/v3/users/{id}/access_rules/{id}``."""

    rules = {"GET": "identity:get_access_rule", "DELETE": "identity:delete_access_rule"}

    def get(self, request: Request, user_id: str, access_rule_id: str) -> Response:
        rule = existing_access_rule(self.user, access_rule_id)
        return Response({"access_rule": _shape(request, rule)})

    def delete(self, request: Request, user_id: str, access_rule_id: str) -> Response:
        """Delete a rule; 403 while an application credential uses it."""
        rule = existing_access_rule(self.user, access_rule_id)
        delete_access_rule(rule, caller=self.context)
        return Response(status=204)


def _shape(request: Request, record: AccessRule) -> dict[str, Any]:
    links = fragments.self_link(request, f"/users/{record.user_id.hex}/access_rules/{record.id.hex}")
    return application_credentials.access_rule(record) | {"links": links}
