"""EC2 credentials: key pairs with which AWS clients sign requests for a user in one project."""

import json
import secrets
from collections.abc import Callable

from django.db.models import CharField
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity.credentials.ec2_signatures import SignedRequest, is_s3_signature
from provisioning.identity.errors import REFUSED
from provisioning.identity.models import Credential, Project, Trust, User
from provisioning.identity.selectors.credentials import trust_by
from provisioning.identity.selectors.tokens import context_of
from provisioning.identity.services.credentials import (
    EC2,
    Ec2Keys,
    blob_of,
    create_credential,
    credential_id,
    ec2_keys,
    session_name,
)
from provisioning.identity.services.sign_ins import Client, record_client
from provisioning.identity.services.tokens import issue_token, may_enter
from provisioning.identity.tokens.tokens import IssuedToken, Scope, TokenData

METHOD = "ec2credential"
_NOBODY = Ec2Keys(access="", secret=secrets.token_hex(32))


def create_ec2_credential(user: User, project: Project, *, caller: RequestContext | None = None) -> tuple[str, str]:
    """Create a key pair for the user in the project; return its access key and secret.

    Raises ForbiddenError in the same cases as ``create_credential``.
    """
    access, secret = secrets.token_hex(16), secrets.token_hex(32)
    blob = json.dumps({"access": access, "secret": secret, "trust_id": None})
    create_credential(user, kind=EC2, blob=blob, project=project, caller=caller)
    return access, secret


def authenticate_ec2(request: SignedRequest) -> IssuedToken:
    """Return a token for the user and project of the key that signed a request.

    Raises NotAuthenticatedError, with the same message for all reasons: an unknown key, a wrong or old signature, a
    disabled user or project, a lost role, an expired application credential.
    """
    return _authenticate(request.access, request.is_signed_with)


def context_for_request(
    request: SignedRequest, *, request_id: str = "", global_request_id: str | None = None
) -> RequestContext:
    """Return the context of a signed request's caller, without issuing a token; validated at each request.

    Raises NotAuthenticatedError as ``authenticate_ec2``. Takes two queries, one more for an application credential or
    trust.
    """
    record = _signer(request.access, request.is_signed_with)
    trust, now = _trust(record), timezone.now()
    data = TokenData(
        user_id=record.user_id if trust is None else trust.trustee_id,
        project_id=record.project_id,
        methods=(METHOD,),
        issued_at=now,
        expires_at=now,
        chain=("",),
        application_credential=record.application_credential_id,
        trust=record.trust_id,
    )
    return context_of(data, request_id=request_id, global_request_id=global_request_id)


def authenticate_s3(access: str, string_to_sign: str, signature: str) -> IssuedToken:
    """As ``authenticate_ec2``, for a base64 text that an S3 client signed."""
    return _authenticate(access, lambda secret: is_s3_signature(secret, string_to_sign, signature))


def _authenticate(access: str, is_signed_with: Callable[[str], bool]) -> IssuedToken:
    """Verify the signature, and issue the token."""
    record = _signer(access, is_signed_with, "user", "project", "application_credential")
    trust = _trust(record)
    user: User = record.user if trust is None else trust.trustee
    scope: Scope = record.project if trust is None else trust
    if scope is None or not may_enter(user, scope):
        raise NotAuthenticatedError(REFUSED)
    client = Client.of("", session_name(record.id))
    limits = record.application_credential
    session = record_client(user, (METHOD,), client, project=record.project, application_credential=limits)
    issued = issue_token(user, scope, (METHOD,), sign_in=session, application_credential=limits)
    context_of(issued.data)
    return issued


def _trust(record: Credential) -> Trust | None:
    """Return the trust that the credential was created with; the trustee authenticates, even with impersonation.

    As in Keystone, uses of the trust are not counted. Raises NotAuthenticatedError if it has expired or has no uses
    left.
    """
    if record.trust_id is None:
        return None
    trust = trust_by(record.trust_id.hex)
    if trust is None or trust.project_id != record.project_id:
        raise NotAuthenticatedError(REFUSED)
    return trust


def _signer(access: str, is_signed_with: Callable[[str], bool], *related: str) -> Credential:
    """Return the credential that signed a request. For an unknown key a dummy secret is tried, so that the response
    takes the same time.
    """
    key = credential_id(access)
    if related:
        record = Credential.objects.filter(id=key, type=EC2).select_related(*related).first()
    else:
        record = _CREDENTIAL.first(key=key)
    known = ec2_keys(blob_of(record)) if record is not None else _NOBODY
    signed = is_signed_with(known.secret)
    if record is None or record.project_id is None or not signed:
        raise NotAuthenticatedError(REFUSED)
    return record


_CREDENTIAL = Prepared(lambda key: Credential.objects.filter(id=key, type=EC2), key=CharField())
