"""Scheduling decisions of a server, and the number of servers that would fit: Novella's own Compute operations."""

from collections.abc import Sequence

from rest_framework.request import Request

from portal.api.compute.dialect import NOT_NEGATIVE, POSITIVE, ComputeView, timestamp
from portal.api.compute.servers.launch_requests import tail
from portal.api.compute.servers.schemas import HINTS, NAMED, UUID
from portal.api.frame import Call, Json, Schema, Version, body, parts
from portal.common.http import rate_limits
from provisioning.common.errors import InvalidInputError
from provisioning.compute import selectors
from provisioning.compute.launch import dry_run
from provisioning.compute.launch.dry_run import WouldFit
from provisioning.compute.selectors.explained import SEEING_HOSTS, Explained
from provisioning.scheduler import FilterResult

AMOUNTS = ("vcpus", "ram", "disk")


def would_fit(version: Version) -> Schema:
    """Return the schema of ``POST /novella-would-fit``, equal at every microversion; memory in MiB, disk in GiB."""
    return body(
        "would_fit",
        {
            "flavorRef": {"type": ["string", "integer"], "minLength": 1, "maxLength": 1024},
            "vcpus": POSITIVE,
            "ram": POSITIVE,
            "disk": NOT_NEGATIVE,
            "imageRef": {"type": "string", "maxLength": 1024},
            "availability_zone": NAMED,
            "count": POSITIVE,
            "group": UUID,
            "os:scheduler_hints": HINTS,
            "host": NAMED,
        },
    )


def filter_shape(result: FilterResult) -> Json:
    """One filter: the numbers of hosts before and after it, and the requested and available amounts if the filter
    compares amounts.
    """
    return {
        "name": result.name,
        "before": result.before,
        "after": result.after,
        "reason": result.reason,
        "asked": result.asked,
        "most": result.most,
        "unit": result.unit or None,
    }


def _decision(decision: Explained, *, seeing: bool) -> Json:
    shape: Json = {
        "attempt": decision.attempt,
        "action": decision.action,
        "driver": decision.driver,
        "created_at": timestamp(decision.created_at),
        "seconds": round(decision.seconds, 6),
        "asked": dict(decision.asked),
        "hosts": decision.hosts,
        "suitable": decision.suitable,
        "found": decision.found,
        "filters": [filter_shape(check.result) for check in decision.checks],
        "sentence": decision.sentence,
        "failure": decision.failure or None,
    }
    if seeing:
        shape |= {
            "host": decision.host or None,
            "weights": [
                {"host": item.host, "weight": item.weight, "parts": dict(item.parts)} for item in decision.weights
            ],
            "losses": {check.result.name: list(check.lost) for check in decision.checks if check.lost},
        }
    return shape


class WouldFitView(ComputeView):
    """``POST /novella-would-fit``."""

    rules = {"POST": "novella:would_fit"}
    counted = rate_limits.DRY_RUNS
    schemas = {"POST": would_fit}

    def post(self, request: Request) -> Json:
        """Return how many servers of a flavor the scheduler could place now; nothing is written.

        ``fits`` is at most ``most``; ``quota`` is the number that the project's quota allows, null without a limit.
        Only operators may specify amounts instead of a flavor, and see the hosts with the number that each could take.
        """
        fit = dry_run.would_fit(self.context, asked_for(self.checked_body()["would_fit"]))
        answer: Json = {
            "fits": fit.fits,
            "most": fit.most,
            "asked": fit.asked,
            "quota": fit.allowed,
            "sentence": fit.sentence,
            "filters": [filter_shape(result) for result in fit.decision.filters],
        }
        if self.allows("novella:would_fit:hosts"):
            answer["hosts"] = [{"host": name, "servers": many} for name, many in fit.hosts]
        return {"would_fit": answer}


def asked_for(body: Json) -> WouldFit:
    """Convert a validated body. Raises InvalidInputError if the size is missing or specified twice."""
    specified = [name for name in AMOUNTS if name in body]
    if "flavorRef" in body and specified:
        raise InvalidInputError(
            f"Specify flavorRef, or vcpus, ram and disk, but not {specified[0]} with it.", field=specified[0]
        )
    if "flavorRef" not in body and len(specified) < len(AMOUNTS):
        missing = next(name for name in AMOUNTS if name not in specified) if specified else "flavorRef"
        raise InvalidInputError(
            f"A size is needed: flavorRef, or vcpus, ram (MiB) and disk (GiB); there is no {missing}.", field=missing
        )
    return WouldFit(
        flavor_ref=tail(str(body["flavorRef"])) if "flavorRef" in body else None,
        vcpus=int(body.get("vcpus", 0)),
        memory_mb=int(body.get("ram", 0)),
        disk_gb=int(body.get("disk", 0)),
        image_id=tail(body["imageRef"]) if body.get("imageRef") else None,
        availability_zone=body.get("availability_zone", ""),
        hints=body.get("os:scheduler_hints", {}),
        group=body.get("group"),
        requested_host=body.get("host", ""),
        count=int(body.get("count", 1)),
    )


def _decisions(view: ComputeView, found: Sequence[Explained]) -> list[Json]:
    seeing = view.allows(SEEING_HOSTS)
    return [_decision(decision, seeing=seeing) for decision in found]


PARTS = parts(
    ComputeView,
    "servers/{server_id}/novella-scheduling",
    {
        "GET": Call(
            selectors.decisions_for,
            "novella:servers:scheduling",
            "Show for each attempt how the server's host was chosen, or why none was, newest first. Hosts, their"
            " weights and the hosts that each filter removed are shown only to callers who may see hosts.",
            name="decisions",
            shape=_decisions,
        )
    },
)
