"""The images of projects and their limits."""

from provisioning.ec2.kinds import Kind
from provisioning.identity.records.project_resources import Ids, Owned
from provisioning.images.models import Image, ImageMember
from provisioning.images.selectors.storage import measured
from provisioning.quotas.registry import Measured


def _images(project_ids: Ids) -> int:
    return Image.objects.filter(project_id__in=project_ids, deleted_at=None).count()


def _remove_memberships(project_ids: Ids) -> None:
    ImageMember.objects.filter(project_id__in=project_ids).delete()


OF_PROJECTS = (Owned("images", count=_images), Owned("image memberships", remove=_remove_memberships))
EC2_KINDS = (Kind("ami", "image", Image),)
LIMITED = Measured(measured, {"images.Image": ("image_size_total", "image_count_total")})
UNLIMITED = {
    "images.ImageTag": "At most 128 for each image.",
    "images.ImageProperty": "At most 128 for each image.",
    "images.ImageMember": "At most NOVELLA_IMAGE_MEMBER_LIMIT for each image; belongs to the image's owner.",
    "images.ImageTask": "One import of an image at a time; deleted some time after its end.",
}
