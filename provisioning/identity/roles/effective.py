"""The effective roles of tokens and users: direct, by groups, inherited and implied.

Each function runs one SQL statement, the same for SQLite and PostgreSQL. Results are not cached between requests,
because a revocation must take effect with the next request.
"""

# ruff: noqa: S608 - the statements consist of the constants below, and all values are parameters

import uuid
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection

from provisioning.common.database.repeated import Repeated
from provisioning.identity.tokens.tokens import TokenData

_MINE = """
    mine(role_id, project_id, domain_id, system, inherited) AS (
        SELECT a.role_id, a.project_id, a.domain_id, a.system, a.inherited
            FROM identity_roleassignment a WHERE a.user_id = %(user)s
        UNION ALL
        SELECT a.role_id, a.project_id, a.domain_id, a.system, a.inherited
            FROM identity_groupmembership m JOIN identity_roleassignment a ON a.group_id = m.group_id
            WHERE m.user_id = %(user)s)
"""
"""The role assignments of a user. It has two SELECTs, so that each can use an index."""

_LINEAGE = """
    lineage(id, parent_id, domain_id) AS (
        SELECT id, parent_id, domain_id FROM identity_project WHERE id = %(project)s
        UNION
        SELECT p.id, p.parent_id, p.domain_id FROM identity_project p JOIN lineage l ON p.id = l.parent_id)
"""
_ON_PROJECT = """
    (a.project_id = %(project)s AND a.inherited = FALSE)
        OR (a.inherited AND (
            a.domain_id IN (SELECT domain_id FROM lineage)
            OR a.project_id IN (SELECT parent_id FROM lineage)))
"""
_GRANTED = {
    "project": f"""
        {_LINEAGE}, {_MINE}, granted(role_id) AS (SELECT a.role_id FROM mine a WHERE {_ON_PROJECT})
    """,
    "domain": f"""
        {_MINE},
        granted(role_id) AS (SELECT a.role_id FROM mine a WHERE a.domain_id = %(domain)s AND a.inherited = FALSE)
    """,
    "system": f"""
        {_MINE},
        granted(role_id) AS (SELECT a.role_id FROM mine a WHERE a.system)
    """,
}
"""Scope → the assigned roles; an inherited assignment only applies below its target."""

_IMPLIED = """
    effective(role_id) AS (
        SELECT role_id FROM granted
        UNION
        SELECT i.implied_id FROM identity_impliedrole i JOIN effective e ON i.prior_id = e.role_id)
"""

_OPEN_USER = """
    FROM identity_user u JOIN identity_domain ud ON ud.id = u.domain_id AND ud.enabled
"""
_SCOPE = {
    "project": """
        JOIN identity_project s ON s.id = %(project)s AND s.enabled
        JOIN identity_domain sd ON sd.id = s.domain_id AND sd.enabled
    """,
    "domain": """
        JOIN identity_domain s ON s.id = %(domain)s AND s.enabled
    """,
}
_ROLES = """
    JOIN effective e ON TRUE JOIN identity_role r ON r.id = e.role_id AND r.domain_id IS NULL
"""
_ENABLED_USER = """
    WHERE u.id = %(user)s AND u.enabled
"""
_SINCE_USER_CHANGE = "AND (u.tokens_valid_after IS NULL OR u.tokens_valid_after <= %(issued)s)"
_SINCE_SCOPE_CHANGE = "AND (s.tokens_valid_after IS NULL OR s.tokens_valid_after <= %(issued)s)"
_IN_SESSION = "AND EXISTS (SELECT 1 FROM identity_signin WHERE id = %(sign_in)s)"

