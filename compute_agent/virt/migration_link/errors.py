"""Errors of live migrations."""

from compute_agent.contract.migration import TIME_LIMIT, UNDECIDED
from compute_agent.virt.errors import HostError, RetryableHostError


class MigrationFailedError(RetryableHostError):
    """The migration failed; the guest continues at its source."""

    code = "migration_failed"


class DiskLostError(MigrationFailedError):
    """The guest has arrived, but a disk of it belongs to another host by now, or was deleted."""


class MigrationUndecidedError(HostError):
    """The connection ended while the other host started the guest."""

    code = UNDECIDED


class TimeLimitError(HostError):
    """The migration has reached its time limit; the guest continues at its source."""

    code = TIME_LIMIT
