"""The class of rules, and checks that many rules share."""

from dataclasses import dataclass

READER = "role:reader"
MEMBER = "role:member"
ADMIN = "rule:context_is_admin"
"""The name for operators of the cloud in Nova, Glance and Neutron; Keystone's is ``admin_required``."""
MANAGER = "rule:context_is_admin or role:manager"
"""Users who may migrate servers of their own project, and see these migrations."""
SERVICE = "rule:service_or_admin"
"""Other services of the cloud, for operations that are not available to users."""
CLOUD_ADMIN = "rule:admin_required"
ANYBODY = "@"
CLOUD_ADMIN_OR_SYSTEM_READER = "rule:admin_required or (role:reader and system_scope:all)"
"""Operators, and users with the role ``reader`` on the system."""
ADMIN_OR_USER = "rule:admin_required or user_id:%(user_id)s"
ADMIN_OR_DOMAIN_ADMIN = "rule:admin_required or rule:domain_admin"
ADMIN_OR_DOMAIN_MANAGER = f"{ADMIN_OR_DOMAIN_ADMIN} or rule:domain_manager"
SEES_DOMAIN = f"{CLOUD_ADMIN_OR_SYSTEM_READER} or rule:domain_admin or rule:domain_reader"
"""Users who may see the contents of the object's domain."""

PROJECT = ("project",)
"""The scope of rules about resources of projects: domain and system tokens are denied."""
EVERY_SCOPE = ("system", "domain", "project", "unscoped")

Operation = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its check in the language of oslo.policy, and a description for operators.

    ``operations`` (method, path) are only set for rules to which no view of an API refers: rules for a part of an
    operation, and for pages outside the APIs.
    """

    name: str
    check: str
    description: str
    operations: tuple[Operation, ...] = ()
    scopes: tuple[str, ...] = PROJECT


def rule(name: str, check: str, description: str, *operations: str, scopes: tuple[str, ...] = PROJECT) -> Rule:
    """Create a rule; an operation is written ``GET /servers``."""
    pairs = tuple((method, path) for method, _, path in (text.partition(" ") for text in operations))
    return Rule(name, check, description, pairs, scopes)


def identity_rule(name: str, check: str, description: str, *operations: str) -> Rule:
    """Create a rule of the Identity API, which tokens of every scope may use."""
    return rule(name, check, description, *operations, scopes=EVERY_SCOPE)
