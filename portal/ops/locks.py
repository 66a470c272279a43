"""Whether a command can lift a lock: where wrong passwords are counted."""

from django.conf import settings

from provisioning.identity.counters import CACHE

ELSEWHERE = (
    "Wrong passwords are counted in the memory of the web process, which a command does not reach. "
    "A lock ends by itself after NOVELLA_LOCKOUT_SECONDS, when web is started again, or when an operator lifts it in "
    "the admin or the dashboard; with NOVELLA_CACHE_URL all processes count in one place and this command can."
)


def are_shared() -> bool:
    """Whether the processes of the cloud count in one place."""
    return "LocMem" not in str(settings.CACHES[CACHE]["BACKEND"])
