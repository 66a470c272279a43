"""Images of all projects: to look at, to take out of use, and to remove."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from portal.ops.admin.base import Readable, confirmed, each
from provisioning.identity.selectors.lookups import projects_by_id
from provisioning.images import services
from provisioning.images.models import Image


@admin.register(Image)
class ImageAdmin(Readable):
    """The images."""

    rules = {
        "view": "novella:get_images:all_projects",
        "delete_images": "delete_image",
        "deactivate_images": "deactivate",
        "reactivate_images": "reactivate",
    }
    list_display = ("name", "status", "visibility", "project", "disk_format", "size", "created_at")
    list_filter = ("status", "visibility", "disk_format")
    search_fields = ("name", "id__startswith")
    ordering = ("-created_at",)
    actions = ("deactivate_images", "reactivate_images", "delete_images")

    @admin.display(description="project")
    def project(self, image: Image) -> str:
        return str(projects_by_id([image.project_id]).get(image.project_id) or image.project_id)

    @admin.action(description="Deactivate")
    def deactivate_images(self, request: HttpRequest, queryset: QuerySet[Image]) -> HttpResponse | None:
        """Keep everybody from their data after a question; what has no data is refused."""
        rows = queryset.exclude(status=Image.Status.DELETED)
        question = confirmed(self, request, rows, "deactivate_images", "Deactivate these images?")
        if question is None:
            each(request, rows, lambda context, row: services.deactivate(context, row.id), "Images deactivated")
        return question

    @admin.action(description="Reactivate")
    def reactivate_images(self, request: HttpRequest, queryset: QuerySet[Image]) -> None:
        """Give their data free again."""
        rows = queryset.exclude(status=Image.Status.DELETED)
        each(request, rows, lambda context, row: services.reactivate(context, row.id), "Images reactivated")

    @admin.action(description="Delete")
    def delete_images(self, request: HttpRequest, queryset: QuerySet[Image]) -> HttpResponse | None:
        """Delete them after a question; protected ones are refused."""
        rows = queryset.exclude(status=Image.Status.DELETED)
        question = confirmed(self, request, rows, "delete_images", "Delete these images?")
        if question is None:
            each(request, rows, lambda context, row: services.delete(context, row.id), "Images deleted")
        return question
