"""Image service API under ``/image``. A trailing slash is optional, except after the path of a list, where an id would
follow it.
"""

from django.urls import URLPattern, re_path

from portal.api.common.views import NoSuchResource
from portal.api.image import info, tasks, versions
from portal.api.image.dialect import routes, urls
from portal.api.image.images import views
from portal.api.image.images.data import ImageFile, ImageStage
from portal.api.image.metadefs.attributes import SCHEMAS
from portal.api.image.metadefs.contents import ASSOCIATION, OBJECT, PROPERTY, RESOURCE_TYPE, TAG, TAGS
from portal.api.image.metadefs.namespaces import NAMESPACE, NAMESPACES
from portal.api.image.tasks import PARTS, Tasks
from portal.common.http.routing import by_prefix

METADEFS: list[URLPattern] = [
    *routes(RESOURCE_TYPE),
    *routes(NAMESPACE, NAMESPACES),
    *routes(ASSOCIATION),
    *routes(PROPERTY),
    *routes(OBJECT),
    *routes(TAG, TAGS),
    *urls(SCHEMAS),
]


IMAGE = r"^/v2/images/(?P<image_id>[^/]+)"

urlpatterns = by_prefix(
    [
        re_path(r"^/?$", versions.Versions.as_view()),
        re_path(r"^/versions/?$", versions.Versions.as_view(status=200)),
        re_path(r"^/v2/?$", versions.Versions.as_view()),
        re_path(r"^/v2/images$", views.Images.as_view()),
        re_path(rf"{IMAGE}/file/?$", ImageFile.as_view()),
        re_path(rf"{IMAGE}/stage/?$", ImageStage.as_view()),
        re_path(rf"{IMAGE}/import/?$", tasks.ImageImport.as_view()),
        *urls(views.PARTS | views.MEMBERS | views.LOCATIONS | PARTS),
        *urls(info.CATALOGUE),
        *METADEFS,
        *urls(info.PARTS),
        re_path(r"^/v2/tasks$", Tasks.as_view()),
        re_path(r"^/v2/", NoSuchResource.of("image")),
        re_path(r"", versions.OtherVersions.as_view()),
    ]
)
