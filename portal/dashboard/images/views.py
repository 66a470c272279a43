"""Images: the list, the upload, the end."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse

from portal.common.streams import BodyInterruptedError, body_of
from portal.dashboard.forms import whole_number
from portal.dashboard.images.rows import rows_for
from portal.dashboard.pages import Page
from provisioning.common.errors import NotFoundError, NovellaError
from provisioning.identity import policy
from provisioning.images import selectors, services
from provisioning.images.inspection import BOOTABLE_FORMATS
from provisioning.images.models import Image, ImageMember

PAGE_SIZE = 100
WEB_DOWNLOAD = "web-download"


class ImagePage(Page):
    """Base of the pages of this panel."""

    section = "images"
    rule = "image:images:list"

    def back(self) -> str:
        """Refusals are shown on the list."""
        return "dashboard:images"


class ImageList(ImagePage):
    """The images that the project can use."""

    live_page = "images"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show them, newest first."""
        since = self.live_since()
        marker = request.GET.get("marker")
        try:
            images = selectors.images_for(self.context, limit=PAGE_SIZE + 1, marker=marker)
        except NovellaError:  # the last image of the page before is gone
            images = selectors.images_for(self.context, limit=PAGE_SIZE + 1)
        more = str(images[PAGE_SIZE - 1].id) if len(images) > PAGE_SIZE else ""
        answers = {answer.image_id: answer for answer in selectors.answers_for(self.context)}
        offers = [answer.image for answer in answers.values() if answer.status == ImageMember.Status.PENDING]
        shown = images[:PAGE_SIZE]
        if not marker:
            shown = [*offers, *(image for image in shown if image not in offers)]
        rows = rows_for(self.context, shown, answers)
        can_create = self.allows("image:images:create")
        values = {"live_since": since, "rows": rows, "more": more, "can_create": can_create}
        return self.page("dashboard/images/list.html", values)


class ImageUpload(ImagePage):
    """The form for a new image; the browser then sends the file to ImageData."""

    rule = "image:images:create"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the form."""
        context = {
            "formats": [name for name in BOOTABLE_FORMATS if name != "ami"],
            "can_import": WEB_DOWNLOAD in settings.IMPORT_METHODS and self.allows("image:images:import"),
            "can_publish": self.allows("image:images:publicize"),
            "can_communitize": self.allows("image:images:communitize"),
        }
        return self.page("dashboard/images/upload.html", context)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Make the record and say where the file goes, or have it fetched; errors come back with their field."""
        try:
            if request.POST.get("source") == "web":
                policy.enforce(self.context, "image:images:import")
                with transaction.atomic():
                    image = self._create(request)
                    asked = services.ImportRequest(WEB_DOWNLOAD, uri=request.POST.get("uri", "").strip())
                    services.import_image(self.context, image.id, asked)
                return JsonResponse({"next": reverse("dashboard:images")}, status=201)
            image = self._create(request)
        except NovellaError as error:
            return JsonResponse({"field": error.field or "", "message": error.message}, status=422)
        return JsonResponse({"upload": reverse("dashboard:image_data", args=[image.id])}, status=201)

    def _create(self, request: HttpRequest) -> Image:
        given = request.POST
        return services.create(
            self.context,
            name=given.get("name", "").strip(),
            disk_format=given.get("disk_format", ""),
            container_format="bare",
            visibility=given.get("visibility") or "private",
            min_disk=whole_number(given.get("min_disk", ""), "The least disk", field="min_disk", empty=0),
            min_ram=whole_number(given.get("min_ram", ""), "The least memory", field="min_ram", empty=0),
            properties=_login(given.get("login", "").strip()),
        )


class ImageData(ImagePage):
    """The file of a new image, streamed as it arrives."""

    rule = "image:images:upload"
    http_method_names = ["put"]

    def put(self, request: HttpRequest, image_id: uuid.UUID) -> HttpResponse:
        """Store and inspect it.  A file that is refused takes its record along: the person begins anew."""
        image = selectors.image_for(self.context, image_id)
        try:
            services.upload(self.context, image.id, body_of(request))
        except BodyInterruptedError:
            self._forget(image.id)
            return JsonResponse({"message": "The upload was interrupted."}, status=400)
        except NovellaError as error:
            if image.status == Image.Status.QUEUED:
                self._forget(image.id)
            return JsonResponse({"field": "file", "message": error.message}, status=422)
        messages.success(request, f"{image.name or 'The image'} is ready.")
        return JsonResponse({"next": reverse("dashboard:images")}, status=201)

    def _forget(self, image_id: uuid.UUID) -> None:
        try:
            services.delete(self.context, image_id)
        except NotFoundError:
            return


class ImageDelete(ImagePage):
    """The end of an image."""

    rule = "image:images:delete"

    def get(self, request: HttpRequest, image_id: uuid.UUID) -> HttpResponse:
        """Ask."""
        image = selectors.image_for(self.context, image_id)
        return self.ask_first(
            f"Delete {image.name or image.id}?",
            "New instances cannot start from it any more. Those that run keep their disks.",
        )

    def post(self, request: HttpRequest, image_id: uuid.UUID) -> HttpResponse:
        """Delete."""
        image = selectors.image_for(self.context, image_id)
        services.delete(self.context, image.id)
        return self.go("dashboard:images", said=f"{image.name or image.id} was deleted.")


def _login(name: str) -> dict[str, str]:
    return {"os_admin_user": name} if name else {}
