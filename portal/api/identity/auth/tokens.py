"""``/v3/auth/tokens``: issue, validate and revoke tokens."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.authentication import challenge
from portal.api.common.views import Schemas, ServiceView
from portal.api.identity.auth import requests, schemas, shapes
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotAuthenticatedError, NotFoundError
from provisioning.identity import policy, tokens
from provisioning.identity.authenticate import authenticate
from provisioning.identity.receipts import MoreMethodsError
from provisioning.identity.selectors.tokens import context_of
from provisioning.identity.services.tokens import revoke_token
from provisioning.identity.tokens import TokenData

SUBJECT = "X-Subject-Token"
NO = frozenset({"", "0", "false", "no", "off"})


class TokensView(ServiceView):
    """Tokens. The header ``X-Subject-Token`` contains the token that the request is about."""

    rules = {
        "GET": "identity:validate_token",
        "HEAD": "identity:check_token",
        "DELETE": "identity:revoke_token",
    }
    public_methods = frozenset({"POST"})
    limited = frozenset({"POST"})
    schemas: ClassVar[Schemas] = {"POST": schemas.AUTH}
    _subject: TokenData
    _worth: RequestContext

    def post(self, request: Request) -> Response:
        """Issue a token (201) in a header, or a receipt (401) if the user's rules require more methods."""
        try:
            token, context = authenticate(requests.v3(request, self.checked_body()["auth"]))
        except MoreMethodsError as error:
            answer = Response(shapes.receipt(error), status=401)
            answer[requests.RECEIPT], answer["WWW-Authenticate"] = error.receipt.value, challenge(request)
            answer["Cache-Control"] = "no-store"
            return answer
        return self._answer(request, token.data, context, token.value, 201)

    def get(self, request: Request) -> Response:
        """Show a valid token, or with ``allow_expired`` an expired token; 404 for any other token."""
        return self._answer(request, self._subject, self._worth, request.headers[SUBJECT], 200)

    def delete(self, request: Request) -> Response:
        """Revoke a token and all tokens that were obtained with it."""
        revoke_token(self._subject)
        return Response(status=204)

    def policy_target(self) -> dict[str, object]:
        ended = self.request.method != "DELETE" and self._wants("allow_expired")
        self._subject, self._worth = subject_of(self.context, self.request.headers.get(SUBJECT, ""), ended=ended)
        return {"user_id": self._worth.user_id}

    def _wants(self, name: str) -> bool:
        return self.request.query_params.get(name, "false").lower() not in NO

    def _answer(self, request: Request, data: TokenData, context: RequestContext, value: str, status: int) -> Response:
        with_catalog = "nocatalog" not in request.query_params
        body = shapes.token(request, data, context, catalog=with_catalog)
        response = Response(body, status=status)
        response[SUBJECT] = value
        response["Cache-Control"] = "no-store"
        return response


def subject_of(caller: RequestContext, value: str, *, ended: bool = False) -> tuple[TokenData, RequestContext]:
    """Return the subject token and its current context. Raises NotFoundError if it is invalid.

    ``ended``: accept an expired token, if the caller may validate expired tokens.
    """
    ended = ended and policy.allows(caller, "novella:validate_expired_token")
    try:
        data = tokens.read(value, ended=ended)
        return data, context_of(data)
    except NotAuthenticatedError as error:
        raise NotFoundError("Could not find token.") from error
