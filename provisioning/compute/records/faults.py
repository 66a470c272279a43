"""Faults: the recorded reasons of failures of instances."""

from provisioning.compute.models import Instance, InstanceFault


def record_fault(instance: Instance, message: str, *, details: str = "", host_name: str = "") -> None:
    """Store a fault: ``message`` for the owner (without host names), ``details`` and ``host_name`` for operators."""
    InstanceFault.objects.create(
        instance=instance, code=500, message=message[:1024], details=details[:20_000], host_name=host_name
    )
