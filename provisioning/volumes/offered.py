"""The capabilities of a pool, as types ask for them by extra specs and as operators read them."""

from provisioning.volumes.models import StoragePool

_WORDS = {"true": True, "false": False}
_NAMES = {"online_extend": "online_extend_support"}
"""Names in the reports of hosts → names in Cinder."""


def offered(pool: StoragePool) -> dict[str, str | bool]:
    """Return what does not change while the pool is used; what its hosts report comes as boolean where it is one."""
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
