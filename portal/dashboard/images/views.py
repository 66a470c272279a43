"""Images: the list, uploading, deleting."""

import uuid
from typing import cast

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.urls import reverse

from portal.dashboard.forms import Form
from portal.dashboard.images.forms import UploadForm
from portal.dashboard.images.rows import rows_for
from portal.dashboard.pages import FormPage, Page
from portal.web import upload_shares
from portal.web.streams import BodyInterruptedError, body_of
from provisioning.common.errors import NotFoundError, NovellaError
from provisioning.identity import policy
from provisioning.images import selectors, services
from provisioning.images.models import Image, ImageMember

PAGE_SIZE = 100
WEB_DOWNLOAD = "web-download"


class ImagePage(Page):
    """Base of the pages of this panel."""

    section = "images"
    back_to = "dashboard:images"
    rule = "get_images"


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
        can_create = self.allows("add_image")
        values = {"live_since": since, "rows": rows, "more": more, "can_create": can_create}
        return self.page("dashboard/images/list.html", values)


class ImageUpload(FormPage, ImagePage):
    """The form for a new image; the browser then sends the file to ImageData."""

    rule = "add_image"
    template = "dashboard/images/upload.html"

    def form(self, data: QueryDict | None = None) -> UploadForm:
        return UploadForm(
            data,
            can_import=WEB_DOWNLOAD in settings.IMPORT_METHODS and self.allows("modify_image"),
            can_publish=self.allows("publicize_image"),
            can_communitize=self.allows("communitize_image"),
        )

    def save(self, form: Form) -> HttpResponse:
        """Make the record and say where the file goes, or have it fetched."""
        typed, record = form.cleaned_data, cast("UploadForm", form).image
        if typed["source"] != "web":
            image = services.create(self.context, **record)
            return JsonResponse({"upload": reverse("dashboard:image_data", args=[image.id])}, status=201)
        policy.enforce(self.context, "modify_image")
        with transaction.atomic():
            image = services.create(self.context, **record)
            services.import_image(self.context, image.id, services.ImportRequest(WEB_DOWNLOAD, uri=typed["uri"]))
        return JsonResponse({"next": reverse("dashboard:images")}, status=201)

    def show(self, form: Form, *, status: int = 200) -> HttpResponse:
        """Show the form; to the script, which keeps the file that was chosen, say what is wrong with which field."""
        if not form.is_bound:
            return super().show(form, status=status)
        field, errors = next(iter(form.errors.items()))
        place = field if field in form.fields else ""
        return JsonResponse({"field": place, "message": errors[0]}, status=status)


class ImageData(ImagePage):
    """The file of a new image, streamed as it arrives."""

    rule = "upload_image"
    http_method_names = ["put"]

    def put(self, request: HttpRequest, image_id: uuid.UUID) -> HttpResponse:
        """Store and inspect it.  A file that is refused takes its record along: the person begins anew."""
        image = selectors.image_for(self.context, image_id)
        try:
            with upload_shares.share_of(self.context):
                services.upload(self.context, image.id, body_of(request))
        except BodyInterruptedError as error:
            self._forget(image.id)
            return JsonResponse({"message": str(error)}, status=400)
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
    """Asks, and deletes an image."""

    rule = "delete_image"

    def get(self, request: HttpRequest, image_id: uuid.UUID) -> HttpResponse:
        image = selectors.image_for(self.context, image_id)
        return self.ask_first(
            f"Delete {image.name or image.id}?",
            "New instances cannot start from it any more. Those that run keep their disks.",
        )

    def post(self, request: HttpRequest, image_id: uuid.UUID) -> HttpResponse:
        image = selectors.image_for(self.context, image_id)
        services.delete(self.context, image.id)
        return self.go("dashboard:images", said=f"{image.name or image.id} was deleted.")
