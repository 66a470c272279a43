"""Trusts: a user delegates some of their roles in one project to another user (OS-TRUST of Keystone)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Case, F, Value, When
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError
from provisioning.identity.models import Project, Role, Trust, TrustRole, User
from provisioning.identity.records.conflicts import conflict_as
from provisioning.identity.roles import effective
from provisioning.identity.selectors.credentials import existing_trust, roles_of_trust
from provisioning.identity.selectors.lookups import existing
from provisioning.identity.services.checks import merged
from provisioning.identity.tokens import announce

MOST_OF_USER = 1000
"""Maximum number of trusts of one trustor."""


@dataclass(frozen=True, slots=True)
class TrustRequest:
    """The parameters of a new trust."""

    trustee: User
    impersonation: bool
    project: Project | None = None
    roles: Sequence[Role] = ()
    expires_at: datetime | None = None
    remaining_uses: int | None = None
    allow_redelegation: bool = False
    redelegation_count: int | None = None
    """How many more times the new trust can be redelegated; None: the maximum."""
    redelegated_trust_id: str | None = None
    """None, or the id of the trust of the caller's token."""
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def is_redelegable(self) -> bool:
        return self.allow_redelegation and self.redelegation_count != 0


@when_broken_off
@conflict_as("A user, the project, a role or the trust before it was deleted in the meantime.", NotFoundError)
def create_trust(caller: RequestContext, request: TrustRequest) -> Trust:
    """Create a trust with the caller as trustor; with the token of a trust, redelegate that trust.

    Raises InvalidInputError naming the field, ForbiddenError for rights that cannot be delegated, NotFoundError for a
    role that the first trustor does not have on the project, ConflictError if the same trust with the same expiry
    exists.
    """
    refuse_application_credentials(caller)
    if request.project is not None and not request.roles:
        raise ForbiddenError("At least one role should be specified.")
    _check_limits(request)
    parent = _parent(caller, request)
    trustor = existing(User, caller.user_id.hex if caller.user_id else "")
    _check_held(_origin(parent) or trustor, request)
    if Trust.objects.filter(trustor=trustor).count() >= MOST_OF_USER:
        raise ForbiddenError(f"You have created {MOST_OF_USER} trusts, which is the maximum. Delete some first.")
    trust = Trust(
        trustor=trustor,
        trustee=request.trustee,
        project=request.project,
        impersonation=request.impersonation,
        expires_at=request.expires_at or (parent.expires_at if parent else None),
        remaining_uses=request.remaining_uses,
        redelegated_from=parent,
        redelegation_count=_depth(request, parent),
        extra=merged({}, request.extra),
    )
    try:
        with transaction.atomic():
            trust.save(force_insert=True)
    except IntegrityError as error:
        raise ConflictError("Conflict occurred attempting to store trust: the same trust already exists.") from error
    TrustRole.objects.bulk_create(TrustRole(trust=trust, role=role) for role in request.roles)
    return trust


@when_broken_off
@transaction.atomic
def delete_trust(trust: Trust, *, caller: RequestContext | None = None) -> None:
    """Delete a trust and its redelegations. Their tokens, and the credentials created with them, become invalid.

    Raises NotFoundError if it was already deleted. Raises ForbiddenError if the caller's token belongs to a trust that
    is neither this trust nor one from which it was redelegated.
    """
    if caller is not None:
        refuse_application_credentials(caller)
        _check_own(caller, trust)
    if not Trust.objects.filter(id=trust.id).delete()[0]:
        raise NotFoundError(f"Could not find trust: {trust.id.hex}.")
    announce.revoked(user_id=trust.trustee_id)


def use_trust(trust: Trust) -> None:
    """Count one use of the trust.  Raises ForbiddenError if none is left."""
    if trust.remaining_uses is None:
        return
    left = Trust.objects.filter(id=trust.id, remaining_uses__gt=0)
    last = Case(When(remaining_uses=1, then=Value(timezone.now())), default=None)
    if not left.update(remaining_uses=F("remaining_uses") - 1, used_up_at=last):
        raise ForbiddenError(f"No remaining uses for trust: {trust.id.hex}.")


