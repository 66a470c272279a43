"""Adapts images after the database was restored from a backup: data that arrived after the backup is kept."""

from collections.abc import Iterable

from provisioning.images.models import Image
from provisioning.images.services.recovery import adopt_complete


def complete_images() -> Iterable[str]:
    """Set queued images with complete data to ``saving``, so that the periodic job completes them.

    Yields a sentence for the operator.
    """
    waiting = Image.objects.filter(status=Image.Status.QUEUED).order_by("pk").values_list("pk", flat=True)
    yield f"Images: the data of {sum(map(adopt_complete, waiting))} arrived after the backup."
