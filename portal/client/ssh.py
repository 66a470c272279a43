"""The command line of ssh for a server behind a tunnel."""

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


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
