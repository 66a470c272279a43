"""Image sharing: the owner offers an image to other projects, which accept or reject it."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict

from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds import image as copied
from portal.dashboard.forms import Form
from portal.dashboard.images.forms import ShareForm
from portal.dashboard.images.views import ImagePage
from portal.dashboard.names import bdi
from portal.dashboard.pages import FormPage
from provisioning.common.ids import NOBODY
from provisioning.identity.selectors.lookups import projects_by_id
from provisioning.images import selectors, services
from provisioning.images.models import ImageMember


class ImageShare(FormPage, ImagePage):
    """The projects that an image is shared with, and the form to add one."""

    rule = "add_member"
    template = "dashboard/images/share.html"

    def form(self, data: QueryDict | None = None) -> Form:
        return ShareForm(data)

    def save(self, form: Form) -> HttpResponse:
        image_id = self.kwargs["image_id"]
        services.add_member(self.context, image_id, form.cleaned_data["project"])
        return self.go("dashboard:image_share", image_id, message="The project can use the image now.")

    def calls(self, form: Form) -> Sequence[Call]:
        return [Call(copied.MEMBER, {"image": str(self.kwargs["image_id"]), "member": form.cleaned_data["project"]})]

    def extra_context(self) -> Mapping[str, Any]:
        image = selectors.image_for(self.context, self.kwargs["image_id"])
        members = selectors.members_for(self.context, image.id)
        known = projects_by_id([member.project_id for member in members])
        rows = [
            {"id": member.project_id, "name": str(known.get(member.project_id) or ""), "status": member.status}
            for member in members
        ]
        return {"image": image, "rows": rows, "can_remove": self.allows("delete_member")}


class ImageUnshare(ImagePage):
    """Asks for confirmation, and stops sharing an image with a project."""

    rule = "delete_member"

    def get(self, request: HttpRequest, image_id: uuid.UUID, project_id: uuid.UUID) -> HttpResponse:
        image = selectors.image_for(self.context, image_id)
        title = f"Stop sharing {bdi(image.name or image.id)} with this project?"
        return self.ask_first(
            title,
            "Instances of the project keep their disks. It can launch no new ones from the image.",
            "Stop sharing",
        )

    def post(self, request: HttpRequest, image_id: uuid.UUID, project_id: uuid.UUID) -> HttpResponse:
        services.remove_member(self.context, image_id, project_id)
        return self.go("dashboard:image_share", image_id, message="The image is no longer shared with that project.")


class ImageAnswer(ImagePage):
    """Asks for confirmation, and accepts or rejects an image that another project shares with this project."""

    rule = "modify_member"
    status = ImageMember.Status.ACCEPTED

    def get(self, request: HttpRequest, image_id: uuid.UUID) -> HttpResponse:
        image = selectors.image_for(self.context, image_id)
        name, accepts = image.name or str(image.id), self.status == ImageMember.Status.ACCEPTED
        return self.ask_first(
            f"Accept {bdi(name)}?" if accepts else f"Decline {bdi(name)}?",
            "It is added to this project's list of images. It belongs to another project, which can stop sharing it."
            if accepts
            else "It is not listed here. Running instances keep their disks.",
            "Accept" if accepts else "Decline",
            danger=not accepts,
        )

    def post(self, request: HttpRequest, image_id: uuid.UUID) -> HttpResponse:
        mine = self.context.project_id or NOBODY
        services.set_member_status(self.context, image_id, mine, self.status)
        return self.go("dashboard:images", message=f"The image is {self.status}.")
