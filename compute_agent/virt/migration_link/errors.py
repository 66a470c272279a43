"""Errors of live migrations."""

from compute_agent.virt.errors import HostError, RetryableHostError


class MigrationFailedError(RetryableHostError):
    """The migration failed; the guest continues at its source."""

    code = "migration_failed"


class MigrationUndecidedError(HostError):
    """The connection ended while the other host started the guest."""

    code = "migration_undecided"
