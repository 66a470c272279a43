"""Tasks that write the file of an image: their timeouts and base class."""

import uuid
from datetime import datetime
from typing import ClassVar

from provisioning.common.tasks import TASKS, RecordTask, Timeout
from provisioning.images.data import store
from provisioning.images.models import Image


def timeout(name: str, seconds: int) -> Timeout:
    """Return the timeout with this name in NOVELLA_IMAGE_TIMEOUTS and its default in seconds."""
    return Timeout("IMAGE_TIMEOUTS", name, seconds)


class FileTask(RecordTask[Image]):
    """Writes the file of an image in the process that receives the data. It is interrupted if that process has died."""

    model = Image
    status: ClassVar[Image.Status]
    """The status during the task."""
    clock = "updated_at"

    def give_up(self, key: uuid.UUID, now: datetime) -> bool:
        """Give up the task outside of a transaction, because it may read the whole file."""
        image = Image.objects.filter(TASKS.late(Image, now), pk=key).first()
        if image is None or self.in_progress(image):
            return False
        self.overdue(image)
        return True

    def in_progress(self, image: Image) -> bool:
        """Return whether a process writes the file, or the data may still wait for its next part."""
        return store.upload_is_alive(image.id)
