"""Services, hosts, pools and capabilities (reference, "Services", "Hosts extension", "Back-end storage pools"), and the
number of volumes that would fit: Novella's own operation.
"""

from typing import NoReturn

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.frame import Call, Json, Schema, body, inner, parts
from portal.api.volume.dialect import VolumeView, kinds, schemas
from portal.common.http import rate_limits
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError, NotOfferedError
from provisioning.identity import policy
from provisioning.volumes.models import StoragePool
from provisioning.volumes.pools.placement import MOST, offered, would_fit
from provisioning.volumes.selectors import pools as selectors
from provisioning.volumes.selectors.types import type_for
from provisioning.volumes.services.catalogue.pools import set_enabled, set_frozen


class WouldFitView(VolumeView):
    """``POST /novella-would-fit``."""

    rules = {"POST": "novella:volumes:would_fit"}
    counted = rate_limits.DRY_RUNS
    schemas = {
        "POST": body(
            "would_fit",
            {
                "size": schemas.SIZE,
                "volume_type": schemas.ID,
                "availability_zone": schemas.TEXT,
                "os:scheduler_hints": {"type": "object"},
            },
            ("size",),
        )
    }

    def post(self, request: Request) -> Json:
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
        answer: Json = {
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
        return {"would_fit": answer}


_WORD: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00]*\Z"}
VERBS = ("enable", "disable", "disable-log-reason", "freeze", "thaw", "failover_host", "failover", "set-log", "get-log")


def _service(view: VolumeView, service: selectors.Service) -> Json:
    shape: Json = {
        "binary": service.binary,
        "host": service.host,
        "zone": service.zone,
        "status": "enabled" if service.enabled else "disabled",
        "state": "up" if service.up else "down",
        "updated_at": kinds.timestamp(service.updated_at),
        "disabled_reason": service.disabled_reason or None,
    }
    ours = service.binary == selectors.VOLUME
    if ours and view.microversion >= (3, 49):
        shape["backend_state"] = "up" if service.up else "down"
    if view.microversion >= (3, 7):
        shape["cluster"] = None
    if ours:
        shape |= {"replication_status": "disabled", "active_backend_id": None, "frozen": service.frozen}
    return shape


class ServiceChangeView(VolumeView):
    """``PUT /os-services/{verb}``: enable, disable, disable-log-reason, freeze, thaw."""

    rules = {"PUT": "volume_extension:services:update"}
    schemas = {
        "PUT": inner(
            {"host": _WORD, "binary": _WORD, "service": _WORD, "disabled_reason": _WORD, "cluster": {}}, closed=False
        )
    }

    def put(self, request: Request, verb: str) -> Response:
        """Update the pool in ``host``, ``HOST@DRIVER``."""
        if verb not in VERBS:
            raise NotFoundError("Unknown action")
        if verb in {"failover_host", "failover"}:
            policy.enforce(self.context, "volume:failover_host", {})
            raise NotOfferedError("Pools are not replicated, so there is nothing to fail over to.")
        if verb in {"set-log", "get-log"}:
            self.require((3, 32))
            raise NotOfferedError("The settings of each process determine its log levels.")
        body = self.checked_body()
        if "host" not in body:
            raise InvalidInputError("Missing required element 'host' in request body.", field="host")
        if verb in {"freeze", "thaw"}:
            policy.enforce(self.context, f"volume:{verb}_host", {})
            try:
                pool = selectors.pool_named(body["host"])
            except NotFoundError as error:  # Cinder answers 400 for these two only
                raise InvalidInputError(str(error), field="host") from error
            set_frozen(pool, frozen=verb == "freeze")
            return Response(status=200)
        return Response(self._enable(body, verb))

    def _enable(self, values: Json, verb: str) -> Json:
        binary = values.get("binary") or values.get("service") or ""
        if binary != selectors.VOLUME:
            raise NotFoundError(f"Service {binary[:64]} could not be found on host {values['host'][:64]}.")
        reason = values.get("disabled_reason", "")
        if verb == "disable-log-reason" and not reason.strip():
            raise InvalidInputError("Disabled reason contains invalid characters or is too long", field=reason)
        enabled = verb == "enable"
        set_enabled(selectors.pool_named(values["host"]), enabled=enabled, reason=reason)
        body = {
            "host": values["host"],
            "service": values.get("service", ""),
            "binary": values.get("binary", ""),
            "status": "enabled" if enabled else "disabled",
            "disabled": not enabled,
        }
        return body | ({"disabled_reason": reason} if verb == "disable-log-reason" else {})


def _host(view: VolumeView, service: selectors.Service) -> Json:
    return {
        "host_name": service.host,
        "service": service.binary,
        "zone": service.zone,
        "service-status": "available" if service.up else "unavailable",
        "service-state": "enabled",
        "last-update": kinds.timestamp(service.updated_at),
    }


def _hosts(context: RequestContext, *, zone: str | None) -> list[selectors.Service]:
    """Return the enabled services; with ``zone``, only those of this zone."""
    return [each for each in selectors.services() if each.enabled and (not zone or each.zone == zone)]


def _usage(context: RequestContext, backend: str) -> list[Json]:
    return [
        {
            "resource": {
                "host": backend,
                "project": each.project,
                "volume_count": str(each.volumes),
                "total_volume_gb": str(each.volume_gb),
                "snapshot_count": str(each.snapshots),
                "total_snapshot_gb": str(each.snapshot_gb),
            }
        }
        for each in selectors.held_in(selectors.pool_named(backend))
    ]


