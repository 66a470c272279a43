"""Images in use by servers: the image of a shelved server is the only copy of its disk; other servers were created from
theirs.
"""

import uuid
from collections.abc import Collection

from provisioning.compute.models import Instance
from provisioning.compute.states import VmState
from provisioning.images.models import Image


def shelved_server(image: Image) -> str | None:
    server = Instance.objects.filter(snapshot_image_id=image.id).exclude(vm_state=VmState.DELETED).first()
    return None if server is None else f"the shelved server {server.name} ({server.id})"


def launched_from(image_ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return the images among ``image_ids`` that existing servers were launched from."""
    servers = Instance.objects.filter(image_id__in=list(image_ids)).exclude(vm_state=VmState.DELETED)
    return {image_id for image_id in servers.values_list("image_id", flat=True).distinct() if image_id is not None}
