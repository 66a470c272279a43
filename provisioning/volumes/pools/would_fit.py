"""Dry run of the placement of volumes: where and how many volumes would fit; nothing is claimed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import NOBODY
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.scheduler.pools import PoolDecision
from provisioning.volumes.pools import placement
from provisioning.volumes.selectors.types import default_type, type_for

MOST = 100
"""Maximum number of volumes that is shown to callers who may not see pools."""


@dataclass(frozen=True, slots=True)
class VolumeFit:
    """The result: ``fits`` volumes of this size would fit; ``pools`` is for operators only."""

    size_gb: int
    volume_type: str
    decision: PoolDecision
    sentence: str
    pools: tuple[tuple[str, int, int], ...]
    """Name, number of volumes that fit, and maximum size of one (GiB), in the order of the scheduler."""

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
    """Return how many volumes of this size would fit; default type: that of the caller's project.

    Raises InvalidInputError, NotFoundError for the type and VolumeNotFoundError for the hints.
    """
    if not 1 <= size_gb <= MAX_INTEGER:
        raise InvalidInputError("A volume must have at least 1 GiB.", field="size")
    kind = type_for(context, volume_type) if volume_type else default_type(context.project_id or NOBODY)
    request = placement.request_of(context, size_gb=size_gb, volume_type=kind, zone=zone, hints=hints)
    decision, sentence = placement.dry_run(request)
    pools = tuple((each.pool.name, each.pool.left_gb // size_gb, each.pool.left_gb) for each in decision.ranked)
    return VolumeFit(size_gb, kind.name if kind else "", decision, sentence, pools)