_PEDIGREE = f"""
    pedigree(id, parent_id, trustor_id, trustee_id) AS (
        SELECT id, redelegated_from_id, trustor_id, trustee_id FROM identity_trust WHERE id = %(trust)s
        UNION
        SELECT t.id, t.redelegated_from_id, t.trustor_id, t.trustee_id
            FROM identity_trust t JOIN pedigree p ON t.id = p.parent_id),
    origin(trustor_id) AS (SELECT trustor_id FROM pedigree WHERE parent_id IS NULL),
    {_LINEAGE},
    given(user_id, role_id, project_id, domain_id, inherited) AS (
        SELECT a.user_id, a.role_id, a.project_id, a.domain_id, a.inherited
            FROM identity_roleassignment a WHERE a.user_id IN (SELECT trustor_id FROM origin)
        UNION ALL
        SELECT m.user_id, a.role_id, a.project_id, a.domain_id, a.inherited
            FROM identity_groupmembership m JOIN identity_roleassignment a ON a.group_id = m.group_id
            WHERE m.user_id IN (SELECT trustor_id FROM origin)),
    held(user_id, role_id) AS (
        SELECT a.user_id, a.role_id FROM given a WHERE {_ON_PROJECT}
        UNION
        SELECT h.user_id, i.implied_id FROM identity_impliedrole i JOIN held h ON i.prior_id = h.role_id),
    granted(role_id) AS (SELECT role_id FROM identity_trustrole WHERE trust_id = %(trust)s),
    {_IMPLIED}
"""
"""A trust with the trusts it was redelegated from, the roles of the first trustor, and the roles of the trust."""
_STANDING = """
    AND NOT EXISTS (
        SELECT 1 FROM pedigree p JOIN identity_user a ON a.id = p.trustor_id OR a.id = p.trustee_id
            JOIN identity_domain d ON d.id = a.domain_id
            WHERE a.enabled = FALSE OR d.enabled = FALSE OR a.tokens_valid_after > %(issued)s)
    AND NOT EXISTS (
        SELECT 1 FROM effective e WHERE NOT EXISTS (SELECT 1 FROM held h WHERE h.role_id = e.role_id))
"""
"""Conditions: every trustor and trustee in the chain is enabled, no trustor or trustee has invalidated earlier tokens
since this token was issued, and the first trustor has all roles of the trust, as in Keystone. A deleted role counts as
missing.
"""


class TokenSubject(NamedTuple):
    """The data of a valid token's user and scope."""

    user_name: str
    user_domain_id: str
    scope_name: str
    scope_domain_id: str
    roles: frozenset[str]
    """Names, including implied roles; empty for a token without a scope."""


def token_subject(data: TokenData) -> TokenSubject | None:
    """Return the user, scope and roles of a token, or None if it is not valid.

    A token is not valid if it was revoked, its session was ended, its user, project or domain is disabled or deleted,
    the password was changed after it was issued, or the user has no role in the scope. Application credentials are not
    checked (``credentials.limits_of``).
    """
    scope = "project" if data.project_id else "domain" if data.domain_id else "system" if data.system else ""
    named = "s.name, s.domain_id" if scope == "project" else "s.name, s.id" if scope == "domain" else "'', ''"
    revoked = ", ".join(f"%(chain{number})s" for number in range(len(data.chain)))
    valid = f"{_SINCE_USER_CHANGE} {_SINCE_SCOPE_CHANGE if scope in _SCOPE else ''}"
    session = _IN_SESSION if data.sign_in else ""
    statement = (
        (f"WITH RECURSIVE {_GRANTED[scope]}, {_IMPLIED} " if scope else "")
        + f"SELECT u.name, u.domain_id, {named}, {'r.name' if scope else 'NULL'} "
        + f"{_OPEN_USER} {_SCOPE.get(scope, '')} {_ROLES if scope else ''} {_ENABLED_USER} {valid} {session} "
        + f"AND NOT EXISTS (SELECT 1 FROM identity_revokedtoken WHERE audit_id IN ({revoked}))"
    )
    rows = _rows(statement, **_parameters(data))
    if not rows:
        return None
    user_name, user_domain_id, scope_name, scope_domain_id, _ = rows[0]
    roles = frozenset(row[4] for row in rows if row[4] is not None)
    return TokenSubject(user_name, user_domain_id, scope_name, scope_domain_id, roles)


class TrustSubject(NamedTuple):
    """The data of a valid token of a trust."""

    user_id: uuid.UUID
    """The trustor if the trust allows impersonation, otherwise the trustee."""
    subject: TokenSubject


def trust_subject(data: TokenData) -> TrustSubject | None:
    """As ``token_subject``, for a token of a trust.

    Also returns None if the trust was deleted, if its trustee is another user, if a trustor or trustee in the chain of
    redelegations is disabled, deleted or has changed the password, or if the first trustor has lost a role of the
    trust.
    """
    named = "s.name, s.domain_id" if data.project_id else "'', ''"
    revoked = ", ".join(f"%(chain{number})s" for number in range(len(data.chain)))
    statement = f"""
        WITH RECURSIVE {_PEDIGREE}
        SELECT u.name, u.domain_id, {named}, r.name, u.id
        FROM identity_trust t
            JOIN identity_user u ON u.id = CASE WHEN t.impersonation THEN t.trustor_id ELSE t.trustee_id END
            {_SCOPE["project"] if data.project_id else ""}
            LEFT JOIN effective e ON TRUE LEFT JOIN identity_role r ON r.id = e.role_id AND r.domain_id IS NULL
        WHERE t.id = %(trust)s AND t.trustee_id = %(user)s
            AND t.project_id {"= %(project)s" if data.project_id else "IS NULL"}
            {_STANDING} {_SINCE_SCOPE_CHANGE if data.project_id else ""} {_IN_SESSION if data.sign_in else ""}
            AND NOT EXISTS (SELECT 1 FROM identity_revokedtoken WHERE audit_id IN ({revoked}))
    """
    rows = _rows(statement, trust=_id(data.trust), **_parameters(data))
    roles = frozenset(row[4] for row in rows if row[4] is not None)
    if not rows or (data.project_id is not None and not roles):
        return None
    user_name, user_domain_id, scope_name, scope_domain_id, _, user_id = rows[0]
    return TrustSubject(_read(user_id), TokenSubject(user_name, user_domain_id, scope_name, scope_domain_id, roles))


