"""Batches of images and key pairs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from provisioning.batches.kinds.base import deletion, each, read_ids
from provisioning.batches.kinds.declaration import Argument, BatchAction, Kind, Task
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.compute import selectors as compute
from provisioning.compute.models import KeyPair
from provisioning.compute.services.key_pairs import delete_key_pair
from provisioning.identity import policy
from provisioning.images import selectors as images
from provisioning.images import services as image_services
from provisioning.images.models import Image
from provisioning.images.records.fields import BECOMING

VISIBILITY = "visibility"
AUDIENCES = {
    Image.Visibility.PRIVATE.value: "the project that owns it",
    Image.Visibility.SHARED.value: "the project that owns it, and projects it is shared with",
    Image.Visibility.COMMUNITY.value: "projects that know its ID",
    Image.Visibility.PUBLIC.value: "all projects, in their lists",
}
"""Visibility of an image → the projects that see it."""


def _delete_image(task: Task) -> None:
    image_services.delete(task.context, task.id)


def _set_protected(*, protected: bool) -> Callable[[Task], object]:
    return lambda task: image_services.update(task.context, task.id, {"protected": protected})


def _audiences(context: RequestContext) -> Sequence[tuple[str, str]]:
    return [
        (value, label)
        for value, label in AUDIENCES.items()
        if value not in BECOMING or policy.allows(context, BECOMING[value][0])
    ]


def _check_audience(text: str) -> None:
    if text not in AUDIENCES:
        raise InvalidInputError("Choose one of the projects.")


def _set_visibility(task: Task) -> None:
    image_services.update(task.context, task.id, {"visibility": task.arguments[VISIBILITY]})


_visibility = Argument(
    VISIBILITY,
    "Visible to",
    "",
    _check_audience,
    max(map(len, AUDIENCES)),
    lambda: Image.Visibility.PRIVATE.value,
    choices=_audiences,
)


def _key_pairs(context: RequestContext, ids: Sequence[str]) -> Iterable[KeyPair]:
    return [pair for pair in compute.key_pairs_for(context) if str(pair.pk) in ids]


_PROTECTED = each(lambda record: "protected" if record.protected else "")
IMAGES = Kind(
    "images",
    "image",
    "images",
    lambda context, ids: images.images_by_id(context, read_ids(ids)),
    (
        BatchAction(
            "protect",
            "Protect",
            "shield-lock",
            "modify_image",
            "They cannot be deleted until the protection is removed.",
            _set_protected(protected=True),
            refusals=_PROTECTED,
        ),
        BatchAction(
            "unprotect",
            "Remove protection",
            "shield-slash",
            "modify_image",
            "They can be deleted again.",
            _set_protected(protected=False),
            refusals=each(lambda record: "" if record.protected else "not protected"),
        ),
        BatchAction(
            "visibility",
            "Change visibility",
            "eye",
            "modify_image",
            "Projects that no longer see an image cannot launch from it. Running instances keep their disks.",
            _set_visibility,
            argument=_visibility,
        ),
        replace(
            deletion(
                "delete_image",
                "New instances can no longer be launched from them. Running instances keep their disks.",
                _delete_image,
            ),
            refusals=_PROTECTED,
        ),
    ),
)
KEY_PAIRS = Kind(
    "key_pairs",
    "key pair",
    "key pairs",
    _key_pairs,
    (
        deletion(
            "os_compute_api:os-keypairs:delete",
            "They are no longer offered at launch. Existing instances keep the keys.",
            lambda task: delete_key_pair(task.context, task.record.name),
        ),
    ),
)
