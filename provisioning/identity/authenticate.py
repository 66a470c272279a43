"""Signing in as the Identity API knows it: by password, by token or by both, for a project or for none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity import selectors, services
from provisioning.identity.errors import REFUSED
from provisioning.identity.models import Project, User
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
class ProjectScope:
    """A project by id, or by name and domain."""

    project_id: str | None = None
    name: str | None = None
    domain_id: str | None = None
    domain_name: str | None = None


Scope = ProjectScope | Literal["unscoped", "default", "impossible"]
"""``default``: the user's default project if it is open; ``impossible``: a scope on which nobody has a role."""


@dataclass(frozen=True, slots=True)
class AuthRequest:
    """What a client proves and what it wants; ``source`` is its address."""

    methods: tuple[str, ...]
    scope: Scope
    source: str
    password: PasswordProof | None = None
    token: str | None = None


def authenticate(request: AuthRequest) -> IssuedToken:
    """Return a token of what was asked for.

    Raises NotAuthenticatedError, the same for every reason: a proof that is wrong, proofs of two people, a project that
    is unknown, closed or without a role for the user.  A token that was got by a token ends no later than that one.
    """
    user: User | None = None
    parent: TokenData | None = None
    if request.token is not None:
        parent = selectors.token_data(request.token)
        user = selectors.existing_user(parent.user_id.hex)
    if request.password is not None:
        proof = request.password
        known = services.authenticate_password(
            user_id=proof.user_id,
            user_name=proof.user_name,
            domain_id=proof.domain_id,
            domain_name=proof.domain_name,
            password=proof.password,
            source=request.source,
        )
        if user is not None and user.id != known.id:
            raise NotAuthenticatedError(REFUSED)
        user = known
    if user is None:
        raise NotAuthenticatedError(REFUSED)
    return services.issue_token(user, _project(user, request.scope), request.methods, parent=parent)


def _project(user: User, scope: Scope) -> Project | None:
    if scope == "unscoped":
        return None
    if scope == "default":
        return next((each for each in selectors.projects_of(user.id) if each.id == user.default_project_id), None)
    found = None
    if isinstance(scope, ProjectScope):
        found = selectors.project_by(
            project_id=scope.project_id, name=scope.name, domain_id=scope.domain_id, domain_name=scope.domain_name
        )
    if found is None:
        raise NotAuthenticatedError(REFUSED)
    return found
