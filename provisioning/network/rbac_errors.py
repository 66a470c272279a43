"""What can go wrong with sharing, by Neutron's names and in its sentences."""

from provisioning.common.errors import ConflictError, NotFoundError


class RbacPolicyNotFoundError(NotFoundError):
    """No such policy, or not the caller's."""


class RbacPolicyInUseError(ConflictError):
    """Another project uses what the policy shares with it."""


class DuplicateRbacPolicyError(ConflictError):
    """There is a policy that says the same."""
