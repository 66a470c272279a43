"""What the command says when it cannot do what it was asked to, and the code it ends with."""

FAILED, USAGE, NOT_SIGNED_IN, NOT_FOUND, FORBIDDEN, NOT_READY, TOO_MANY, UNREACHABLE, CUT_OFF = range(1, 10)
"""Exit codes: anything else, a wrong command line, no good sign-in, no such server or address, not allowed, the server
or its port takes no connection, too many tunnels, the cloud or the host does not answer, ended before its end.
"""


class ClientError(Exception):
    """One line for the person, and an exit code."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.message = " ".join(message.split())
        self.code = code
