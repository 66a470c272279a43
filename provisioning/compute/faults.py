"""The record of why an instance failed."""

from provisioning.compute.models import Instance, InstanceFault


def record_fault(instance: Instance, message: str, *, details: str = "", host_name: str = "") -> None:
    """Keep a fault: ``message`` for the owner (no host names), ``details`` and ``host_name`` for operators."""
    InstanceFault.objects.create(
        instance=instance, code=500, message=message[:1024], details=details[:20_000], host_name=host_name
    )
