"""Optional libraries that are not loaded, to save memory, because web and worker processes never use them.

Django REST framework loads psycopg in a cloud on SQLite, and docutils by Django's documentation of the admin; autobahn
loads TLS, which a proxy handles, and oslo.policy loads libraries for remote checks, which rules cannot use. All of them
work without these libraries.
"""

import sys

_EVERYWHERE = ("click", "django.contrib.postgres", "docutils", "markdown", "OpenSSL", "psutil", "pygments", "requests")
BY_ROLE: dict[str, tuple[str, ...]] = {
    "web": _EVERYWHERE,
    "worker": (*_EVERYWHERE, "prometheus_client"),
}


def leave_out(role: str) -> None:
    """Make imports of these libraries fail as if they were not installed; libraries that are already loaded stay.

    Programs call it before they load Django; importing the settings alone has no effect.
    """
    for name in BY_ROLE.get(role, ()):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # as documented for the import system
