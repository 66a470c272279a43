"""Image sharing: the owner offers an image to other projects, which accept or reject it."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.http import HttpResponse, QueryDict
from django.urls import reverse

from portal.dashboard.copy_as.calls import Call
from portal.dashboard.copy_as.kinds import image as copied
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import FormPage
from portal.dashboard.images.forms import ShareForm
from portal.dashboard.images.views import ImagePage
from portal.dashboard.records.questions import QuestionPage
from provisioning.common.values.ids import NOBODY
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


class MemberQuestion(QuestionPage, ImagePage):
    """Base of the questions about a member of an image."""

    def find(self) -> None:
        self.record = selectors.image_for(self.context, self.kwargs["image_id"])

    def name(self) -> str:
        return self.record.name or str(self.record.id)


class ImageUnshare(MemberQuestion):
    """Asks for confirmation, and stops sharing an image with a project."""

    rule = "delete_member"
    question = "Stop sharing {name} with this project?"
    consequence = "Instances of the project keep their disks. It can launch no new ones from the image."
    label = "Stop sharing"
    message = "The image is no longer shared with that project."

    def do(self) -> None:
        services.remove_member(self.context, self.record.id, self.kwargs["project_id"])

    def success_url(self) -> str:
        return reverse("dashboard:image_share", args=[self.record.id])


class ImageAccept(MemberQuestion):
    """Asks for confirmation, and accepts an image that another project shares with this project."""

    rule = "modify_member"
    question = "Accept {name}?"
    consequence = (
        "It is added to this project's list of images. It belongs to another project, which can stop sharing it."
    )
    label = "Accept"
    message = "The image is accepted."
    danger = False
    status: ClassVar[ImageMember.Status] = ImageMember.Status.ACCEPTED

    def do(self) -> None:
        services.set_member_status(self.context, self.record.id, self.context.project_id or NOBODY, self.status)


class ImageReject(ImageAccept):
    """Asks for confirmation, and rejects an image that another project shares with this project."""

    question = "Decline {name}?"
    consequence = "It is not listed here. Running instances keep their disks."
    label = "Decline"
    message = "The image is rejected."
    danger = True
    status = ImageMember.Status.REJECTED
