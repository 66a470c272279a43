"""Why an agent cannot start or go on, each in one sentence for the operator."""


class StartError(Exception):
    """The agent cannot start; the message is for the operator, ``exit_code`` for the supervisor."""

    exit_code = 2


class StateInUseError(StartError):
    """Another agent works on the same state folder."""

    exit_code = 3


class HostUnfitError(StartError):
    """This machine lacks what the driver needs."""

    exit_code = 4


class RefusedByPortalError(Exception):
    """The portal does not let this host in; ``final`` when only an operator can change that."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        """``reason`` is the portal's sentence."""
        super().__init__(reason)
        self.final = final
