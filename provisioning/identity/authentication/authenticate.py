"""Authentication as in the Identity API: the proofs, the methods, and the scope of the token."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec
from django.conf import settings
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, NotAuthenticatedError
from provisioning.identity.credentials import mfa
from provisioning.identity.errors import REFUSED
from provisioning.identity.models import ApplicationCredential, Domain, Project, Trust, User
from provisioning.identity.selectors.credentials import trust_by
from provisioning.identity.selectors.lookups import by_id, existing, record_by
from provisioning.identity.selectors.tokens import context_of, token_data
from provisioning.identity.services.ec2 import METHOD as EC2_METHOD
from provisioning.identity.services.passcodes import PasscodeProof, authenticate_passcode, use_passcode
from provisioning.identity.services.passwords import authenticate_password
from provisioning.identity.services.sign_ins import Client, authenticate_application_credential, record_client
from provisioning.identity.services.tokens import may_enter
from provisioning.identity.services.trusts import use_trust
from provisioning.identity.tokens import receipts, tokens
from provisioning.identity.tokens.tokens import IssuedToken, TokenData


@dataclass(frozen=True, slots=True)
class PasswordProof:
    """The password of a user, who is specified by id, or by name and domain."""

    password: str
    user_id: str | None = None
    user_name: str | None = None
    domain_id: str | None = None
    domain_name: str | None = None


@dataclass(frozen=True, slots=True)
class CredentialProof:
    """The secret of an application credential, which is specified by id, or by name and user (by id, or by name and
    domain).
    """

    secret: str
    credential_id: str | None = None
    name: str | None = None
    user_id: str | None = None
    user_name: str | None = None
    domain_id: str | None = None
    domain_name: str | None = None


@dataclass(frozen=True, slots=True)
class ProjectScope:
    """A project by id, or by name and domain."""

    project_id: str | None = None
    name: str | None = None
    domain_id: str | None = None
    domain_name: str | None = None


@dataclass(frozen=True, slots=True)
class DomainScope:
    """A domain by id or by name."""

    domain_id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class TrustScope:
    """A trust by id."""

    trust_id: str


Scope = ProjectScope | DomainScope | TrustScope | Literal["system", "unscoped", "default"]
"""``default``: the user's default project, if the user has access to it."""


@dataclass(frozen=True, slots=True)
class AuthRequest:
    """The proofs that a client has sent, and the scope that it requests."""

    methods: tuple[str, ...]
    scope: Scope
    client: Client
    password: PasswordProof | None = None
    token: str | None = None
    passcode: PasscodeProof | None = None
    application_credential: CredentialProof | None = None
    receipt: str | None = None
    """The receipt for methods that the user has proved in earlier requests."""
    only_domain: str | None = None
    """Only users and projects of this domain are accepted, for the Identity API v2.0, which has no domains."""


class SignedIn(NamedTuple):
    """An issued token with its context."""

    token: IssuedToken
    context: RequestContext


def authenticate(request: AuthRequest) -> SignedIn:
    """Authenticate a user and issue a token.

    1. Check every proof. All must belong to the same user.
    2. Invalidate the passcode.
    3. Check that the methods, including the methods of a given token and receipt, are sufficient for the user
       (``mfa``).
    4. Find the scope, record the session, count the use of a trust, and issue the token.

    Raises NotAuthenticatedError, with the same message for all reasons: a wrong proof, proofs of two users, a scope
    that is unknown, disabled or without a role for the user. Its subclasses are PasswordExpiredError,
    TooManyAttemptsError and MoreMethodsError.

    Raises ForbiddenError for these requests: the token of an application or EC2 credential with another scope; a system
    token with a project or domain scope; the token of a trust with any scope; a trust of which the user is not the
    trustee or whose roles are lost. A token that was issued for another token expires no later than that token.
    """
    parent = token_data(request.token) if request.token is not None else None
    if parent is not None and parent.trust is not None:
        raise ForbiddenError("The token of a trust cannot be exchanged. Request a token for the trust itself.")
    credential = _credential(request)
    user, step = _person(request, parent, credential)
    if request.only_domain not in {None, user.domain_id}:
        raise NotAuthenticatedError(REFUSED)
    if step is not None:
        use_passcode(user, step)
    methods = _methods(request, user, parent)
    scope = _scope(user, request.scope, parent, credential)
    project = scope.project if isinstance(scope, Trust) else scope if isinstance(scope, Project) else None
    if project is not None and request.only_domain not in {None, project.domain_id}:
        raise NotAuthenticatedError(REFUSED)
    if not may_enter(user, scope):
        if isinstance(scope, Trust):
            raise ForbiddenError("Trustee has no delegated roles.")
        raise NotAuthenticatedError(REFUSED)
    session = None
    if parent is None or parent.sign_in is None:
        session = record_client(user, methods, request.client, project=project, application_credential=credential)
    if isinstance(scope, Trust):
        use_trust(scope)
    issued = tokens.issue(user, scope, methods, parent=parent, sign_in=session, application_credential=credential)
    return SignedIn(issued, context_of(issued.data))


def _methods(request: AuthRequest, user: User, parent: TokenData | None) -> tuple[str, ...]:
    """Return the methods of this request and of its receipt. Raises MoreMethodsError if these methods and the methods
    of the given token are not sufficient. Raises NotAuthenticatedError instead if a receipt cannot contain any of the
    methods.
    """
    before = receipts.methods_of(request.receipt, user) if request.receipt is not None else ()
    methods = tuple(dict.fromkeys((*request.methods, *before)))
    if not mfa.is_enough(user, (*methods, *(parent.methods if parent else ()))):
        proved = tuple(method for method in methods if method in receipts.METHODS)
        if proved and request.only_domain is None:
            raise receipts.MoreMethodsError(user, receipts.issue(user, proved))
        raise NotAuthenticatedError(REFUSED)
    return methods


