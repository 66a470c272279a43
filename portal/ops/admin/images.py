"""Images of all projects, read-only, with actions to deactivate and delete them."""

from django.contrib import admin
from django.db.models import QuerySet

from portal.ops.admin.base import Readable, row_action
from portal.ops.admin.columns import PROJECT, StatusFilter, column, status
from provisioning.common.context import RequestContext
from provisioning.hosts.models import Host
from provisioning.images import services
from provisioning.images.models import Image


def _not_deleted(rows: QuerySet[Image]) -> QuerySet[Image]:
    return rows.exclude(status=Image.Status.DELETED)


def _hosts(image: Image) -> list[Host]:
    """Return the hosts that have the image in their cache, by their last audits."""
    return list(Host.objects.filter(image_rows__image_id=image.pk).order_by("name"))


@admin.register(Image)
class ImageAdmin(Readable):
    rules = {
        "view": "novella:get_images:all_projects",
        "delete_images": "delete_image",
        "deactivate_images": "deactivate",
        "reactivate_images": "reactivate",
    }
    list_display = ("name", "state", "visibility", "project", "disk_format", "size", "created_at")
    list_filter = (("status", StatusFilter), "visibility", "disk_format")
    search_fields = ("name", "id__startswith")
    ordering = ("-created_at",)
    readonly_fields = ("in_caches",)
    actions = ("deactivate_images", "reactivate_images", "delete_images")

    state = column("status", status, ordering="status")
    project = PROJECT
    in_caches = column("in the caches of", _hosts, link=True)

    @row_action("Deactivate", "Images deactivated", question="Deactivate these images?", among=_not_deleted)
    def deactivate_images(self, context: RequestContext, image: Image) -> None:
        services.deactivate(context, image.id)

    @row_action("Reactivate", "Images reactivated", among=_not_deleted)
    def reactivate_images(self, context: RequestContext, image: Image) -> None:
        services.reactivate(context, image.id)

    @row_action("Delete", "Images deleted", question="Delete these images?", among=_not_deleted)
    def delete_images(self, context: RequestContext, image: Image) -> None:
        services.delete(context, image.id)
