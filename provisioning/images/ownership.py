"""What projects own in images, and what of it is limited."""

from provisioning.ec2 import kinds
from provisioning.identity import project_resources
from provisioning.identity.project_resources import Ids
from provisioning.images.models import Image, ImageMember
from provisioning.images.selectors.storage import measured
from provisioning.quotas import registry


def register() -> None:
    """Keep projects with images, and say what limits them.  Images have ids of EC2."""
    kinds.register("ami", "image", Image)
    project_resources.register("images", _images)
    project_resources.register("image memberships", None, _remove_memberships)
    registry.measure("images", measured, {"images.Image": ("image_size_total", "image_count_total")})
    registry.leave_free(
        {
            "images.ImageTag": "At most 128 of each image.",
            "images.ImageProperty": "At most 128 of each image.",
            "images.ImageMember": "NOVELLA_IMAGE_MEMBER_LIMIT of each image; held by the image's owner.",
            "images.ImageTask": "One import of an image at a time, and removed some time after its end.",
        }
    )


def _images(project_ids: Ids) -> int:
    return Image.objects.filter(project_id__in=project_ids, deleted_at=None).count()


def _remove_memberships(project_ids: Ids) -> None:
    ImageMember.objects.filter(project_id__in=project_ids).delete()
