"""Libraries that others load where they are installed, and that web and worker never use; they only take memory.

Django REST framework loads psycopg in a cloud on SQLite, autobahn loads TLS that a proxy speaks for it, oslo.policy
loads what asks other servers, which a rule may not.  All of them do without.
"""

import sys

_EVERYWHERE = ("click", "django.contrib.postgres", "markdown", "OpenSSL", "psutil", "pygments", "requests")
BY_ROLE: dict[str, tuple[str, ...]] = {
    "web": _EVERYWHERE,
    "worker": (*_EVERYWHERE, "prometheus_client"),
}


def leave_out(role: str) -> None:
    """Let imports of them fail as where they are not installed; what is there already stays.

    Programs call it before they load Django; importing the settings alone changes nothing.
    """
    for name in BY_ROLE.get(role, ()):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # as the reference of the import system describes
