"""Imports: staged data, or a file on the web or of the catalogue, becomes the data of an image, in the background.

At most ``IMPORTS_AT_ONCE`` imports of a project run at the same time, so that slow downloads of one project do not
occupy all workers. When an import ends, the next one of the project starts.

Transitions: queued or uploading → importing → active, each by a conditional update. After a failure the image is
``queued`` again without data, and its task has the reason. If a worker dies, its import starts again.
"""

import contextlib
import logging
import time
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, GoneError, InvalidInputError, NovellaError, TooLargeError
from provisioning.common.tasks import UserTask
from provisioning.identity.models import Project
from provisioning.identity.records import owner_locks
from provisioning.images.data import store
from provisioning.images.data.file_tasks import timeout
from provisioning.images.data.web_address import read_uri
from provisioning.images.models import Image, ImageTask
from provisioning.images.records.formats import check_container, check_taken
from provisioning.images.records.uses import FOLLOWERS
from provisioning.images.services import intake, tasks
from provisioning.images.services.access import move, owned
from provisioning.images.services.announcements import announce
from provisioning.images.services.records import create
from provisioning.images.services.sources import CATALOGUE, Origin, opened
from provisioning.jobs.queue.tasks import JobTask

KIND, OLD_KIND = "api_image_import", "import"
WEB_DOWNLOAD, GLANCE_DIRECT = "web-download", "glance-direct"
STARTS_FROM = {
    WEB_DOWNLOAD: Image.Status.QUEUED,
    CATALOGUE: Image.Status.QUEUED,
    GLANCE_DIRECT: Image.Status.UPLOADING,
}
REPORT_EVERY = 1.0
"""Seconds between two progress reports of an import; each also checks that the image still exists."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ImportRequest:
    """The parameters of an import; ``stores`` None: the default store."""

    method: str
    uri: str | None = None
    origin: Origin | None = None
    """The file of the image catalogue, for the method ``CATALOGUE``, which users cannot request."""
    stores: Sequence[str] | None = None
    body: dict[str, Any] | None = None
    """The request body, for the task's record."""
    old: dict[str, Any] | None = None
    """The input of a task that was created by Glance's older Tasks API, instead of ``body``."""


def import_new(context: RequestContext, specified: dict[str, Any]) -> ImageTask:
    """Create an image from the file at a URL, for Glance's older Tasks API.

    ``specified``: ``import_from`` (the URL), ``import_from_format`` and ``image_properties``, all text. Raises the
    errors of ``create`` and ``Import``, and InvalidInputError if the image is to have another format than the
    file.
    """
    properties = dict(specified["image_properties"])
    values = {name: properties.pop(name) for name in ("name", "visibility", "container_format") if name in properties}
    disk_format = properties.pop("disk_format", specified["import_from_format"])
    if disk_format != specified["import_from_format"]:
        msg = "An image keeps the format of its file: disk_format must be import_from_format."
        raise InvalidInputError(msg, field="disk_format")
    with transaction.atomic():
        image = create(
            context, **{"container_format": "bare", **values}, disk_format=disk_format, properties=properties
        )
        request = ImportRequest(WEB_DOWNLOAD, uri=specified["import_from"], old=specified)
        return Import.begin(context, image.id, request)


