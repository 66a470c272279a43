"""The capabilities of pools, for extra specs of volume types and for operators."""

from provisioning.volumes.models import StoragePool

_WORDS = {"true": True, "false": False}
_NAMES = {"online_extend": "online_extend_support"}
"""Names in hosts' reports → names in Cinder."""


def offered(pool: StoragePool) -> dict[str, str | bool]:
    """Return the static capabilities of a pool. "true" and "false" in hosts' reports become booleans."""
    reported = {str(name): str(value) for name, value in pool.capabilities.items()}
    return {
        "volume_backend_name": pool.name,
        "pool_name": pool.name,
        "driver_version": "1.0",
        "storage_protocol": pool.driver,
        "vendor_name": "Novella",
        "thin_provisioning_support": True,
        "thick_provisioning_support": False,
        "multiattach": True,
        "QoS_support": True,
        "location_info": f"{pool.driver}:{pool.id}",
        **{_NAMES.get(name, name): _WORDS.get(value.lower(), value) for name, value in reported.items()},
    }
