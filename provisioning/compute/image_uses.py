"""Protects images that servers need: the image of a shelved server is its only disk."""

from provisioning.compute.models import Instance
from provisioning.compute.states import VmState
from provisioning.images.models import Image


def shelved_server(image: Image) -> str | None:
    server = Instance.objects.filter(snapshot_image_id=image.id).exclude(vm_state=VmState.DELETED).first()
    return None if server is None else f"the shelved server {server.name} ({server.id})"
