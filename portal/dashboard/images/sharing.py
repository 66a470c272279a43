"""Images shared with other projects: offered by their owner, accepted or declined by each."""

from __future__ import annotations

import uuid

from django.http import HttpRequest, HttpResponse

from portal.dashboard.images.views import ImagePage
from provisioning.common.errors import ConflictError, InvalidInputError, TooLargeError
from provisioning.identity import selectors as identity
from provisioning.images import selectors, services
from provisioning.images.models import ImageMember


class ImageShare(ImagePage):
    """With which projects an image is shared, and the form for one more."""

    rule = "image:members:add"

    def get(self, request: HttpRequest, image_id: uuid.UUID) -> HttpResponse:
        """Show them."""
        return self._shown(image_id)

    def post(self, request: HttpRequest, image_id: uuid.UUID) -> HttpResponse:
        """Share it with a project."""
        project = request.POST.get("project", "").strip()
        try:
            services.add_member(self.context, image_id, project)
        except (InvalidInputError, ConflictError, TooLargeError) as error:
            return self._shown(image_id, project=project, error=error.message)
        return self.go("dashboard:image_share", image_id, said="The project can use the image now.")

    def _shown(self, image_id: uuid.UUID, *, project: str = "", error: str = "") -> HttpResponse:
        image = selectors.image_for(self.context, image_id)
        members = selectors.members_for(self.context, image_id)
        known = identity.projects_by_id([member.project_id for member in members])
        rows = [
            {"id": member.project_id, "name": str(known.get(member.project_id) or ""), "status": member.status}
            for member in members
        ]
        context = {
            "image": image,
            "rows": rows,
            "project": project,
            "error": error,
            "can_remove": self.allows("image:members:remove"),
        }
        return self.page("dashboard/images/share.html", context, status=422 if error else 200)


class ImageUnshare(ImagePage):
    """The end of sharing with one project."""

    rule = "image:members:remove"

    def get(self, request: HttpRequest, image_id: uuid.UUID, project_id: uuid.UUID) -> HttpResponse:
        """Ask."""
        image = selectors.image_for(self.context, image_id)
        title = f"Share {image.name or image.id} with this project no longer?"
        return self.ask_first(title, "What runs there keeps its disks; nothing new starts from it.", "Stop sharing")

    def post(self, request: HttpRequest, image_id: uuid.UUID, project_id: uuid.UUID) -> HttpResponse:
        """Stop."""
        services.remove_member(self.context, image_id, project_id)
        return self.go("dashboard:image_share", image_id, said="The image is shared with that project no longer.")


class ImageAnswer(ImagePage):
    """What this project says to an image that it is offered."""

    rule = "image:members:update"
    status = ImageMember.Status.ACCEPTED

    def get(self, request: HttpRequest, image_id: uuid.UUID) -> HttpResponse:
        """Ask."""
        image = selectors.image_for(self.context, image_id)
        name, accepts = image.name or str(image.id), self.status == ImageMember.Status.ACCEPTED
        return self.ask_first(
            f"Accept {name}?" if accepts else f"Decline {name}?",
            "It will stand among the images of this project, which another project keeps and may withdraw."
            if accepts
            else "It will not be listed here. Instances that run keep their disks.",
            "Accept" if accepts else "Decline",
            danger=not accepts,
        )

    def post(self, request: HttpRequest, image_id: uuid.UUID) -> HttpResponse:
        """Say so."""
        mine = self.context.project_id or uuid.UUID(int=0)
        services.set_member_status(self.context, image_id, mine, self.status)
        return self.go("dashboard:images", said=f"The image is {self.status}.")
