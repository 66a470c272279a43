"""The command line of ssh for a server behind a tunnel."""

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class SshWish:
    """What is asked of ssh."""

    server_id: str
    server_name: str
    login: str
    key: str | None = None
    options: Sequence[str] = ()
    passed_on: Sequence[str] = ()
    """More arguments for ssh, as they came."""
    command: Sequence[str] = ()


def ssh_command(wish: SshWish) -> list[str]:
    """Return the program and its arguments.

    The host key is remembered by the server's id, at the first contact: names and addresses come back with other
    servers behind them.  The host is called by its name where that is one for ssh, so that the person's own
    configuration for it counts.
    """
    proxy = shlex.join([sys.executable, "-m", "portal.client.standard_streams"]).replace("%", "%%")
    found = ["ssh", "-o", f"ProxyCommand={proxy}", "-o", f"HostKeyAlias=novella-{wish.server_id}"]
    found += ["-o", "CheckHostIP=no", "-o", "StrictHostKeyChecking=accept-new"]
    if wish.key:
        found += ["-i", wish.key, "-o", "IdentitiesOnly=yes"]
    for option in wish.options:
        found += ["-o", option]
    found += wish.passed_on
    host = wish.server_name if _PLAIN.fullmatch(wish.server_name) else wish.server_id
    return [*found, "-l", wish.login, "--", host, *wish.command]
