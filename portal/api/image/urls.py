"""Image service API under ``/image``. A trailing slash is optional, except after the path of a list, where an id would
follow it.
"""

from django.urls import URLPattern, re_path

from portal.api.frame import NoSuchResource
from portal.api.image import dialect, info, tasks, versions
from portal.api.image.images import data, views
from portal.api.image.metadefs import attributes, contents, namespaces
from portal.common.http.routing import by_prefix

METADEFS: list[URLPattern] = [
    *dialect.routes(contents.RESOURCE_TYPE),
    *dialect.routes(namespaces.NAMESPACE, namespaces.NAMESPACES),
    *dialect.routes(contents.ASSOCIATION),
    *dialect.routes(contents.PROPERTY),
    *dialect.routes(contents.OBJECT),
    *dialect.routes(contents.TAG, contents.TAGS),
    *dialect.urls(attributes.SCHEMAS),
]


IMAGE = r"^/v2/images/(?P<image_id>[^/]+)"

urlpatterns = by_prefix(
    [
        re_path(r"^/?$", versions.Versions.as_view()),
        re_path(r"^/versions/?$", versions.Versions.as_view(status=200)),
        re_path(r"^/v2/?$", versions.Versions.as_view()),
        re_path(r"^/v2/images$", views.Images.as_view()),
        re_path(rf"{IMAGE}/file/?$", data.ImageFile.as_view()),
        re_path(rf"{IMAGE}/stage/?$", data.ImageStage.as_view()),
        re_path(rf"{IMAGE}/import/?$", tasks.ImageImport.as_view()),
        *dialect.urls(views.PARTS | views.MEMBERS | views.LOCATIONS | tasks.PARTS),
        *dialect.urls(info.CATALOGUE),
        *METADEFS,
        *dialect.urls(info.PARTS),
        re_path(r"^/v2/tasks$", tasks.Tasks.as_view()),
        re_path(r"^/v2/", NoSuchResource.of("image")),
        re_path(r"", versions.OtherVersions.as_view()),
    ]
)