def refuse_application_credentials(caller: RequestContext) -> None:
    """Raise ForbiddenError for the token of an application credential, also an unrestricted one, as in Keystone."""
    if caller.application_credential_id is not None:
        raise ForbiddenError("An application credential may neither see nor manage trusts.")


def _check_own(caller: RequestContext, trust: Trust) -> None:
    """Raise ForbiddenError if the caller's token belongs to a trust that is neither this trust nor one from which it
    was redelegated.
    """
    if caller.trust_id is None or caller.is_admin:
        return
    each: Trust | None = trust
    while each is not None and each.id != caller.trust_id:
        each = each.redelegated_from
    if each is None:
        raise ForbiddenError("The token of a trust can only delete that trust and its redelegations.")


def _check_limits(request: TrustRequest) -> None:
    if request.expires_at is not None and request.expires_at <= timezone.now():
        raise InvalidInputError("The 'expires_at' must not be before now.", field="expires_at")
    if not request.is_redelegable:
        return
    longest = settings.TRUST_REDELEGATIONS
    if (request.redelegation_count or 0) > longest:
        raise ForbiddenError(
            f"Requested redelegation depth of {request.redelegation_count} is greater than allowed {longest}."
        )
    if request.remaining_uses is not None:
        raise InvalidInputError("remaining_uses must not be set if redelegation is allowed.", field="remaining_uses")


def _parent(caller: RequestContext, request: TrustRequest) -> Trust | None:
    """Return the trust to redelegate, if any.  Raises ForbiddenError if it cannot be redelegated."""
    parent_id = request.redelegated_trust_id
    if caller.trust_id is None:
        if parent_id is not None:
            raise ForbiddenError("A trust can only be redelegated with its own token.")
        return None
    parent = existing_trust(caller.trust_id.hex)
    if parent_id is not None and parent_id.replace("-", "").lower() != parent.id.hex:
        raise ForbiddenError("Only the trust of the token can be redelegated.")
    if not 0 < parent.redelegation_count <= settings.TRUST_REDELEGATIONS:
        raise ForbiddenError(
            f"Remaining redelegation depth of {parent.redelegation_count} out of allowed range of "
            f"[0..{settings.TRUST_REDELEGATIONS}]."
        )
    _check_within(parent, request)
    return parent


def _check_within(parent: Trust, request: TrustRequest) -> None:
    """Raise ForbiddenError for rights that the parent trust does not have."""
    if request.remaining_uses is not None:
        raise ForbiddenError("remaining_uses must not be set in order to redelegate a trust.")
    if request.is_redelegable and request.redelegation_count not in {None, parent.redelegation_count - 1}:
        raise ForbiddenError('Modifying "redelegation_count" upon redelegation is forbidden. Leave it out.')
    if request.expires_at is not None and parent.expires_at is not None and request.expires_at > parent.expires_at:
        raise ForbiddenError("Requested expiration time is more than redelegated trust can provide.")
    if request.impersonation and not parent.impersonation:
        raise ForbiddenError("Impersonation is not allowed because the redelegated trust does not specify it.")
    if request.project != parent.project:
        raise ForbiddenError("A trust can only be redelegated for its project.")
    if not set(request.roles) <= set(roles_of_trust(parent)):
        raise ForbiddenError("Some of requested roles are not in redelegated trust.")


def _origin(trust: Trust | None) -> User | None:
    """Return the trustor of the first trust in the chain of redelegations, who must have the roles."""
    while trust is not None and trust.redelegated_from is not None:
        trust = trust.redelegated_from
    return trust.trustor if trust is not None else None


def _check_held(trustor: User, request: TrustRequest) -> None:
    """Raise NotFoundError for a role that the trustor does not have on the project, as for a role that does not
    exist.
    """
    held = effective.role_ids(trustor.id, request.project.id) if request.project is not None else frozenset()
    for role in request.roles:
        if role.id not in held:
            raise NotFoundError(f"Could not find role: {role.id.hex}.")


def _depth(request: TrustRequest, parent: Trust | None) -> int:
    if not request.is_redelegable:
        return 0
    if parent is not None:
        return parent.redelegation_count - 1
    longest: int = settings.TRUST_REDELEGATIONS
    return longest if request.redelegation_count is None else request.redelegation_count
