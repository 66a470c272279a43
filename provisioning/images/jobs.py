"""What is done for images by the clock."""

from __future__ import annotations

from provisioning.images import services
from provisioning.rpc.registry import periodic

INTERVAL = 60.0


@periodic("images.recover_interrupted_uploads", every=INTERVAL)
def recover_interrupted_uploads() -> int:
    """Make images ``queued`` again whose upload died with its process."""
    return services.recover_interrupted_uploads()
