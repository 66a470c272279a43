"""Errors of RBAC policies, with Neutron's names and messages."""

from provisioning.common.errors import ConflictError, NotFoundError


class RbacPolicyNotFoundError(NotFoundError):
    """The policy does not exist or is not visible to the caller."""


class RbacPolicyInUseError(ConflictError):
    """Another project uses what the policy shares with it."""


class DuplicateRbacPolicyError(ConflictError):
    """An equal policy already exists."""