def _set_host(context: RequestContext, backend: str, status: str) -> dict[str, str]:
    enabled = status == "enable"
    set_enabled(selectors.pool_named(backend), enabled=enabled)
    return {"host": backend, "status": "enabled" if enabled else "disabled"}


def capabilities(pool: StoragePool) -> Json:
    """Return a pool as Cinder's scheduler sees it; GiB."""
    return {
        "total_capacity_gb": round(pool.total_gb, 2),
        "free_capacity_gb": round(pool.free_gb, 2),
        "allocated_capacity_gb": pool.allocated_gb,
        "provisioned_capacity_gb": pool.allocated_gb,
        "reserved_percentage": pool.reserved_percentage,
        "max_over_subscription_ratio": str(pool.max_over_subscription_ratio),
        "backend_state": "up" if selectors.is_up(pool) else "down",
        "timestamp": kinds.timestamp(pool.last_seen_at),
        **offered(pool),
    }


class PoolsView(VolumeView):
    """``GET /scheduler-stats/get_pools``."""

    rules = {"GET": "scheduler_extension:scheduler_stats:get_pools"}

    def get(self, request: Request) -> Json:
        """List the pools; ``detail=True`` includes their capacity. Filters: ``volume_type`` (3.35), others (3.28)."""
        query = request.query_params
        found = selectors.pools()
        if self.microversion >= (3, 28):
            filters = {name: query[name] for name in query if name not in {"detail", "volume_type"}}
            found = [pool for pool in found if self._fits(pool, filters)]
        if self.microversion >= (3, 35) and query.get("volume_type"):
            backend = type_for(self.context, query["volume_type"]).extra_specs.get("volume_backend_name")
            found = [pool for pool in found if backend in {None, pool.name}]
        detail = schemas.asked_for(request, "detail")
        return {
            "pools": [
                {"name": selectors.host_of(pool)} | ({"capabilities": capabilities(pool)} if detail else {})
                for pool in found
            ]
        }

    def _fits(self, pool: StoragePool, filters: dict[str, str]) -> bool:
        known = capabilities(pool) | {"name": selectors.host_of(pool)}
        return all(str(known.get(name)) == value for name, value in filters.items())


def _capabilities(context: RequestContext, backend: str) -> Json:
    pool = selectors.pool_named(backend)
    known = capabilities(pool)
    return {
        "namespace": f"OS::Storage::Capabilities::{backend}",
        **{name: known[name] for name in ("vendor_name", "volume_backend_name", "pool_name")},
        **{name: known[name] for name in ("driver_version", "storage_protocol")},
        "display_name": pool.name,
        "description": None,
        "visibility": "public",
        "replication_targets": [],
        "properties": {
            "thin_provisioning": {
                "title": "Thin Provisioning",
                "description": "Sets thin provisioning.",
                "type": "boolean",
            },
            "multiattach": {
                "title": "Multiattach",
                "description": "Whether a volume may be attached several times.",
                "type": "boolean",
            },
            "qos": {"title": "QoS", "description": "Enforced by the hypervisor.", "type": "boolean"},
        },
    }


def _no_cluster(context: RequestContext, name: object) -> NoReturn:
    raise NotFoundError(f"Cluster {str(name)[:64]} could not be found.")


def _no_cleanup(context: RequestContext) -> NoReturn:
    raise NotOfferedError("The other workers automatically continue the work of a lost worker.")


_CLUSTERS = Call(
    lambda context: [],
    "clusters:get_all",
    "Return an empty list; every pool is served by its own hosts.",
    name="clusters",
    since=(3, 7),
)
PARTS = parts(
    VolumeView,
    "",
    {
        "GET os-services": Call(
            lambda context, **kwargs: selectors.services(**kwargs),
            "volume_extension:services:index",
            "List a ``cinder-volume`` for each pool, the scheduler and the backup service.",
            name="services",
            shape=lambda view, found: [_service(view, each) for each in found],
            more=lambda view: {name: view.request.query_params.get(name) for name in ("binary", "host")},
        ),
        "GET os-hosts": Call(
            _hosts,
            "volume_extension:hosts",
            "List the hosts of services, filtered by ``zone``.",
            name="hosts",
            shape=lambda view, found: [_host(view, each) for each in found],
            more=lambda view: {"zone": view.request.query_params.get("zone")},
        ),
        "GET os-hosts/{backend}": Call(
            _usage, "volume_extension:hosts", "Show the usage of a pool, in total and by project.", name="host"
        ),
        "PUT os-hosts/{backend}": Call(
            _set_host,
            "volume_extension:hosts",
            "Enable or disable a pool for new volumes.",
            shape=lambda view, made: made,
            body=inner({"status": {"enum": ["enable", "disable"]}}, ("status",)),
        ),
        "GET capabilities/{backend}": Call(
            _capabilities,
            "volume_extension:capabilities",
            "Show the capabilities of a pool.",
            shape=lambda view, made: made,
        ),
        "GET clusters": _CLUSTERS,
        "GET clusters/detail": _CLUSTERS,
        "GET clusters/{cluster_name}": Call(_no_cluster, "clusters:get", "Answer 404.", name="cluster", since=(3, 7)),
        "PUT clusters/{cluster_name}": Call(
            lambda context, verb, *, name: _no_cluster(context, name),
            "clusters:update",
            "Answer 404.",
            name="cluster",
            more=lambda view: {"name": view.request.data.get("name") if isinstance(view.request.data, dict) else None},
            since=(3, 7),
        ),
        "POST workers/cleanup": Call(
            _no_cleanup, "workers:cleanup", "Refused: the cloud cleans up automatically.", since=(3, 24)
        ),
    },
)
