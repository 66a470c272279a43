"""Images: the list, uploading, deleting."""

import base64
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, cast

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.urls import reverse

from portal.common.http.error_status import status_of
from portal.dashboard.copy_as.calls import Call, Result
from portal.dashboard.copy_as.kinds import image as copied
from portal.dashboard.frame.forms import Form
from portal.dashboard.frame.pages import FormPage, Page
from portal.dashboard.images.forms import UploadForm
from portal.dashboard.images.listing import IMAGES
from portal.dashboard.images.rows import rows_of_unfinished
from portal.dashboard.lists.views import ListPage
from portal.dashboard.records.questions import QuestionPage
from portal.dashboard.words.names import bdi
from portal.dashboard.words.plain import plain
from portal.web import upload_shares
from portal.web.streams import BodyInterruptedError, body_of
from provisioning.common.errors import (
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    NovellaError,
    TooLargeError,
)
from provisioning.identity import policy
from provisioning.images import selectors, services
from provisioning.images.errors import ImageContentError, UploadOffsetError
from provisioning.images.models import Image

WEB_DOWNLOAD = "web-download"
COMPARED = 1024
"""Number of bytes before the resume position that the browser compares, to check that the chosen file is the same file.
"""
LONGEST_NUMBER = 18


class ImagePage(Page):
    """Base of the pages of this panel."""

    section = "images"
    back_to = "dashboard:images"
    rule = "get_images"


class ImageList(ListPage, ImagePage):
    """The images that the project may use."""

    records = IMAGES
    lead = "The disks that instances start from. Each image is inspected when it is uploaded."


class ImageUpload(FormPage, ImagePage):
    """The form for a new image; the script upload.js then sends the file to ImageData."""

    rule = "add_image"
    template = "dashboard/images/upload.html"

    def form(self, data: QueryDict | None = None) -> UploadForm:
        return UploadForm(
            data,
            can_import=WEB_DOWNLOAD in settings.IMPORT_METHODS and self.allows(services.Import.rule),
            can_publish=self.allows("publicize_image"),
            can_communitize=self.allows("communitize_image"),
        )

    def save(self, form: Form) -> HttpResponse:
        """Create the record and return the address for the file, or start the download from a URL."""
        typed, record = form.cleaned_data, cast("UploadForm", form).image
        if typed["source"] != "web":
            policy.enforce(self.context, "upload_image")
            image = services.begin_upload(self.context, typed["size"], **record)
            return JsonResponse({"upload": reverse("dashboard:image_data", args=[image.id])}, status=201)
        policy.enforce(self.context, services.Import.rule)
        with transaction.atomic():
            image = services.create(self.context, **record)
            services.Import.begin(self.context, image.id, services.ImportRequest(WEB_DOWNLOAD, uri=typed["uri"]))
        if not self._is_script():
            return self.go("dashboard:images")
        return JsonResponse({"next": reverse("dashboard:images")}, status=201)

    def form_to_copy(self) -> Form:
        """A file that is not chosen yet is a placeholder in the lines."""
        data = self.request.POST.copy()
        data["size"] = data.get("size") or "0"
        return self.form(data)

    def calls(self, form: Form) -> Sequence[Call]:
        typed, record = form.cleaned_data, cast("UploadForm", form).image
        names = ("name", "disk_format", "container_format", "visibility", "min_disk", "min_ram")
        values = {**{name: record[name] for name in names}, "login": typed["login"]}
        if typed.get("source") != "web":
            file = f"disk.{record['disk_format']}"
            image = Call(copied.IMAGE, {**values, "file": file})
            return [image, Call(copied.DATA, {"image": Result(image), "file": file})]
        terraform = {"web_download": True}
        ansible = {"import_method": WEB_DOWNLOAD, "use_import": True}
        image = Call(copied.IMAGE, {**values, "uri": typed["uri"], **terraform, **ansible})
        return [image, Call(copied.IMPORT, {"image": Result(image), "method": WEB_DOWNLOAD, "uri": typed["uri"]})]

    def show(self, form: Form, *, status: int = 200) -> HttpResponse:
        """Show the form; the script, which keeps the chosen file, gets the error and its field as JSON."""
        if not form.is_bound or not self._is_script():
            return super().show(form, status=status)
        field, errors = next(iter(form.errors.items()))
        place = field if field in form.fields else ""
        return JsonResponse({"field": place, "message": errors[0]}, status=status)

    def extra_context(self) -> Mapping[str, Any]:
        return {"unfinished": rows_of_unfinished(self.context)}

    def _is_script(self) -> bool:
        return self.request.headers.get("Accept") == "application/json"


