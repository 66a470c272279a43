"""Services, hosts, pools and capabilities (reference, "Services", "Hosts extension", "Back-end storage pools")."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import NEWEST
from portal.api.common.validation import Schema
from portal.api.frame.schemas import inner
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect.schemas import asked_for
from portal.api.volume.dialect.times import timestamp
from provisioning.common.errors import InvalidInputError, NotFoundError, NotOfferedError
from provisioning.identity import policy
from provisioning.volumes.models import StoragePool
from provisioning.volumes.pools.offered import offered
from provisioning.volumes.selectors import pools as selectors
from provisioning.volumes.selectors.types import type_for
from provisioning.volumes.services.catalogue.pools import set_enabled, set_frozen

_WORD: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00]*\Z"}
VERBS = ("enable", "disable", "disable-log-reason", "freeze", "thaw", "failover_host", "failover", "set-log", "get-log")
PROVISIONED = "thin"


class ServicesView(VolumeView):
    """``GET /os-services``."""

    rules = {"GET": "volume_extension:services:index"}

    def get(self, request: Request) -> Response:
        """List a ``cinder-volume`` for each pool, the scheduler and the backup service."""
        asked = request.query_params
        found = selectors.services(asked.get("binary"), asked.get("host"))
        return Response({"services": [self._shape(each) for each in found]})

    def _shape(self, service: selectors.Service) -> dict[str, Any]:
        shape: dict[str, Any] = {
            "binary": service.binary,
            "host": service.host,
            "zone": service.zone,
            "status": "enabled" if service.enabled else "disabled",
            "state": "up" if service.up else "down",
            "updated_at": timestamp(service.updated_at),
            "disabled_reason": service.disabled_reason or None,
        }
        ours = service.binary == selectors.VOLUME
        if ours and self.microversion >= (3, 49):
            shape["backend_state"] = "up" if service.up else "down"
        if self.microversion >= (3, 7):
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
            raise NotOfferedError("Pools are not replicated, so that there is nothing to fail over to.")
        if verb in {"set-log", "get-log"}:
            self.require((3, 32))
            raise NotOfferedError("Levels of logs are changed with the settings of each process.")
        asked = self.checked_body()
        if "host" not in asked:
            raise InvalidInputError("Missing required element 'host' in request body.", field="host")
        if verb in {"freeze", "thaw"}:
            policy.enforce(self.context, f"volume:{verb}_host", {})
            try:
                pool = selectors.pool_named(asked["host"])
            except NotFoundError as error:  # Cinder answers 400 for these two only
                raise InvalidInputError(str(error), field="host") from error
            set_frozen(pool, frozen=verb == "freeze")
            return Response(status=200)
        return Response(self._enable(asked, verb))

    def _enable(self, asked: dict[str, Any], verb: str) -> dict[str, Any]:
        binary = asked.get("binary") or asked.get("service") or ""
        if binary != selectors.VOLUME:
            raise NotFoundError(f"Service {binary[:64]} could not be found on host {asked['host'][:64]}.")
        reason = asked.get("disabled_reason", "")
        if verb == "disable-log-reason" and not reason.strip():
            raise InvalidInputError("Disabled reason contains invalid characters or is too long", field=reason)
        enabled = verb == "enable"
        set_enabled(selectors.pool_named(asked["host"]), enabled=enabled, reason=reason)
        said = {
            "host": asked["host"],
            "service": asked.get("service", ""),
            "binary": asked.get("binary", ""),
            "status": "enabled" if enabled else "disabled",
            "disabled": not enabled,
        }
        return said | ({"disabled_reason": reason} if verb == "disable-log-reason" else {})


class HostsView(VolumeView):
    """``GET /os-hosts``."""

    rules = {"GET": "volume_extension:hosts"}

    def get(self, request: Request) -> Response:
        """List the hosts of services, filtered by ``zone``."""
        zone = request.query_params.get("zone")
        found = [each for each in selectors.services() if each.enabled and (not zone or each.zone == zone)]
        return Response(
            {
                "hosts": [
                    {
                        "host_name": each.host,
                        "service": each.binary,
                        "zone": each.zone,
                        "service-status": "available" if each.up else "unavailable",
                        "service-state": "enabled",
                        "last-update": timestamp(each.updated_at),
                    }
                    for each in found
                ]
            }
        )


class HostView(VolumeView):
    """``GET`` and ``PUT /os-hosts/{backend}``."""

    rules = {"GET": "volume_extension:hosts", "PUT": "volume_extension:hosts"}
    schemas = {"PUT": inner({"status": {"enum": ["enable", "disable"]}}, ("status",))}

    def get(self, request: Request, backend: str) -> Response:
        """Show the usage of a pool, in total and by project."""
        pool = selectors.pool_named(backend)
        shapes = [
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
            for each in selectors.held_in(pool)
        ]
        return Response({"host": shapes})

    def put(self, request: Request, backend: str) -> Response:
        """Enable or disable a pool for new volumes."""
        enabled = self.checked_body()["status"] == "enable"
        set_enabled(selectors.pool_named(backend), enabled=enabled)
        return Response({"host": backend, "status": "enabled" if enabled else "disabled"})


def capabilities(pool: StoragePool) -> dict[str, Any]:
    """Return a pool as Cinder's scheduler sees it; GiB."""
    return {
        "total_capacity_gb": round(pool.total_gb, 2),
        "free_capacity_gb": round(pool.free_gb, 2),
        "allocated_capacity_gb": pool.allocated_gb,
        "provisioned_capacity_gb": pool.allocated_gb,
        "reserved_percentage": pool.reserved_percentage,
        "max_over_subscription_ratio": str(pool.max_over_subscription_ratio),
        "backend_state": "up" if selectors.is_up(pool) else "down",
        "timestamp": timestamp(pool.last_seen_at),
        **offered(pool),
    }


