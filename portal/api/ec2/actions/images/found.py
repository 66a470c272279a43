"""The image that a request specifies."""

from django.db.models import QuerySet

from portal.api.ec2 import names, owned
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call
from provisioning.common.context import RequestContext
from provisioning.common.ids import NOBODY
from provisioning.images.models import Image
from provisioning.images.selectors import images_of_use


def image_of(call: Call, ec2_id: str) -> Image:
    """Return an image that the caller's project may use. Raises Ec2Error."""
    return names.one(names.IMAGE, ec2_id, images_of_use(call.project_id, listed=False))


def own_image_of(call: Call, ec2_id: str) -> Image:
    """Return an image of the caller's project. Raises Ec2Error, with the code AuthFailure for an image of another
    project.
    """
    image = image_of(call, ec2_id)
    if image.project_id != call.project_id:
        raise Ec2Error("AuthFailure", f"Not authorized for image:{ec2_id}", status=403)
    return image


def _own(context: RequestContext) -> QuerySet[Image]:
    project = context.project_id or NOBODY
    return images_of_use(project, listed=False).filter(project_id=project)


owned.register(names.IMAGE, _own)
