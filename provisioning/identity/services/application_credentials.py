"""Application credentials: secrets with which programs act for a user in one project, and their access rules."""

import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict, Unpack

from django.db import IntegrityError, transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError
from provisioning.common.values.text import has_control_characters
from provisioning.identity.credentials import secret_hashes
from provisioning.identity.models import AccessRule, ApplicationCredential, Project, Role, User
from provisioning.identity.records.conflicts import conflict_as
from provisioning.identity.records.owner_locks import lock_rows
from provisioning.identity.roles import effective
from provisioning.identity.selectors.lookups import role_records
from provisioning.identity.tokens import announce

MOST_OF_USER = 500
"""Maximum number of application credentials of one user."""
MOST_RULES = 100
"""Maximum number of access rules of one application credential."""
MOST_RULES_OF_USER = 1000
"""Maximum number of access rules of one user; unused rules are deleted when a new rule would exceed it."""
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_SERVICE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class RequestPattern:
    """A service type, an HTTP method, and a path with the wildcards ``*``, ``**`` and ``{name}``."""

    service: str
    method: str
    path: str


class Options(TypedDict, total=False):
    """Optional attributes of an application credential."""

    roles: Iterable[Role] | None
    """None: all roles of the user on the project."""
    secret: str | None
    """None: a secret is generated."""
    description: str
    expires_at: datetime | None
    unrestricted: bool
    access_rules: Iterable[AccessRule | RequestPattern]
    """Empty: all requests are allowed."""
    caller: RequestContext | None
    """The caller, whose token limits the roles and access rules of the new credential."""


@when_broken_off
@conflict_as("The user, the project or a role was deleted in the meantime.", NotFoundError)
def create_application_credential(
    user: User, project: Project, name: str, **options: Unpack[Options]
) -> tuple[ApplicationCredential, str]:
    """Create an application credential; return it with its secret, which cannot be read again.

    Raises InvalidInputError naming the field.  Raises ForbiddenError if the caller's token may not create one or the
    user has too many.  Raises ConflictError if the name exists.
    """
    caller = options.get("caller")
    if caller is not None:
        refuse_trusts(caller)
        check_manages(caller)
    _check_texts(name, options)
    roles = _roles(user, project, options.get("roles"), caller)
    rules = _access_rules(user, options.get("access_rules", ()))
    _check_within(rules, caller)
    if ApplicationCredential.objects.filter(user=user).count() >= MOST_OF_USER:
        raise ForbiddenError(
            f"You have {MOST_OF_USER} application credentials, which is the maximum. Delete some first."
        )
    secret = options.get("secret") or secret_hashes.draw()
    record = ApplicationCredential(
        user=user,
        project=project,
        name=name,
        description=options.get("description", ""),
        secret_hash=secret_hashes.hash_of(secret),
        unrestricted=options.get("unrestricted", False),
        expires_at=options.get("expires_at"),
    )
    try:
        with transaction.atomic():
            record.save(force_insert=True)
    except IntegrityError as error:
        raise ConflictError(f"You already have an application credential named {name}.", field="name") from error
    record.roles.set(roles)
    record.access_rules.set(rules)
    return record, secret


@when_broken_off
@transaction.atomic
def delete_application_credential(record: ApplicationCredential, *, caller: RequestContext | None = None) -> None:
    """Delete an application credential with its tokens, sessions, and the EC2 credentials created with it."""
    if caller is not None:
        check_manages(caller)
    user_id = record.user_id
    record.delete()
    announce.revoked(user_id=user_id)


@when_broken_off
@transaction.atomic
def delete_access_rule(rule: AccessRule, *, caller: RequestContext | None = None) -> None:
    """Delete an access rule.  Raises ForbiddenError if an application credential uses it."""
    if caller is not None:
        check_manages(caller)
    lock_rows(AccessRule, [rule.pk], no_key=False)  # blocks new uses of the rule, which would be deleted with it
    if rule.applicationcredential_set.exists():
        raise ForbiddenError("The access rule is in use. Delete the application credentials that have it first.")
    rule.delete()


def check_secret(record: ApplicationCredential | None, secret: str) -> bool:
    """Return whether the secret is correct. None (a missing credential) takes the same work.

    Does not check the expiry, which ``selectors.limits_of`` checks at each use of a token.
    """
    return secret_hashes.matches(secret, record.secret_hash if record is not None else None)


def check_manages(caller: RequestContext) -> None:
    """Raise ForbiddenError for the token of an application credential that is not unrestricted."""
    if caller.application_credential_id is not None and not caller.unrestricted:
        raise ForbiddenError("This application credential may not manage credentials: it is not unrestricted.")


