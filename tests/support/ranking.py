"""Decisions in tests, with the filters and weighers as they are without settings."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from provisioning.scheduler.condition import Filter
from provisioning.scheduler.decision import Decision
from provisioning.scheduler.options import DEFAULTS, FILTERS, WEIGHERS
from provisioning.scheduler.ranking import decide
from provisioning.scheduler.spec import HostState, RequestSpec
from provisioning.scheduler.weighers import Weigher


def rank(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    *,
    subset_size: int = 1,
    choose: random.Random | None = None,
    filters: Sequence[Filter] = FILTERS,
    weighers: Sequence[Weigher] = WEIGHERS,
) -> Decision:
    """Rank all hosts that pass, by default with the filters and weighers as they are without settings."""
    options = replace(
        DEFAULTS,
        filters=tuple(filters),
        weighers=tuple(weighers),
        subset_size=subset_size,
        best=max(len(hosts), 1),
    )
    return decide(hosts, spec, options, choose=choose)
