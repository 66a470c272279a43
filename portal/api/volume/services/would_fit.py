"""The number of volumes that would fit: Novella's own operation of the Block Storage API."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.frame.resource import body
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect.schemas import ID, SIZE, TEXT
from portal.common import rate_limits
from provisioning.volumes.pools.would_fit import MOST, would_fit


class WouldFitView(VolumeView):
    """``POST /novella-would-fit``."""

    rules = {"POST": "novella:volumes:would_fit"}
    counted = rate_limits.DRY_RUNS
    schemas: ClassVar = {
        "POST": body(
            "would_fit",
            {"size": SIZE, "volume_type": ID, "availability_zone": TEXT, "os:scheduler_hints": {"type": "object"}},
            ("size",),
        )
    }

    def post(self, request: Request) -> Response:
        """Return how many volumes of a size (GiB) the scheduler could place now; nothing is written.

        ``fits`` is at most ``most``; quotas are not considered. Only operators see the pools with the number that each
        could take.
        """
        body = self.checked_body()["would_fit"]
        fit = would_fit(
            self.context,
            int(body["size"]),
            volume_type=body.get("volume_type", ""),
            zone=body.get("availability_zone", ""),
            hints=body.get("os:scheduler_hints"),
        )
        answer: dict[str, Any] = {
            "fits": min(fit.fits, MOST),
            "most": MOST,
            "volume_type": fit.volume_type or None,
            "sentence": fit.sentence,
            "filters": [
                {"name": each.name, "before": each.before, "after": each.after, "reason": each.reason}
                for each in fit.decision.filters
            ],
        }
        if self.allows("novella:volumes:would_fit:pools"):
            answer["pools"] = [{"pool": name, "volumes": many, "room": left} for name, many, left in fit.pools]
            answer["losses"] = {name: list(lost) for name, lost in fit.decision.losses.items()}
        return Response({"would_fit": answer})