def prove_person(password: PasswordProof, passcode: str, client: Client) -> tuple[User, tuple[str, ...]]:
    """Authenticate a user with a login form; return the user and the methods. Raises the errors of ``authenticate``."""
    proof = PasscodeProof(passcode, password.user_id, password.user_name, password.domain_id, password.domain_name)
    methods = ("password", "totp") if passcode and settings.TOTP else ("password",)
    request = AuthRequest(methods, "unscoped", client, password, passcode=proof if "totp" in methods else None)
    user, step = _person(request, None, None)
    mfa.check(user, methods)
    if step is not None:
        use_passcode(user, step)
    return user, methods


def _person(
    request: AuthRequest, parent: TokenData | None, credential: ApplicationCredential | None
) -> tuple[User, int | None]:
    """Return the user to whom all proofs belong, and the step of the passcode.

    Raises NotAuthenticatedError for proofs of several users, and if the password was changed between two proofs.
    """
    result: list[User] = []
    step: int | None = None
    if parent is not None:
        result.append(existing(User, parent.user_id.hex))
    if credential is not None:
        result.append(credential.user)
    if request.password is not None:
        proof = request.password
        result.append(
            authenticate_password(
                user_id=proof.user_id,
                user_name=proof.user_name,
                domain_id=proof.domain_id,
                domain_name=proof.domain_name,
                password=proof.password,
                source=request.client.address,
            )
        )
    if request.passcode is not None:
        user, step = authenticate_passcode(request.passcode, request.client.address)
        result.append(user)
    if len({(user.id, user.tokens_valid_after) for user in result}) != 1:
        raise NotAuthenticatedError(REFUSED)
    return result[-1], step


def _credential(request: AuthRequest) -> ApplicationCredential | None:
    """Return the application credential whose secret the request contains, or None.

    Raises NotAuthenticatedError if the request also specifies a scope: the scope of an application credential is fixed.
    """
    proof = request.application_credential
    if proof is None:
        return None
    if request.scope != "default":
        raise NotAuthenticatedError("Application credentials cannot request a scope.")
    return authenticate_application_credential(
        credential_id=proof.credential_id,
        name=proof.name,
        user_id=proof.user_id,
        user_name=proof.user_name,
        domain_id=proof.domain_id,
        domain_name=proof.domain_name,
        secret=proof.secret,
        source=request.client.address,
    )


def _scope(
    user: User, requested: Scope, parent: TokenData | None, credential: ApplicationCredential | None
) -> tokens.Scope:
    if parent is not None and (parent.application_credential is not None or EC2_METHOD in parent.methods):
        return _scope_of_credential(requested, parent, credential)
    if credential is not None:
        return credential.project
    if parent is not None and parent.system and isinstance(requested, ProjectScope | DomainScope):
        raise ForbiddenError("A system token cannot be exchanged for a project or domain token.")
    if requested in {"unscoped", "system"}:
        return None if requested == "unscoped" else "system"
    if requested == "default":
        project = by_id(Project, user.default_project_id)
        return project if project is not None and may_enter(user, project) else None
    result: tokens.Scope = None
    if isinstance(requested, ProjectScope):
        result = record_by(
            Project,
            record_id=requested.project_id,
            name=requested.name,
            domain_id=requested.domain_id,
            domain_name=requested.domain_name,
        )
    elif isinstance(requested, DomainScope):
        result = record_by(Domain, record_id=requested.domain_id, name=requested.name)
    elif isinstance(requested, TrustScope):
        result = _trust(user, requested)
    if result is None:
        raise NotAuthenticatedError(REFUSED)
    return result


def _trust(user: User, requested: TrustScope) -> Trust | None:
    """Return the trust; None if it cannot be used or its project is disabled. Raises ForbiddenError unless the user is
    its trustee.
    """
    trust = trust_by(requested.trust_id)
    if trust is None or (trust.project is not None and not (trust.project.enabled and trust.project.domain.enabled)):
        return None
    if trust.trustee_id != user.id:
        raise ForbiddenError("User is not a trustee.")
    return trust


def _scope_of_credential(requested: Scope, parent: TokenData, credential: ApplicationCredential | None) -> tokens.Scope:
    """Return the project of the credential for which ``parent`` was issued. Raises ForbiddenError for another requested
    scope.
    """
    project = by_id(Project, parent.project_id)
    same = (
        isinstance(requested, ProjectScope)
        and project is not None
        and project
        == record_by(
            Project,
            record_id=requested.project_id,
            name=requested.name,
            domain_id=requested.domain_id,
            domain_name=requested.domain_name,
        )
    )
    if credential is not None and credential.id != parent.application_credential:
        raise NotAuthenticatedError(REFUSED)
    if requested != "default" and not same:
        raise ForbiddenError("The token of a credential is for its project and cannot be rescoped.")
    return project


def keep(data: TokenData) -> dict[str, Any]:
    """Return the content of a token as plain JSON, without secrets."""
    kept: dict[str, Any] = msgspec.to_builtins(data)
    return kept


def recall(kept: dict[str, Any]) -> TokenData:
    """Return the content that was passed to ``keep``."""
    return msgspec.convert(kept, TokenData)


def still_good(kept: dict[str, Any]) -> RequestContext:
    """Return the caller's current context; raises NotAuthenticatedError if the token has expired or was revoked."""
    data = recall(kept)
    if data.expires_at <= timezone.now():
        raise NotAuthenticatedError(REFUSED)
    return context_of(data)
