"""What a rule is, and the checks that many rules share."""

from dataclasses import dataclass

READER = "role:reader"
MEMBER = "role:member"
ADMIN = "rule:context_is_admin"
"""Nova's, Glance's and Neutron's name for who operates the cloud; Keystone calls it ``admin_required``."""
MANAGER = "rule:context_is_admin or role:manager"
"""Who may move servers of the own project, and sees that they are."""
SERVICE = "rule:service_or_admin"
"""Other services, which tell and ask what no person does."""
CLOUD_ADMIN = "rule:admin_required"
ANYBODY = "@"
CLOUD_ADMIN_OR_SYSTEM_READER = "rule:admin_required or (role:reader and system_scope:all)"
"""Who operates the cloud, and who may look at all of it: the role ``reader`` on the system."""
ADMIN_OR_USER = "rule:admin_required or user_id:%(user_id)s"
ADMIN_OR_DOMAIN_ADMIN = "rule:admin_required or rule:domain_admin"
ADMIN_OR_DOMAIN_MANAGER = f"{ADMIN_OR_DOMAIN_ADMIN} or rule:domain_manager"
SEES_DOMAIN = f"{CLOUD_ADMIN_OR_SYSTEM_READER} or rule:domain_admin or rule:domain_reader"
"""Who may look at what is in the object's domain."""

PROJECT = ("project",)
"""Scope of rules about what a project owns: tokens for a domain or for the system are refused there."""
EVERY_SCOPE = ("system", "domain", "project", "unscoped")

Operation = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its check in oslo.policy's language and a sentence for operators.

    ``operations`` (method, path) are those that no view of the APIs names it for: what it guards within an operation,
    and what it guards outside of the APIs.
    """

    name: str
    check: str
    description: str
    operations: tuple[Operation, ...] = ()
    scopes: tuple[str, ...] = PROJECT


def rule(name: str, check: str, description: str, *operations: str, scopes: tuple[str, ...] = PROJECT) -> Rule:
    """Make a rule; an operation is written ``GET /servers``."""
    pairs = tuple((method, path) for method, _, path in (text.partition(" ") for text in operations))
    return Rule(name, check, description, pairs, scopes)


def identity_rule(name: str, check: str, description: str, *operations: str) -> Rule:
    """Make a rule of the Identity API, which tokens of every scope may use."""
    return rule(name, check, description, *operations, scopes=EVERY_SCOPE)
