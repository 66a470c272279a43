"""Identity API v2.0, for clients without domains: tokens and tenants of the default domain."""

from typing import Any

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.frame import Call, Json, ServiceView, document, parts
from portal.api.identity import versions
from portal.api.identity.auth import requests, tokens
from portal.api.identity.auth.tokens import subject_of
from portal.api.identity.dialect import patterns
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.identity.authentication.authenticate import authenticate
from provisioning.identity.selectors.project_tree import projects_open_to
from provisioning.identity.services.tokens import revoke_token
from provisioning.identity.tokens.tokens import TokenData

DOMAIN = "default"


class V2View(ServiceView):
    """Base of the resources of v2.0; all of them are 404 if a setting of the cloud disables v2.0."""

    public = True

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check the setting before anything else."""
        if not settings.IDENTITY_V2:
            raise NotFoundError("The resource could not be found.")
        super().initial(request, *args, **kwargs)


VERSION = document(
    V2View, "Show this version of the API.", lambda view: {"version": versions.document_v2(view.request)}
)
"""``GET /identity/v2.0``."""
EXTENSIONS = document(V2View, "List the extensions; there are none.", lambda view: {"extensions": {"values": []}})
"""``GET /v2.0/extensions``."""


class TokensView(V2View):
    """``POST /v2.0/tokens``."""

    limited = frozenset({"POST"})
    schemas = {"POST": requests.AUTH_V2}

    def post(self, request: Request) -> Response:
        """Issue a token (200)."""
        token, context = authenticate(requests.v2(request, self.checked_body()["auth"]))
        response = Response(tokens.access_shape(request, token.value, token.data, context))
        response["Cache-Control"] = "no-store"
        return response


class TokenView(V2View):
    """``GET``, ``HEAD`` and ``DELETE /v2.0/tokens/{id}``."""

    public = False
    _subject: TokenData
    _worth: RequestContext

    def policy_target(self) -> dict[str, object]:
        self._subject, self._worth = subject_of(self.context, self.kwargs["token_id"])
        return {"user_id": self._worth.user_id}

    def arguments(self, **ids: str) -> tuple[Any, ...]:
        return (self._subject,)

    def check(self) -> None:
        """Raise NotFoundError for a token that is not representable in v2.0, or not for the tenant in the query."""
        data, worth = self._subject, self._worth
        plain = data.domain_id is None and not data.system and data.trust is None and worth.user_domain_id == DOMAIN
        tenant_id = data.project_id.hex if data.project_id else ""
        requested = self.request.query_params.get("belongsTo", tenant_id).replace("-", "").lower()
        if not plain or worth.project_domain_id not in {"", DOMAIN} or requested != tenant_id:
            raise NotFoundError("Could not find token.")

    def shown(self, data: TokenData) -> Response:
        """Answer with the token of the path."""
        self.check()
        body = tokens.access_shape(self.request, self.kwargs["token_id"], data, self._worth)
        return Response(body, headers={"Cache-Control": "no-store"})

    def endpoints(self, data: TokenData) -> Json:
        """Return the endpoints of the catalog of the token of the path."""
        self.check()
        found = tokens.services_v2(self.request, data) if data.project_id else []
        endpoints = [
            {"name": service["name"], "type": service["type"], **endpoint}
            for service in found
            for endpoint in service["endpoints"]
        ]
        return {"endpoints": endpoints, "endpoints_links": []}


_VALIDATE = "novella:validate_token_v2"
TOKEN = patterns(
    parts(
        TokenView,
        "tokens/{token_id}",
        {
            "GET": Call(
                lambda subject: subject,
                _VALIDATE,
                "Show a token; 404 if it is invalid, not representable in v2.0, or not for the tenant in"
                " ``belongsTo``.",
                shape=TokenView.shown,
            ),
            "DELETE": Call(revoke_token, "identity:revoke_token", "Revoke a token."),
            "GET /endpoints": Call(
                lambda subject: subject,
                _VALIDATE,
                "List the endpoints of a token's catalog.",
                shape=TokenView.endpoints,
            ),
        },
    )
)


class TenantsView(V2View):
    """``GET /v2.0/tenants``."""

    public = False
    rules = {"GET": "identity:get_auth_projects"}

    def get(self, request: Request) -> Json:
        """List the caller's own projects."""
        found = [each for each in projects_open_to(self.context) if each.domain_id == DOMAIN]
        name = request.query_params.get("name")
        tenants = [tokens.tenant_shape(each) for each in found if name is None or each.name == name]
        return {"tenants": tenants, "tenants_links": []}