class PoolsView(VolumeView):
    """``GET /scheduler-stats/get_pools``."""

    rules = {"GET": "scheduler_extension:scheduler_stats:get_pools"}

    def get(self, request: Request) -> Response:
        """List the pools; ``detail=True`` includes their capacity. Filters: ``volume_type`` (3.35), others (3.28)."""
        asked = request.query_params
        found = selectors.pools()
        if self.microversion >= (3, 28):
            wanted = {name: asked[name] for name in asked if name not in {"detail", "volume_type"}}
            found = [pool for pool in found if self._fits(pool, wanted)]
        if self.microversion >= (3, 35) and asked.get("volume_type"):
            backend = type_for(self.context, asked["volume_type"]).extra_specs.get("volume_backend_name")
            found = [pool for pool in found if backend in {None, pool.name}]
        detail = asked_for(request, "detail")
        return Response(
            {
                "pools": [
                    {"name": selectors.host_of(pool)} | ({"capabilities": capabilities(pool)} if detail else {})
                    for pool in found
                ]
            }
        )

    def _fits(self, pool: StoragePool, wanted: dict[str, str]) -> bool:
        known = capabilities(pool) | {"name": selectors.host_of(pool)}
        return all(str(known.get(name)) == value for name, value in wanted.items())


class CapabilitiesView(VolumeView):
    """``GET /capabilities/{backend}``."""

    rules = {"GET": "volume_extension:capabilities"}

    def get(self, request: Request, backend: str) -> Response:
        """Show the capabilities of a pool."""
        pool = selectors.pool_named(backend)
        known = capabilities(pool)
        return Response(
            {
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
        )


class ClustersView(VolumeView):
    """``GET /clusters`` and ``/clusters/detail``, from 3.7 on: always empty."""

    rules = {"GET": "clusters:get_all"}
    versions = {"GET": ((3, 7), NEWEST)}

    def get(self, request: Request) -> Response:
        """Return an empty list; every pool is served by its own hosts."""
        return Response({"clusters": []})


class ClusterView(VolumeView):
    """``GET /clusters/{name}``, and ``PUT /clusters/enable`` and ``disable``, from 3.7 on."""

    rules = {"GET": "clusters:get", "PUT": "clusters:update"}
    versions = dict.fromkeys(("GET", "PUT"), ((3, 7), NEWEST))

    def get(self, request: Request, cluster_name: str) -> Response:
        """Answer 404."""
        raise NotFoundError(f"Cluster {cluster_name[:64]} could not be found.")

    def put(self, request: Request, cluster_name: str) -> Response:
        """Answer 404."""
        name = request.data.get("name") if isinstance(request.data, dict) else None
        raise NotFoundError(f"Cluster {str(name)[:64]} could not be found.")


class CleanupView(VolumeView):
    """``POST /workers/cleanup``, from 3.24 on."""

    rules = {"POST": "workers:cleanup"}
    versions = {"POST": ((3, 24), NEWEST)}

    def post(self, request: Request) -> Response:
        """Refused: the cloud cleans up automatically."""
        raise NotOfferedError("Work of a lost worker is taken up by the other workers automatically.")
