"""The Image API and the pages of images."""

from provisioning.identity.policies.base import ADMIN, MEMBER, READER, rule

RULES = (
    rule("image:images:list", READER, "List images.", "GET /v2/images"),
    rule("image:images:list:all_projects", ADMIN, "See and use the images of every project.", "GET /v2/images"),
    rule("image:images:show", READER, "Show an image.", "GET /v2/images/{image_id}"),
    rule("image:images:create", MEMBER, "Make an image record.", "POST /v2/images"),
    rule("image:images:update", MEMBER, "Change an image.", "PATCH /v2/images/{image_id}"),
    rule("image:images:delete", MEMBER, "Delete an image.", "DELETE /v2/images/{image_id}"),
    rule("image:images:publicize", ADMIN, "Make an image public.", "POST /v2/images", "PATCH /v2/images/{image_id}"),
    rule(
        "image:images:communitize",
        MEMBER,
        "Let everybody use an image who knows its id.",
        "POST /v2/images",
        "PATCH /v2/images/{image_id}",
    ),
    rule(
        "image:images:set_owner",
        ADMIN,
        "Make an image another project's.",
        "POST /v2/images",
        "PATCH /v2/images/{image_id}",
    ),
    rule(
        "image:images:deactivate",
        ADMIN,
        "Keep everybody from an image's data.",
        "POST /v2/images/{image_id}/actions/deactivate",
    ),
    rule(
        "image:images:reactivate",
        ADMIN,
        "Give an image's data free again.",
        "POST /v2/images/{image_id}/actions/reactivate",
    ),
    rule("image:images:upload", MEMBER, "Upload an image's data.", "PUT /v2/images/{image_id}/file"),
    rule("image:images:download", READER, "Download an image's data.", "GET /v2/images/{image_id}/file"),
    rule(
        "image:images:download:deactivated",
        ADMIN,
        "Download the data of a deactivated image.",
        "GET /v2/images/{image_id}/file",
    ),
    rule("image:tags:add", MEMBER, "Add a tag to an image.", "PUT /v2/images/{image_id}/tags/{tag}"),
    rule("image:tags:remove", MEMBER, "Remove a tag of an image.", "DELETE /v2/images/{image_id}/tags/{tag}"),
    rule("image:members:list", READER, "List with whom an image is shared.", "GET /v2/images/{image_id}/members"),
    rule(
        "image:members:show",
        READER,
        "Show whether a project has accepted an image.",
        "GET /v2/images/{image_id}/members/{member_id}",
    ),
    rule("image:members:add", MEMBER, "Share an image with a project.", "POST /v2/images/{image_id}/members"),
    rule(
        "image:members:update",
        MEMBER,
        "Accept or reject an image that is shared with the project.",
        "PUT /v2/images/{image_id}/members/{member_id}",
    ),
    rule(
        "image:members:remove",
        MEMBER,
        "Share an image with a project no longer.",
        "DELETE /v2/images/{image_id}/members/{member_id}",
    ),
    rule("image:schemas:show", READER, "Read the schemas.", "GET /v2/schemas/{schema_name}"),
    rule("image:info:import", READER, "Read how images come in.", "GET /v2/info/import"),
    rule("image:info:stores", READER, "Read where images are kept.", "GET /v2/info/stores"),
)
