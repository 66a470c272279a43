"""Where a guest goes: pure functions from host states and a request to ranked hosts and an explanation."""

from provisioning.scheduler.ranking import Decision, FilterResult, Ranked, explain, rank
from provisioning.scheduler.spec import HostState, RequestSpec

__all__ = ["Decision", "FilterResult", "HostState", "Ranked", "RequestSpec", "explain", "rank"]
