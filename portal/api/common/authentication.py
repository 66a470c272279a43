"""Authentication by token: ``X-Auth-Token`` → request context."""

from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from portal.api.common.links import endpoint
from provisioning.common.context import RequestContext, new_request_id
from provisioning.common.errors import ForbiddenError, NotAuthenticatedError
from provisioning.identity.credentials import access_rules
from provisioning.identity.errors import REFUSED
from provisioning.identity.selectors.tokens import context_of
from provisioning.identity.services.ec2 import METHOD as EC2_METHOD
from provisioning.identity.tokens import tokens

TYPES = {"volume": ("block-storage", "volumev3", "volume")}
"""First path segment → the service types that access rules may use for it, where the names differ."""
_IDENTITY = "/identity/"


class TokenAuthentication(BaseAuthentication):
    """Only the header authenticates. A browser session is ignored by the APIs, which rules out cross-site requests."""

    def authenticate(self, request: Request) -> tuple[None, RequestContext]:
        """Return no Django user and the context as ``request.auth``.

        Raises NotAuthenticatedError without a valid token, and ForbiddenError at Identity, as in Keystone, for a token
        that a service obtained from a signed EC2 or S3 request.
        """
        value = request.headers.get("X-Auth-Token", "")
        if not value:
            raise NotAuthenticatedError(REFUSED)
        data = tokens.read(value)
        context = context_of(
            data,
            request_id=request_id_of(request),
            global_request_id=getattr(request, "global_request_id", None),
        )
        _check_access_rules(context, request)
        if EC2_METHOD in data.methods and request.path_info.startswith(_IDENTITY):
            raise ForbiddenError("EC2 credential tokens cannot be used for authorization.")
        return None, context

    def authenticate_header(self, request: Request) -> str:
        """Return the challenge with the address at which clients get a token."""
        return challenge(request)


def _check_access_rules(context: RequestContext, request: Request) -> None:
    """Raise NotAuthenticatedError (401, as keystonemiddleware) if the application credential's access rules forbid the
    request.

    A rule's path starts at the service: ``/v2.1/servers`` for ``/compute/v2.1/servers``.
    """
    if context.access_rules is None:
        return
    service, _, path = request.path_info.lstrip("/").partition("/")
    types = TYPES.get(service, (service,))
    if not any(access_rules.allows(context.access_rules, kind, str(request.method), f"/{path}") for kind in types):
        raise NotAuthenticatedError("The access rules of this application credential do not allow this request.")


def challenge(request: HttpRequest | Request) -> str:
    """Return the value of ``WWW-Authenticate`` in keystonemiddleware's form."""
    return f'Keystone uri="{endpoint(request, "identity")}"'


def request_id_of(request: HttpRequest | Request) -> str:
    found: str | None = getattr(request, "request_id", None)
    return found or new_request_id()
