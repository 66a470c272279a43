"""Where a volume would lie now, and how many of them: the scheduler's own answer, and nothing is claimed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.ids import NOBODY
from provisioning.common.numbers import MAX_INTEGER
from provisioning.scheduler.pools import PoolDecision
from provisioning.volumes import placement
from provisioning.volumes.selectors.types import default_type, type_for

MOST = 100
"""How many are told to who may not see pools."""


@dataclass(frozen=True, slots=True)
class VolumeFit:
    """The answer: ``fits`` volumes of this size would find a place; ``pools`` are named for operators only."""

    size_gb: int
    volume_type: str
    decision: PoolDecision
    sentence: str
    pools: tuple[tuple[str, int, int], ...]
    """Name, how many it would take, and how large the largest may be (GiB); in the order in which they are tried."""

    @property
    def fits(self) -> int:
        return sum(many for _, many, _ in self.pools)


def would_fit(
    context: RequestContext,
    size_gb: int,
    *,
    volume_type: str = "",
    zone: str = "",
    hints: Mapping[str, Any] | None = None,
) -> VolumeFit:
    """Ask for a volume of this size; no type: the caller's default.

    Raises InvalidInputError, NotFoundError for the type and VolumeNotFoundError for the hints.
    """
    if not 1 <= size_gb <= MAX_INTEGER:
        raise InvalidInputError("A volume has at least 1 GiB.", field="size")
    kind = type_for(context, volume_type) if volume_type else default_type(context.project_id or NOBODY)
    request = placement.request_of(context, size_gb=size_gb, volume_type=kind, zone=zone, hints=hints)
    decision, sentence = placement.dry_run(request)
    pools = tuple((each.pool.name, each.pool.left_gb // size_gb, each.pool.left_gb) for each in decision.ranked)
    return VolumeFit(size_gb, kind.name if kind else "", decision, sentence, pools)
