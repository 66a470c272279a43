"""The command line of ssh for a server behind a tunnel."""

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

WITH_VALUE = frozenset("BbcDEeFIiJLlmOoPpQRSWw")
OWN = frozenset("liop")
"""Options of ssh that novella reads."""
LONG_FLAGS = frozenset({"--help"})
"""Novella's own options without a value."""


@dataclass(frozen=True, slots=True)
class SshWish:
    """Arguments of an ssh connection."""

    server_id: str
    server_name: str
    login: str
    key: str | None = None
    options: Sequence[str] = ()
    passed_on: Sequence[str] = ()
    """Additional arguments, passed to ssh unchanged."""
    command: Sequence[str] = ()


def ssh_command(wish: SshWish) -> list[str]:
    """Return the program and its arguments.

    The host key is accepted at the first contact and stored under the server's id, because names and addresses are
    reused by other servers. The host argument is the server's name if ssh accepts it, so that the user's configuration
    for this name applies.
    """
    proxy = shlex.join([sys.executable, "-m", "portal.client.standard_streams"]).replace("%", "%%")
    result = ["ssh", "-o", f"ProxyCommand={proxy}", "-o", f"HostKeyAlias=novella-{wish.server_id}"]
    result += ["-o", "CheckHostIP=no", "-o", "StrictHostKeyChecking=accept-new"]
    if wish.key:
        result += ["-i", wish.key, "-o", "IdentitiesOnly=yes"]
    for option in wish.options:
        result += ["-o", option]
    result += wish.passed_on
    host = wish.server_name if _PLAIN.fullmatch(wish.server_name) else wish.server_id
    return [*result, "-l", wish.login, "--", host, *wish.command]


@dataclass(slots=True)
class SshArguments:
    """The options of novella, the options of ssh, and the command for the server."""

    own: list[str] = field(default_factory=list)
    passed_on: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)


def divided(arguments: Sequence[str]) -> SshArguments:
    """Split the arguments of ``novella ssh``. If a server is given, it is the last element of ``own``."""
    result, left, server = SshArguments(), list(arguments), ""
    while left:
        each = left.pop(0)
        if each == "--" and server:
            result.command = left
            break
        if each.startswith("--") and each != "--":
            result.own.append(each)
            if "=" not in each and each not in LONG_FLAGS and left:
                result.own.append(left.pop(0))
        elif each.startswith("-") and each not in {"-", "--"}:
            _letters(result, each[1:], left)
        elif each != "--" and not server:
            server = each
        elif server:
            result.command = [each, *left]
            break
    result.own += ["--", server] if server else []
    return result


def _letters(ssh_arguments: SshArguments, letters: str, left: list[str]) -> None:
    """Read an argument with short options, like ``-vL``. A value follows its option in the same argument, or is the
    next argument.
    """
    while letters:
        letter, letters = letters[0], letters[1:]
        if letter in WITH_VALUE:
            value = [letters or left.pop(0)] if letters or left else []
            (ssh_arguments.own if letter in OWN else ssh_arguments.passed_on).extend([f"-{letter}", *value])
            return
        (ssh_arguments.own if letter == "h" else ssh_arguments.passed_on).append(f"-{letter}")


def user_and_server(text: str) -> tuple[str | None, str]:
    """Return the user in ``USER@SERVER``, or None, and the server; the last ``@`` separates them, as in ssh."""
    user, mark, server = text.rpartition("@")
    return (user, server) if mark and user and server else (None, text)