class Import(UserTask[Image, ImportRequest, ImageTask], JobTask[ImageTask]):
    """Make staged data, or a file on the web or of the catalogue, the data of an image."""

    rule = "modify_image"
    legal_from = (Image.Status.QUEUED, Image.Status.UPLOADING)
    model = ImageTask
    clock = "updated_at"
    topic, job, payload = "images", "images.import", "task_id"
    leaves_room = True
    timeouts = dict.fromkeys(tasks.OPEN, timeout("importing", 900))
    when_overdue = "the import is queued again, unless it waits for its turn or a process writes its file"

    def complete(self, context: RequestContext, key: str | uuid.UUID, request: ImportRequest) -> ImportRequest:
        """Check method, addresses and store. Raises InvalidInputError, ImportUriError, ConflictError."""
        origin = request.origin
        if origin is None and request.method not in settings.IMPORT_METHODS:
            raise InvalidInputError(f"Unknown import method name '{request.method[:80]}'.", field="method")
        if request.method == WEB_DOWNLOAD:
            read_uri(request.uri)
        if origin is not None and "://" in origin.uri:
            read_uri(origin.uri)
        if origin is not None and origin.digest_uri:
            read_uri(origin.digest_uri)
        unknown = [name for name in request.stores or () if name != settings.IMAGE_STORE_ID]
        if unknown:
            raise ConflictError(f"The selected store {unknown[0][:80]} is not available on this node.", field="stores")
        return request

    def locked(self, context: RequestContext, key: str | uuid.UUID) -> Image:
        return owned(context, key, lock=True)

    def allowed(self, request: ImportRequest) -> Collection[str]:
        return (STARTS_FROM[request.method],)

    def check_start(self, record: Image, request: ImportRequest) -> None:
        """Raise ConflictError with Glance's message for a wrong status or missing formats, and TooLargeError if the
        project's storage quota is used up.
        """
        _check_ready(record, request.method, self.allowed(request))

    def start(self, context: RequestContext, image: Image, request: ImportRequest) -> ImageTask:
        """Create the task, and queue it if it is the project's turn."""
        task = tasks.add(context, image, OLD_KIND if request.old else KIND, request.old or _input(image, request))
        begun = move(
            image.id,
            STARTS_FROM[request.method],
            Image.Status.IMPORTING,
            import_state=_state(importing=settings.IMAGE_STORE_ID, task=task),
        )
        if not begun:
            raise _not_ready(request.method)
        announce(image.project_id, image.id, Image.Status.IMPORTING, 0)
        owner_locks.lock_rows(Project, [task.project_id])
        if tasks.has_turn(task):
            self.queue(task.id)
        return task

    def run(self, key: uuid.UUID) -> None:
        run(key)

    def given_up(self, key: uuid.UUID) -> None:
        fail(key, "The import failed for an internal reason. Report the task's id to your operator.")

    def waits_until(self, subject: ImageTask) -> datetime | None:
        """Return a time while the import waits for its turn, or a process has its file open."""
        alive = subject.image_id is not None and store.upload_is_alive(subject.image_id)
        return timezone.now() if alive or not tasks.has_turn(subject) else None

    def overdue(self, subject: ImageTask) -> None:
        """Queue an import again, because its message may be lost."""
        ImageTask.objects.filter(pk=subject.pk).update(updated_at=timezone.now())
        super().overdue(subject)


def run(task_id: uuid.UUID) -> None:
    """Carry out an import in a worker. An interrupted import starts again from the beginning.

    Errors that the user can correct end the task with the reason; internal errors are raised, so that the job is
    retried.
    """
    task = tasks.begin(task_id)
    if task is None or task.image_id is None:
        return  # it has ended, or waits for its turn
    image = Image.objects.filter(pk=task.image_id, status=Image.Status.IMPORTING).first()
    if image is None or image.import_state.get("os_glance_import_task") != str(task.id):
        with transaction.atomic():
            tasks.fail(task.id, f"Image {task.image_id} was deleted before its import.")
            _call_next(task.project_id)
        return
    try:
        _transfer(task, image)
    except _BusyError:
        log.info("Image %s is already being imported.", image.id)
    except NovellaError as error:
        fail(task_id, error.message)


def fail(task_id: uuid.UUID, reason: str) -> None:
    """Fail an import: its data is removed, the image is ``queued`` again, and the task has the reason."""
    with transaction.atomic():
        task = ImageTask.objects.filter(pk=task_id).first()
        if task is None or task.image_id is None or not tasks.fail(task.id, reason):
            return
        _call_next(task.project_id)
        image = Image.objects.filter(pk=task.image_id).first()
        if image is None or image.import_state.get("os_glance_import_task") != str(task.id):
            return
        state = _state(failed=settings.IMAGE_STORE_ID)
        if move(image.id, Image.Status.IMPORTING, Image.Status.QUEUED, size=None, import_state=state):
            announce(image.project_id, image.id, Image.Status.QUEUED)
            transaction.on_commit(lambda: store.discard(image.id))
            _notify(task, reason)
    log.info("The import of image %s failed: %s", task.image_id, reason)


class _BusyError(Exception):
    """Another worker has locked the file."""


def _transfer(task: ImageTask, image: Image) -> None:
    method = _method_of(task)
    limit = intake.largest(image.project_id) + (image.size or 0)  # staged data is already counted
    if method["name"] != GLANCE_DIRECT:
        with _claimed(store.new_file(image.id), image) as file, opened(method) as source:
            expected = intake.Expected(str(image.disk_format), limit=limit, size=source.size)
            report = _reporter(task, image, source.total)
            facts = intake.receive(
                file, expected, source, progress=lambda done: report(source.came if source.compression else done)
            )
            _publish(task, image, file, facts)
        return
    with _claimed(store.staged_file(image.id), image) as file:
        size = store.staged_of(image.id).stat().st_size
        expected = intake.Expected(str(image.disk_format), limit=limit, size=size)
        progress = _reporter(task, image, size)
        facts = intake.receive(file, expected, intake.pieces(file), progress=progress, keep=False)
        _publish(task, image, file, facts, staged=True)


