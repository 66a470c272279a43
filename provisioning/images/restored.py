"""Images after their records were restored: data that has arrived since the copy is kept."""

from collections.abc import Iterable

from provisioning.images.models import Image
from provisioning.images.services.recovery import take_up_whole


def complete_images() -> Iterable[str]:
    """Let images that wait for data, and have all of it, be completed."""
    waiting = Image.objects.filter(status=Image.Status.QUEUED).order_by("pk").values_list("pk", flat=True)
    yield f"Images: the data of {sum(map(take_up_whole, waiting))} has arrived since the copy."
