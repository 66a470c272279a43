"""Where a guest goes: pure functions from host states and a request to ranked hosts and an explanation."""

from provisioning.scheduler.decision import Decision, FilterResult, Ranked
from provisioning.scheduler.explain import explain, funnel
from provisioning.scheduler.neighbours import group_allows
from provisioning.scheduler.options import Options, facts_needed, options_of
from provisioning.scheduler.ranking import decide, rank
from provisioning.scheduler.spec import Facts, GroupSpec, HostState, RequestSpec

__all__ = [
    "Decision",
    "Facts",
    "FilterResult",
    "GroupSpec",
    "HostState",
    "Options",
    "Ranked",
    "RequestSpec",
    "decide",
    "explain",
    "facts_needed",
    "funnel",
    "group_allows",
    "options_of",
    "rank",
]
