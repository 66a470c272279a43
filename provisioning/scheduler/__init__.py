"""Where a guest goes: pure functions from host states and a request to ranked hosts and an explanation."""

from provisioning.scheduler.neighbours import group_allows
from provisioning.scheduler.ranking import Decision, FilterResult, Ranked, explain, rank
from provisioning.scheduler.spec import Facts, GroupSpec, HostState, RequestSpec

__all__ = [
    "Decision",
    "Facts",
    "FilterResult",
    "GroupSpec",
    "HostState",
    "Ranked",
    "RequestSpec",
    "explain",
    "group_allows",
    "rank",
]