def _parameters(data: TokenData) -> dict[str, Any]:
    """Return the values of a token as parameters of a statement."""
    return {
        "user": _id(data.user_id),
        "project": _id(data.project_id),
        "domain": data.domain_id,
        "sign_in": _id(data.sign_in),
        "issued": connection.ops.adapt_datetimefield_value(data.issued_at),
        **{f"chain{number}": audit_id for number, audit_id in enumerate(data.chain)},
    }


def role_names(
    user_id: uuid.UUID, *, project_id: uuid.UUID | None = None, domain_id: str | None = None, system: bool = False
) -> frozenset[str]:
    """Return the names of the user's roles on a project, a domain or the system, including implied roles.

    Empty if the user, the target or one of their domains is disabled or deleted.
    """
    scope = "project" if project_id else "domain" if domain_id else "system" if system else ""
    if not scope:
        return frozenset()
    statement = (
        f"WITH RECURSIVE {_GRANTED[scope]}, {_IMPLIED} SELECT r.name {_OPEN_USER} {_SCOPE.get(scope, '')} {_ROLES}"
        f" {_ENABLED_USER}"
    )
    rows = _rows(statement, user=_id(user_id), project=_id(project_id), domain=domain_id)
    return frozenset(row[0] for row in rows)


def role_ids(user_id: uuid.UUID, project_id: uuid.UUID) -> frozenset[uuid.UUID]:
    """As ``role_names`` on a project, but returns ids, including the ids of domain-specific roles."""
    statement = (
        f"WITH RECURSIVE {_GRANTED['project']}, {_IMPLIED} SELECT e.role_id {_OPEN_USER} {_SCOPE['project']}"
        f" JOIN effective e ON TRUE {_ENABLED_USER}"
    )
    return frozenset(_read(row[0]) for row in _rows(statement, user=_id(user_id), project=_id(project_id)))


class Restrictions(NamedTuple):
    """The restrictions of an application credential's tokens."""

    user_id: uuid.UUID
    project_id: uuid.UUID
    unrestricted: bool
    roles: frozenset[str]
    """Names, including implied roles."""
    access_rules: tuple[tuple[str, str, str], ...]
    """(service, method, path pattern); empty: all requests are allowed."""


def held_to(credential_id: uuid.UUID, now: datetime) -> Restrictions | None:
    """Return the restrictions of an application credential, or None if it was deleted or has expired."""
    statement = f"""
        WITH RECURSIVE record(id, user_id, project_id, unrestricted) AS (
            SELECT id, user_id, project_id, unrestricted FROM identity_applicationcredential
            WHERE id = %(credential)s AND (expires_at IS NULL OR expires_at > %(now)s)),
        granted(role_id) AS (
            SELECT g.role_id FROM identity_applicationcredential_roles g
            JOIN record ON g.applicationcredential_id = record.id),
        {_IMPLIED}
        SELECT user_id, project_id, unrestricted, NULL, NULL, NULL, NULL FROM record
        UNION ALL
        SELECT NULL, NULL, NULL, r.name, NULL, NULL, NULL FROM effective e
            JOIN identity_role r ON r.id = e.role_id AND r.domain_id IS NULL
        UNION ALL
        SELECT NULL, NULL, NULL, NULL, a.service, a.method, a.path FROM record
            JOIN identity_applicationcredential_access_rules g ON g.applicationcredential_id = record.id
            JOIN identity_accessrule a ON a.id = g.accessrule_id
    """
    rows = _rows(statement, credential=_id(credential_id), now=connection.ops.adapt_datetimefield_value(now))
    record = next((row for row in rows if row[0] is not None), None)
    if record is None:
        return None
    user_id, project_id = map(_read, record[:2])
    return Restrictions(
        user_id,
        project_id,
        bool(record[2]),
        frozenset(row[3] for row in rows if row[3] is not None),
        tuple(sorted(row[4:] for row in rows if row[4] is not None)),
    )


def _rows(statement: str, **values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(Repeated(statement), values)
        return list(cursor.fetchall())


def _id(value: uuid.UUID | None) -> Any:
    return None if value is None else (value if connection.features.has_native_uuid_field else value.hex)


def _read(value: Any) -> uuid.UUID:
    return value if isinstance(value, uuid.UUID) else uuid.UUID(value)