@contextlib.contextmanager
def _claimed(opened: AbstractContextManager[IO[bytes]], image: Image) -> Iterator[IO[bytes]]:
    """Open a file of the image store.

    Raises _BusyError if another worker has locked it, GoneError if the file does not exist.
    """
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(opened)
        except ConflictError:
            raise _BusyError from None
        except FileNotFoundError:
            raise GoneError(f"The staged data of image {image.id} is missing.") from None
        yield file


def _publish(task: ImageTask, image: Image, file: IO[bytes], facts: dict[str, Any], *, staged: bool = False) -> None:
    def also() -> None:
        tasks.succeed(task.id, facts["size"], {"image_id": str(image.id)})
        announce(image.project_id, image.id, Image.Status.ACTIVE)
        _call_next(task.project_id)
        _notify(task)

    intake.publish(
        image.id,
        file,
        {**facts, "import_state": _state()},
        before=Image.Status.IMPORTING,
        source=store.staged_of(image.id) if staged else None,
        also=also,
    )


def _reporter(task: ImageTask, image: Image, total: int | None) -> intake.Progress:
    """Return a function that records progress at intervals, and raises GoneError if the image was deleted."""
    last = time.monotonic()

    def report(done: int) -> None:
        nonlocal last
        if time.monotonic() - last < REPORT_EVERY:
            return
        last = time.monotonic()
        with transaction.atomic():
            if not Image.objects.filter(pk=image.pk, status=Image.Status.IMPORTING).exists():
                raise GoneError(f"Image {image.id} was deleted during its import.")
            tasks.move_on(task.id, done, total)
            announce(image.project_id, image.id, Image.Status.IMPORTING, 100 * done // total if total else None)

    return report


def _notify(task: ImageTask, reason: str = "") -> None:
    for follower in FOLLOWERS:
        follower(task, reason)


def _call_next(project_id: uuid.UUID) -> None:
    """Queue the next waiting import of the project, because another one has ended. Runs in the caller's transaction."""
    owner_locks.lock_rows(Project, [project_id])
    following = tasks.last_in_turn(project_id)
    if following is not None:
        Import().queue(following)


def _input(image: Image, request: ImportRequest) -> dict[str, Any]:
    """Return the import's parameters as ``ImageTask.input``, which the API shows."""
    method = {"name": request.method, **({"uri": request.uri} if request.uri else {})}
    if request.origin is not None:
        method = request.origin.method
    return {
        "image_id": str(image.id),
        "import_req": request.body or {"method": method},
        "backend": [settings.IMAGE_STORE_ID],
    }


def _method_of(task: ImageTask) -> dict[str, Any]:
    """Return the import method: its ``name``, and the ``uri`` of a download."""
    if task.type == OLD_KIND:
        return {"name": WEB_DOWNLOAD, "uri": task.input["import_from"]}
    result: dict[str, Any] = task.input["import_req"]["method"]
    return result


def _check_ready(image: Image, method: str, allowed: Collection[str]) -> None:
    if image.status == Image.Status.ACTIVE:
        raise ConflictError("Image with status active cannot be target for import")
    staged = method != GLANCE_DIRECT or store.staged_of(image.id).exists()
    if image.status not in allowed or not staged:
        raise _not_ready(method)
    for name in ("container_format", "disk_format"):
        if not getattr(image, name):
            raise ConflictError(f"'{name}' needs to be set before import", field=name)
    check_taken(str(image.disk_format))
    check_container(str(image.disk_format), str(image.container_format))
    if intake.largest(image.project_id) + (image.size or 0) <= 0:
        raise TooLargeError("The project's storage quota is used up.")


def _not_ready(method: str) -> ConflictError:
    if method == GLANCE_DIRECT:
        return ConflictError("Image needs to be staged before 'glance-direct' method can be used")
    return ConflictError(f"Image needs to be in 'queued' state to use '{method}' method")


def _state(*, importing: str = "", failed: str = "", task: ImageTask | None = None) -> dict[str, str]:
    """Return the ``os_glance_*`` attributes that show an import."""
    shown = {"os_glance_importing_to_stores": importing, "os_glance_failed_import": failed}
    return shown if task is None else {**shown, "os_glance_import_task": str(task.id)}