class ImageResume(ImagePage):
    """The form to choose the file of an unfinished upload again."""

    rule = "upload_image"

    def get(self, request: HttpRequest, image_id: uuid.UUID) -> HttpResponse:
        image = selectors.image_for(self.context, image_id)
        arrived = selectors.arrived_of(image)
        if arrived is None:
            return self.go("dashboard:images")
        return self.page("dashboard/images/resume.html", {"image": image, "arrived": arrived})


class ImageData(ImagePage):
    """The file of a new image, sent in parts by upload.js.

    ``GET`` returns the number of received bytes and the last of them, ``PUT`` adds a part at ``Upload-Offset``,
    ``DELETE`` cancels the upload. Responses are JSON: ``offset`` and ``size`` in bytes, ``next`` (an address) when the
    image is ready, ``field`` and ``message`` of an error.
    """

    rule = "upload_image"
    http_method_names = ["get", "put", "delete"]

    def get(self, request: HttpRequest, image_id: uuid.UUID) -> HttpResponse:
        image = selectors.image_for(self.context, image_id)
        if image.status == Image.Status.ACTIVE:
            return self._ready(image)
        arrived = selectors.arrived_of(image)
        if arrived is None:
            raise NotFoundError("No upload to this image is in progress.")
        end = base64.b64encode(selectors.end_of_arrived(image, COMPARED)).decode()
        return JsonResponse({"offset": arrived, "size": image.size, "end": end})

    def put(self, request: HttpRequest, image_id: uuid.UUID) -> HttpResponse:
        """Add a part. After the last part the complete image is inspected; if it is rejected, the record is deleted."""
        offset = request.headers.get("Upload-Offset", "")
        if not (offset.isascii() and offset.isdigit() and len(offset) <= LONGEST_NUMBER):
            raise InvalidInputError("Upload-Offset must be a whole number of bytes.")
        image = selectors.image_for(self.context, image_id)
        try:
            with upload_shares.share_of(self.context):
                image = services.append(self.context, image.id, int(offset), body_of(request))
        except BodyInterruptedError as error:
            return JsonResponse({"message": str(error)}, status=400)
        except UploadOffsetError as error:
            return JsonResponse({"message": plain(error.message), "offset": error.offset}, status=409)
        except (ImageContentError, TooLargeError) as error:
            self._forget(image.id)
            return JsonResponse({"field": "file", "message": plain(error.message)}, status=422)
        if image.status == Image.Status.ACTIVE:
            return self._ready(image, say=True)
        return JsonResponse({"offset": selectors.arrived_of(image), "size": image.size})

    def delete(self, request: HttpRequest, image_id: uuid.UUID) -> HttpResponse:
        """Cancel an unfinished upload and delete its record."""
        image = selectors.image_for(self.context, image_id)
        if selectors.arrived_of(image) is None:
            raise NotFoundError("No upload to this image is in progress.")
        self._forget(image.id)
        return HttpResponse(status=204)

    def refused(self, error: NovellaError) -> HttpResponse:
        return JsonResponse({"message": plain(error.message)}, status=status_of(error, "image") or 422)

    def forbidden(self, error: ForbiddenError) -> HttpResponse:
        return self.refused(error)

    def _sign_in(self, request: HttpRequest) -> HttpResponse:
        return JsonResponse({"message": "Your session has ended."}, status=401)

    def _ready(self, image: Image, *, say: bool = False) -> HttpResponse:
        if say:
            messages.success(self.request, f"{bdi(image.name or 'The image')} is ready.")
        return JsonResponse({"next": reverse("dashboard:images")}, status=201 if say else 200)

    def _forget(self, image_id: uuid.UUID) -> None:
        try:
            services.delete(self.context, image_id)
        except NotFoundError:
            return


class ImageDelete(QuestionPage, ImagePage):
    """Asks for confirmation, and deletes an image."""

    rule = "delete_image"
    consequence = "New instances can no longer be launched from it. Running instances keep their disks."

    def find(self) -> None:
        self.record = selectors.image_for(self.context, self.kwargs["image_id"])

    def name(self) -> str:
        return self.record.name or str(self.record.id)

    def do(self) -> None:
        services.delete(self.context, self.record.id)
