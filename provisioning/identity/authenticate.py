"""Signing in as the Identity API knows it: what is proved, by which methods, and what the token is for."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from django.conf import settings

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, NotAuthenticatedError
from provisioning.identity import mfa, receipts, tokens
from provisioning.identity.errors import REFUSED
from provisioning.identity.models import ApplicationCredential, Domain, Project, Trust, User
from provisioning.identity.selectors.lookups import by_id, existing, record_by
from provisioning.identity.selectors.tokens import context_of, token_data
from provisioning.identity.selectors.trusts import trust_by
from provisioning.identity.services.ec2 import METHOD as EC2_METHOD
from provisioning.identity.services.passcodes import PasscodeProof, authenticate_passcode, use_passcode
from provisioning.identity.services.passwords import authenticate_password
from provisioning.identity.services.program_sign_ins import authenticate_application_credential
from provisioning.identity.services.sign_ins import Client, record_client
from provisioning.identity.services.tokens import may_enter
from provisioning.identity.services.trusts import use_trust
from provisioning.identity.tokens import IssuedToken, TokenData


@dataclass(frozen=True, slots=True)
class PasswordProof:
    """A user by id, or by name and domain, and the password."""

    password: str
    user_id: str | None = None
    user_name: str | None = None
    domain_id: str | None = None
    domain_name: str | None = None


@dataclass(frozen=True, slots=True)
class CredentialProof:
    """An application credential by id, or by its name and its user (by id, or by name and domain), and the secret."""

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
"""``default``: the user's default project if it is open."""


@dataclass(frozen=True, slots=True)
class AuthRequest:
    """What a client proves and what it wants."""

    methods: tuple[str, ...]
    scope: Scope
    client: Client
    password: PasswordProof | None = None
    token: str | None = None
    passcode: PasscodeProof | None = None
    application_credential: CredentialProof | None = None
    receipt: str | None = None
    """Of what was proved before, by requests that were not enough."""
    only_domain: str | None = None
    """No user or project of another domain counts: those who speak v2.0 know none."""


class SignedIn(NamedTuple):
    """A token that was issued, and what it is worth."""

    token: IssuedToken
    context: RequestContext


def authenticate(request: AuthRequest) -> SignedIn:
    """Return a token of what was asked for.

    1. Every proof is looked at; all have to be of one person.
    2. A passcode is used up.
    3. The methods, those of a given token and of a receipt included, have to be enough for the user (``mfa``).
    4. The scope is found; the session is written down; a use of a trust is counted; the token is issued.

    Raises NotAuthenticatedError, the same for every reason: a proof that is wrong, proofs of two people, a scope that
    is unknown, closed or without a role for the user; PasswordExpiredError, TooManyAttemptsError and MoreMethodsError,
    which are such too; ForbiddenError when the token of an application or EC2 credential is to be for something else,
    or that for the system for a project or a domain, for every token that is asked for with the token of a trust, and
    for a trust that is not the user's or whose roles are no longer there.  A token that was got by a token ends no
    later than that one.
    """
    parent = token_data(request.token) if request.token is not None else None
    if parent is not None and parent.trust is not None:
        raise ForbiddenError("The token of a trust gets no other token. Ask for one with the trust itself.")
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
    """Return the methods proved now and before, which are enough with those of the given token.

    Raises MoreMethodsError, and plain NotAuthenticatedError where nothing was proved that a receipt stands for.
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
    """Return who signs in at a form, and by which methods; errors as of ``authenticate``."""
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
    """Return whom all proofs are of, and the step of a passcode; between two of them the password may not change."""
    found: list[User] = []
    step: int | None = None
    if parent is not None:
        found.append(existing(User, parent.user_id.hex))
    if credential is not None:
        found.append(credential.user)
    if request.password is not None:
        proof = request.password
        found.append(
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
        found.append(user)
    if len({(user.id, user.tokens_valid_after) for user in found}) != 1:
        raise NotAuthenticatedError(REFUSED)
    return found[-1], step


def _credential(request: AuthRequest) -> ApplicationCredential | None:
    """Return the application credential whose secret was given; it has a scope of its own and takes no other."""
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
    user: User, asked: Scope, parent: TokenData | None, credential: ApplicationCredential | None
) -> tokens.Scope:
    if parent is not None and (parent.application_credential is not None or EC2_METHOD in parent.methods):
        return _scope_of_credential(asked, parent, credential)
    if credential is not None:
        return credential.project
    if parent is not None and parent.system and isinstance(asked, ProjectScope | DomainScope):
        raise ForbiddenError("The token for the system gets none for a project or a domain.")
    if asked in {"unscoped", "system"}:
        return None if asked == "unscoped" else "system"
    if asked == "default":
        project = by_id(Project, user.default_project_id)
        return project if project is not None and may_enter(user, project) else None
    found: tokens.Scope = None
    if isinstance(asked, ProjectScope):
        found = record_by(
            Project,
            record_id=asked.project_id,
            name=asked.name,
            domain_id=asked.domain_id,
            domain_name=asked.domain_name,
        )
    elif isinstance(asked, DomainScope):
        found = record_by(Domain, record_id=asked.domain_id, name=asked.name)
    elif isinstance(asked, TrustScope):
        found = _trust(user, asked)
    if found is None:
        raise NotAuthenticatedError(REFUSED)
    return found


def _trust(user: User, asked: TrustScope) -> Trust | None:
    """Return the trust while it can be used and its project is open; ForbiddenError unless the user is the trustee."""
    found = trust_by(asked.trust_id)
    if found is None or (found.project is not None and not (found.project.enabled and found.project.domain.enabled)):
        return None
    if found.trustee_id != user.id:
        raise ForbiddenError("User is not a trustee.")
    return found


def _scope_of_credential(asked: Scope, parent: TokenData, credential: ApplicationCredential | None) -> tokens.Scope:
    """Return the project of the credential that ``parent`` came from: there is no way out of it."""
    project = by_id(Project, parent.project_id)
    same = (
        isinstance(asked, ProjectScope)
        and project is not None
        and project
        == record_by(
            Project,
            record_id=asked.project_id,
            name=asked.name,
            domain_id=asked.domain_id,
            domain_name=asked.domain_name,
        )
    )
    if credential is not None and credential.id != parent.application_credential:
        raise NotAuthenticatedError(REFUSED)
    if asked != "default" and not same:
        raise ForbiddenError("The token of a credential is for its project and cannot be rescoped.")
    return project
