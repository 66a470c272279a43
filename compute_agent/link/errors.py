"""Errors that keep an agent from starting or running, with messages for operators."""


class StartError(Exception):
    """The agent cannot start. The message is for the operator, ``exit_code`` for the supervisor."""

    exit_code = 2


class StateInUseError(StartError):
    """Another agent uses the state folder."""

    exit_code = 3


class HostUnfitError(StartError):
    """This machine lacks something that the driver requires."""

    exit_code = 4


class RefusedByPortalError(Exception):
    """The portal refuses this host. ``final``: only an operator can change that."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        """``reason`` is the portal's message."""
        super().__init__(reason)
        self.final = final
