"""Rows of the image list: the image and the permitted actions."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from portal.common import statuses
from portal.dashboard.images.hardware_words import summary
from portal.dashboard.words import wording
from portal.dashboard.words.names import bdi
from provisioning.common.context import RequestContext
from provisioning.identity import policy
from provisioning.images import selectors
from provisioning.images.models import Image, ImageMember, ImageTask
from provisioning.images.selectors.tasks import newest_tasks

Row = dict[str, Any]
MOST_UNFINISHED = 20


def rows_for(
    context: RequestContext, images: Sequence[Image], answers: Mapping[UUID, ImageMember] | None = None
) -> list[Row]:
    """Return the rows of images; ``answers``: image id → the project's answer to an image shared with it."""
    if answers is None:
        answers = {answer.image_id: answer for answer in selectors.answers_for(context)}
    unready = [image.id for image in images if image.status in (Image.Status.IMPORTING, Image.Status.QUEUED)]
    tasks = newest_tasks(context, unready)
    return [
        {
            **_row(context, image, answers.get(image.id)),
            **_import(image, tasks.get(image.id)),
            **_upload(context, image),
        }
        for image in images
    ]


def rows_of_unfinished(context: RequestContext) -> list[Row]:
    """Return the rows of the project's unfinished uploads."""
    images = selectors.images_for(context, {"status": [Image.Status.UPLOADING]}, limit=MOST_UNFINISHED)
    return [row for row in rows_for(context, images, {}) if row.get("can_resume")]


def may_delete(context: RequestContext, image: Image) -> bool:
    """Whether the delete button is shown: policy, ownership, protection."""
    own = image.project_id == context.project_id or policy.allows(context, "novella:get_images:all_projects")
    return own and not image.protected and policy.allows(context, "delete_image")


def _row(context: RequestContext, image: Image, answer: ImageMember | None) -> Row:
    mine = image.project_id == context.project_id
    offered = answer is not None and answer.status != ImageMember.Status.ACCEPTED
    answers = answer is not None and not mine and policy.allows(context, "modify_member")
    seen_by = image.visibility if answer is None or mine else "offered" if offered else "lent"
    if not mine and seen_by in {Image.Visibility.PRIVATE, Image.Visibility.SHARED}:
        seen_by = f"{seen_by} of others"
    shareable = mine and image.visibility == Image.Visibility.SHARED
    return {
        "image": image,
        "status": statuses.IMAGE_STATUS.get(image.status, statuses.UNKNOWN),
        "mine": mine,
        "seen_by": wording.SEEN_BY[seen_by],
        "hardware": summary(image),
        "can_equip": mine and policy.allows(context, "modify_image"),
        "can_delete": may_delete(context, image),
        "can_share": shareable and policy.allows(context, "add_member"),
        "can_accept": answers and offered,
        "can_decline": answers,
    }


def _import(image: Image, task: ImageTask | None) -> Row:
    """Return the progress of a running import, or the error of a failed import."""
    percent, reason = None, ""
    if task is not None and image.status == Image.Status.IMPORTING:
        percent = 100 * task.done // task.total if task.total else 0
        reason = task.message
    elif task is not None and task.status == ImageTask.Status.FAILURE:
        reason = task.message
    return {"percent": percent, "reason": reason}


def _upload(context: RequestContext, image: Image) -> Row:
    """Return the progress of an upload in parts, and whether the caller may resume it."""
    arrived = selectors.arrived_of(image)
    if arrived is None:
        return {}
    can_resume = image.project_id == context.project_id and policy.allows(context, "upload_image")
    return {"percent": 100 * arrived // (image.size or 1), "arrived": arrived, "can_resume": can_resume}


def announcement_of(row: Row) -> str:
    """Return the message at the end of an import."""
    image: Image = row["image"]
    name = image.name or str(image.id)
    if image.status == Image.Status.ACTIVE:
        return f"{bdi(name)} is ready"
    return f"{bdi(name)} could not be imported" if image.status == Image.Status.QUEUED and row["reason"] else ""
