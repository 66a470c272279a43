"""The Image API and the pages of images."""

from provisioning.identity.policies.base import ADMIN, MEMBER, READER, rule

RULES = (
    rule("image:images:list", READER, "List images.", "GET /v2/images"),
    rule("image:images:list:all_projects", ADMIN, "List the images of every project.", "GET /v2/images"),
    rule("image:images:show", READER, "Show an image.", "GET /v2/images/{id}"),
    rule("image:images:create", MEMBER, "Make an image record.", "POST /v2/images"),
    rule("image:images:update", MEMBER, "Change an image.", "PATCH /v2/images/{id}"),
    rule("image:images:delete", MEMBER, "Delete an image.", "DELETE /v2/images/{id}"),
    rule("image:images:publicize", ADMIN, "Make an image public.", "POST /v2/images", "PATCH /v2/images/{id}"),
    rule("image:images:upload", MEMBER, "Upload an image's data.", "PUT /v2/images/{id}/file"),
    rule("image:images:download", READER, "Download an image's data.", "GET /v2/images/{id}/file"),
    rule("image:members:list", READER, "List with whom an image is shared.", "GET /v2/images/{id}/members"),
    rule("image:schemas:show", READER, "Read the schemas.", "GET /v2/schemas/{name}"),
    rule("image:info:show", READER, "Read what the service offers.", "GET /v2/info/import", "GET /v2/info/stores"),
)
