"""Whether a command can lift a lock: only if all processes share the counts of wrong passwords."""

from django.conf import settings

from provisioning.identity.lockout.counters import CACHE

ELSEWHERE = (
    "With this NOVELLA_CACHE_URL wrong passwords are counted in each process's own memory, which a command does not "
    "reach. A lock ends by itself after NOVELLA_LOCKOUT_SECONDS, when web is started again, or when an operator lifts "
    "it in the admin or the dashboard."
)


def are_shared() -> bool:
    """Whether all processes of the cloud share the counts of wrong passwords."""
    return "LocMem" not in str(settings.CACHES[CACHE]["BACKEND"])
