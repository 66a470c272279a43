"""Errors of the host's side: fatal ones end the build, retryable ones send it to another host."""


class HostError(Exception):
    """Base: a failure on this host with a code for programs and a message fit for users (no paths, no host names, no
    addresses of the host).
    """

    code = "host_error"
    retryable = False

    def __init__(self, message: str, *, detail: str = "") -> None:
        """Keep ``message`` for the user and ``detail`` for the operator's log."""
        super().__init__(message)
        self.message = message
        self.detail = detail


class RetryableHostError(HostError):
    """Another host may do better: out of room, hypervisor not answering, network plumbing failed here."""

    code = "host_failed"
    retryable = True


class FatalBuildError(HostError):
    """No host could do this: a corrupt or disguised image, an impossible request."""

    code = "build_failed"


class ImageUnacceptableError(FatalBuildError):
    """The image's bits are not what its record says (checksum, format, backing), or larger than the flavor's disk."""

    code = "image_unacceptable"


class ImageFetchError(RetryableHostError):
    """The bits could not be fetched."""

    code = "image_fetch_failed"


class ImageSendError(HostError):
    """The portal will not take the bits of an image that was made here."""

    code = "image_send_failed"


class BackupTransferError(HostError):
    """The portal, or its store, does not take or give the data of a backup."""

    code = "backup_transfer_failed"


class InstanceNotFoundError(HostError):
    """The hypervisor has no guest of this uuid."""

    code = "instance_not_found"


class GuestGoneError(InstanceNotFoundError):
    """Somebody has removed the guest, and there is nothing to make it from again."""

    def __init__(self) -> None:
        super().__init__("The server's guest and its disk are gone from its host. Rebuild the server, or delete it.")


class HypervisorUnavailableError(RetryableHostError):
    """The hypervisor does not answer."""

    code = "hypervisor_unavailable"


class StoppedError(HostError):
    """Long work was told to leave off before its end."""

    code = "stopped"


class ConsoleBusyError(HostError):
    """Somebody else has the console, or the host has too many open."""

    code = "busy"


class GuestRefusedError(HostError):
    """The guest takes no connection at this port."""

    code = "refused"


class GuestUnreachableError(HostError):
    """The guest does not answer at this address."""

    code = "unreachable"


class UnsupportedError(HostError):
    """This host's hypervisor, or this guest, cannot do that."""

    code = "unsupported"
