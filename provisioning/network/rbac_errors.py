"""Errors of RBAC policies, with Neutron's names and messages."""

from provisioning.common.errors import ConflictError, NotFoundError


class RbacPolicyNotFoundError(NotFoundError):
    """No such policy, or not the caller's."""


class RbacPolicyInUseError(ConflictError):
    """Another project uses what the policy shares with it."""


class DuplicateRbacPolicyError(ConflictError):
    """An equal policy already exists."""
