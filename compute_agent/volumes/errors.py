"""Errors of volumes and pools. The messages are shown to users."""

from compute_agent.virt.errors import HostError, RetryableHostError


class VolumeNotFoundError(HostError):
    """The pool has no such volume or snapshot."""

    code = "volume_not_found"

    def __init__(self, what: str = "volume") -> None:
        super().__init__(f"The {what} is no longer in its pool.")


class VolumeInUseError(RetryableHostError):
    """The volume is open on another host, or in another daemon."""

    code = "volume_in_use"


class PoolUnavailableError(RetryableHostError):
    """The pool cannot be reached, is full, or its programs are missing."""

    code = "pool_unavailable"


class NotExportedError(HostError):
    """The host cannot export the volume in the requested way."""

    code = "not_exported"


class CopyFailedError(RetryableHostError):
    """The volume's data could not be copied."""

    code = "copy_failed"


class NoSpaceError(CopyFailedError):
    """There is no space for the data on the side that receives it."""
