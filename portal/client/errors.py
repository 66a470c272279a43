"""Errors of the command, with their exit codes."""

FAILED, USAGE, NOT_SIGNED_IN, NOT_FOUND, FORBIDDEN, NOT_READY, TOO_MANY, UNREACHABLE, CUT_OFF = range(1, 10)
"""Exit codes: other errors, invalid command line, authentication failed, no such server or address, not allowed, the
server or its port refuses connections, too many tunnels, the cloud or the host does not answer, connection
interrupted.
"""


class ClientError(Exception):
    """A one-line message and an exit code."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.message = " ".join(message.split())
        self.code = code
