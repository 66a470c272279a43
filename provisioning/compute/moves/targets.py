"""Hosts to which a server can move, chosen by the scheduler, and why it cannot move to the others."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from provisioning.compute.launch.decisions import SchedulingAttempt, options_now, rank_hosts
from provisioning.compute.models import Instance
from provisioning.compute.moves.cpu import with_cpu
from provisioning.compute.selectors.host_rows import host_states, hosts_for
from provisioning.compute.selectors.request_specs import spec_of
from provisioning.compute.selectors.root_pools import shared_pool
from provisioning.scheduler import Decision, RequestSpec, decide, explain, facts_needed
from provisioning.scheduler.explain import why

CURRENT = "The server is on this host."
NO_OTHER = "There is no other host."
REQUESTED = "The requested host cannot receive the server"


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """A request to move a server to another host."""

    instance: Instance
    flavor: Mapping[str, Any] | None = None
    """The flavor after the move; None: unchanged."""
    host: str = ""
    """Name of the only acceptable host; empty: the scheduler chooses."""
    unfit: Mapping[str, str] = field(default_factory=dict)
    """Name of a host → the reason, other than missing resources, why it cannot receive the server; it contains no host
    names.
    """
    live: bool = False
    """Whether the guest keeps running, with the processor that it was started with."""

    @property
    def without(self) -> set[str]:
        """Names of the hosts that are never targets: the server's own host and unfit hosts."""
        return {*self.unfit, self.instance.host_name}


@dataclass(frozen=True, slots=True)
class TargetChoice:
    """One host of the cloud, for operators."""

    host_id: uuid.UUID
    name: str
    reason: str = ""
    """Why the server cannot move to the host; empty if it can."""
    rank: int = 0
    """Place of a possible host in the scheduler's order, from 1; otherwise 0."""


def rank_targets(request: MoveRequest) -> SchedulingAttempt:
    """Rank the hosts by the scheduler's filters and weighers, without the server's own host and unfit hosts; writes
    nothing.

    Zone, hints, server group, image and flavor are requested as for a launch. A host that was requested at the launch,
    and hosts on which the launch failed, are ignored.
    """
    return rank_hosts(_spec(request), request.without)


def target_choices(request: MoveRequest) -> list[TargetChoice]:
    """Return all hosts: possible targets in the scheduler's order, then other hosts by name, with the reasons. Reads
    the hosts once.
    """
    spec, now = replace(_spec(request), requested_host=""), options_now()
    hosts = hosts_for(spec, now)
    options = replace(now, best=max(len(hosts), 1), subset_size=1)
    ranked = [one.host for one in decide([h for h in hosts if h.name not in request.without], spec, options).ranked]
    known = {host.name for host in ranked}
    choices = [TargetChoice(host.id, host.name, rank=place) for place, host in enumerate(ranked, 1)]
    for host in sorted((host for host in hosts if host.name not in known), key=lambda host: host.name):
        own = CURRENT if host.name == request.instance.host_name else request.unfit.get(host.name, "")
        choices.append(TargetChoice(host.id, host.name, own or _reason(decide([host], spec, options))))
    return choices


def have_targets(requests: Sequence[MoveRequest]) -> list[bool]:
    """Return for each request, all for the same server, whether a host has the resources now. Reads the hosts once."""
    specs, options = [_spec(each) for each in requests], options_now()
    if not specs:
        return []
    facts = frozenset().union(*(facts_needed(spec, options) for spec in specs))
    hosts = [host for host in host_states(facts, image_id=specs[0].image_id) if host.name not in requests[0].without]
    return [bool(decide(hosts, spec, options).ranked) for spec in specs]


def why_none(attempt: SchedulingAttempt, request: MoveRequest) -> str:
    """Return why no host can take the server, in sentences without host names; empty if one can."""
    if attempt.decision.ranked:
        return ""
    unfit = request.unfit
    if request.host:
        [reason] = [unfit[request.host]] if request.host in unfit else [explain(attempt.decision)]
        return f"{REQUESTED}. {reason}"
    text = explain(attempt.decision) if attempt.decision.hosts else "" if unfit else NO_OTHER
    reasons = [f"{_times(list(unfit.values()).count(each))}: {each}" for each in dict.fromkeys(unfit.values())]
    return " ".join(filter(None, [text, *reasons]))


def _spec(requested: MoveRequest) -> RequestSpec:
    server = requested.instance
    spec = spec_of(server, flavor=requested.flavor, root_pool=shared_pool(server))
    spec = with_cpu(spec, server) if requested.live else spec
    return replace(spec, excluded_hosts=frozenset(), requested_host=requested.host)


def _times(number: int) -> str:
    return "One host is not possible" if number == 1 else f"{number} hosts are not possible"


def _reason(decision: Decision) -> str:
    """Return the result of the filter that rejected the only host."""
    last = decision.filters[-1] if decision.filters else None
    if last is None or last.after:
        return explain(decision)
    return f"It does not {last.words}: {why(last)}." if last.asked is not None else f"Not possible: {why(last)}."
