"""Errors of hosts. Fatal errors abort the build; retryable errors move it to another host."""


class HostError(Exception):
    """Base class: a failure on this host, with a code for programs and a message for users. The message contains no
    paths, host names or addresses.
    """

    code = "host_error"
    retryable = False

    def __init__(self, message: str, *, detail: str = "") -> None:
        """``message`` is for the user, ``detail`` for the operator's log."""
        super().__init__(message)
        self.message = message
        self.detail = detail


class RetryableHostError(HostError):
    """Another host may succeed: lack of space, hypervisor or networking failed here."""

    code = "host_failed"
    retryable = True


class FatalBuildError(HostError):
    """No host can succeed: a corrupt or disguised image, an invalid request."""

    code = "build_failed"


class ImageUnacceptableError(FatalBuildError):
    """The image's data differs from its record (checksum, format, backing file), or exceeds the flavor's disk."""

    code = "image_unacceptable"


class ImageFetchError(RetryableHostError):
    """The data could not be downloaded."""

    code = "image_fetch_failed"


class ImageSendError(HostError):
    """The portal does not accept the data of an image created here."""

    code = "image_send_failed"


class FirmwareTransferError(RetryableHostError):
    """The portal failed to accept or to send the firmware state of a server, or the state is damaged."""

    code = "firmware_transfer_failed"


class BackupTransferError(HostError):
    """The portal, or its store, failed to accept or send the data of a backup."""

    code = "backup_transfer_failed"


class InstanceNotFoundError(HostError):
    """The hypervisor has no guest with this uuid."""

    code = "instance_not_found"


class GuestGoneError(InstanceNotFoundError):
    """The guest was removed outside Novella and cannot be recreated."""

    def __init__(self) -> None:
        super().__init__(
            "The server's guest and its disk no longer exist on its host. Rebuild the server, or delete it.",
        )


class HypervisorUnavailableError(RetryableHostError):
    """The hypervisor does not answer."""

    code = "hypervisor_unavailable"


class StoppedError(HostError):
    """A long operation was stopped early."""

    code = "stopped"


class ConsoleBusyError(HostError):
    """The console is in use, or too many consoles or tunnels of the host are open."""

    code = "busy"


class GuestRefusedError(HostError):
    """The guest refuses connections at this port."""

    code = "refused"


class GuestUnreachableError(HostError):
    """The guest does not answer at this address."""

    code = "unreachable"


class UnsupportedError(HostError):
    """This host's hypervisor, or this guest, does not support the operation."""

    code = "unsupported"


class GuestProgramsDisabledError(UnsupportedError):
    """The guest agent answers, but does not run programs."""

    code = "guest_programs_disabled"


class GuestDiskError(UnsupportedError):
    """The guest does not have the disk, refuses to change it, or failed to."""

    code = "guest_disk"
