"""Image service API under ``/image``. A trailing slash is optional, except after the path of a list, where an id would
follow it.
"""

from django.urls import re_path

from portal.api.common.views import NoSuchResource
from portal.api.image import catalogue, info, versions
from portal.api.image.images import locations, members, views
from portal.api.image.images.data import ImageFile, ImageStage
from portal.api.image.metadefs.urls import METADEFS
from portal.api.image.tasks import imports
from portal.api.image.tasks.views import TaskDetail, Tasks
from portal.common.routing import by_prefix

IMAGE = r"^/v2/images/(?P<image_id>[^/]+)"

urlpatterns = by_prefix(
    [
        re_path(r"^/?$", versions.Versions.as_view()),
        re_path(r"^/versions/?$", versions.Versions.as_view(status=200)),
        re_path(r"^/v2/?$", versions.Versions.as_view()),
        re_path(r"^/v2/images$", views.Images.as_view()),
        re_path(rf"{IMAGE}/?$", views.ImageDetail.as_view()),
        re_path(rf"{IMAGE}/file/?$", ImageFile.as_view()),
        re_path(rf"{IMAGE}/stage/?$", ImageStage.as_view()),
        re_path(rf"{IMAGE}/locations/?$", locations.Locations.as_view()),
        re_path(rf"{IMAGE}/import/?$", imports.ImageImport.as_view()),
        re_path(rf"{IMAGE}/tasks/?$", imports.ImageTasks.as_view()),
        re_path(rf"{IMAGE}/members$", members.Members.as_view()),
        re_path(rf"{IMAGE}/members/(?P<member_id>[^/]+)/?$", members.MemberDetail.as_view()),
        re_path(rf"{IMAGE}/actions/deactivate/?$", views.Deactivate.as_view()),
        re_path(rf"{IMAGE}/actions/reactivate/?$", views.Reactivate.as_view()),
        re_path(rf"{IMAGE}/tags/(?P<tag>[^/]+)/?$", views.ImageTag.as_view()),
        re_path(r"^/v2/catalogue$", catalogue.Catalogue.as_view()),
        re_path(r"^/v2/catalogue/(?P<entry_id>[^/]+)/?$", catalogue.CatalogueEntry.as_view()),
        re_path(r"^/v2/catalogue/(?P<entry_id>[^/]+)/add/?$", catalogue.CatalogueAdd.as_view()),
        *METADEFS,
        re_path(r"^/v2/schemas/(?P<name>[^/]+)/?$", views.PublishedSchema.as_view()),
        re_path(r"^/v2/info/import/?$", info.ImportInfo.as_view()),
        re_path(r"^/v2/info/stores/?$", info.StoresInfo.as_view()),
        re_path(r"^/v2/info/stores/detail/?$", info.StoresDetail.as_view()),
        re_path(r"^/v2/info/usage/?$", info.Usage.as_view()),
        re_path(r"^/v2/stores/(?P<store_id>[^/]+)/(?P<image_id>[^/]+)/?$", info.StoredImage.as_view()),
        re_path(r"^/v2/tasks$", Tasks.as_view()),
        re_path(r"^/v2/tasks/(?P<task_id>[^/]+)/?$", TaskDetail.as_view()),
        re_path(r"^/v2/cache$", info.Cache.as_view()),
        re_path(r"^/v2/cache/clean/?$", info.CacheClean.as_view()),
        re_path(r"^/v2/cache/prune/?$", info.CachePrune.as_view()),
        re_path(r"^/v2/cache/(?P<image_id>[^/]+)/?$", info.CachedImage.as_view()),
        re_path(r"^/v2/", NoSuchResource.of("image")),
        re_path(r"", versions.OtherVersions.as_view()),
    ]
)