def refuse_trusts(caller: RequestContext) -> None:
    """Raise ForbiddenError for the token of a trust, because the new credential would outlive the trust."""
    if caller.trust_id is not None:
        raise ForbiddenError("Cannot manage application credentials with a token issued via delegation.")


def _check_texts(name: str, options: Options) -> None:
    secret, expires_at = options.get("secret"), options.get("expires_at")
    if not name.strip() or len(name) > 255 or has_control_characters(name):
        raise InvalidInputError(
            "The name must have 1 to 255 characters, none of them a control character.", field="name"
        )
    if len(options.get("description", "")) > 65_535 or "\0" in options.get("description", ""):
        raise InvalidInputError("The description must have at most 65535 characters.", field="description")
    if secret is not None and not 0 < len(secret) <= secret_hashes.LONGEST:
        raise InvalidInputError(f"The secret must have 1 to {secret_hashes.LONGEST} characters.", field="secret")
    if expires_at is not None and expires_at <= timezone.now():
        raise InvalidInputError("The time of expiry must be in the future.", field="expires_at")


def _roles(user: User, project: Project, requested: Iterable[Role] | None, caller: RequestContext | None) -> list[Role]:
    """Return the roles of the new credential; both user and caller must have them on the project."""
    held = effective.role_names(user.id, project_id=project.id)
    if caller is not None:
        held &= caller.roles if caller.project_id == project.id else frozenset()
    roles = role_records(held) if requested is None else list({role.id: role for role in requested}.values())
    if not roles:
        raise InvalidInputError("An application credential needs a role that you have on the project.", field="roles")
    for role in roles:
        if role.domain_id is not None or role.name not in held:
            raise InvalidInputError(f"You do not have the role {role.name} on the project.", field="roles")
    return roles


def _access_rules(user: User, requested: Iterable[AccessRule | RequestPattern]) -> list[AccessRule]:
    """Return the user's access rules for these patterns; rules that do not exist are created."""
    result: dict[object, AccessRule] = {}
    for each in requested:
        if isinstance(each, AccessRule):
            if each.user_id != user.id:
                raise NotFoundError(f"Could not find access rule: {each.id.hex}.")
            rule = each
        else:
            rule = _rule_of(user, each, [rule.pk for rule in result.values()])
        result[rule.id] = rule
        if len(result) > MOST_RULES:
            raise InvalidInputError(f"There may be at most {MOST_RULES} access rules.", field="access_rules")
    return list(result.values())


def _rule_of(user: User, pattern: RequestPattern, rule_ids: Sequence[uuid.UUID]) -> AccessRule:
    """Return the user's rule for this pattern; it is created if it does not exist.

    If the user has too many rules, unused rules are deleted first, except those with ``rule_ids``.
    """
    _check_pattern(pattern)
    mine = AccessRule.objects.filter(user=user)
    known = mine.filter(service=pattern.service, method=pattern.method, path=pattern.path).first()
    if known is not None:
        return known
    if mine.count() >= MOST_RULES_OF_USER:
        _remove_unused(user, rule_ids)
        if mine.count() >= MOST_RULES_OF_USER:
            raise ForbiddenError(
                f"You have {MOST_RULES_OF_USER} access rules in use, which is the maximum. Delete application"
                " credentials first."
            )
    return AccessRule.objects.get_or_create(
        user=user, service=pattern.service, method=pattern.method, path=pattern.path
    )[0]


@transaction.atomic
def _remove_unused(user: User, rule_ids: Sequence[uuid.UUID]) -> None:
    """Delete the user's rules that no application credential uses, except those with ``rule_ids``."""
    mine = AccessRule.objects.filter(user=user).exclude(pk__in=rule_ids)
    lock_rows(AccessRule, list(mine.filter(applicationcredential=None).values_list("pk", flat=True)), no_key=False)
    unused = list(mine.filter(applicationcredential=None).values_list("pk", flat=True))
    AccessRule.objects.filter(pk__in=unused).delete()


def _check_pattern(pattern: RequestPattern) -> None:
    if not _SERVICE.fullmatch(pattern.service):
        raise InvalidInputError("The service must be a service type, such as compute.", field="service")
    if pattern.method not in METHODS:
        raise InvalidInputError(f"The method must be one of {', '.join(METHODS)}.", field="method")
    if not pattern.path.startswith("/") or len(pattern.path) > 128 or "\0" in pattern.path:
        raise InvalidInputError("The path must begin with / and have at most 128 characters.", field="path")


def _check_within(rules: Sequence[AccessRule], caller: RequestContext | None) -> None:
    """Raise ForbiddenError if a caller with access rules would create a credential without rules, or with other
    rules.
    """
    if caller is None or caller.access_rules is None:
        return
    if not rules or any((rule.service, rule.method, rule.path) not in caller.access_rules for rule in rules):
        raise ForbiddenError("This application credential may only pass on its own access rules.")
