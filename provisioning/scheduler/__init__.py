"""Chooses hosts for guests: pure functions from host states and a request to ranked hosts and an explanation."""

from provisioning.scheduler.affinity import group_allows
from provisioning.scheduler.counting import Count, how_many, room_for
from provisioning.scheduler.decision import Decision, FilterResult, Ranked
from provisioning.scheduler.driver import Options
from provisioning.scheduler.explain import explain, funnel
from provisioning.scheduler.options import DEFAULTS, facts_needed, options_of
from provisioning.scheduler.query import check_query
from provisioning.scheduler.ranking import decide
from provisioning.scheduler.spec import Facts, GroupSpec, HostNeed, HostState, RequestSpec

__all__ = [
    "DEFAULTS",
    "Count",
    "Decision",
    "Facts",
    "FilterResult",
    "GroupSpec",
    "HostNeed",
    "HostState",
    "Options",
    "Ranked",
    "RequestSpec",
    "check_query",
    "decide",
    "explain",
    "facts_needed",
    "funnel",
    "group_allows",
    "how_many",
    "options_of",
    "room_for",
]
