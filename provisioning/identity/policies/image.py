"""The Image API and the pages of images; the Compute API's deprecated images ask the same rules."""

from provisioning.identity.policies.base import ADMIN, MEMBER, READER, rule

_IMAGE = "/v2/images/{image_id}"
_METADATA = "/images/{image_id}/metadata"

RULES = (
    rule("get_images", READER, "List images.", "GET /v2/images", "GET /images", "GET /images/detail"),
    rule("novella:get_images:all_projects", ADMIN, "See and use the images of every project.", "GET /v2/images"),
    rule(
        "get_image",
        READER,
        "Show an image and its imports.",
        f"GET {_IMAGE}",
        f"GET {_IMAGE}/tasks",
        "GET /images/{image_id}",
        f"GET {_METADATA}",
        f"GET {_METADATA}/{{key}}",
    ),
    rule("add_image", MEMBER, "Make an image record.", "POST /v2/images"),
    rule(
        "modify_image",
        MEMBER,
        "Change an image and its tags, stage and import its data.",
        f"PATCH {_IMAGE}",
        f"PUT {_IMAGE}/tags/{{tag}}",
        f"DELETE {_IMAGE}/tags/{{tag}}",
        f"PUT {_IMAGE}/stage",
        f"POST {_IMAGE}/import",
        f"POST {_METADATA}",
        f"PUT {_METADATA}",
        f"PUT {_METADATA}/{{key}}",
        f"DELETE {_METADATA}/{{key}}",
    ),
    rule("delete_image", MEMBER, "Delete an image.", f"DELETE {_IMAGE}", "DELETE /images/{image_id}"),
    rule("publicize_image", ADMIN, "Make an image public.", "POST /v2/images", f"PATCH {_IMAGE}"),
    rule(
        "communitize_image",
        MEMBER,
        "Let everybody use an image who knows its id.",
        "POST /v2/images",
        f"PATCH {_IMAGE}",
    ),
    rule("novella:set_image_owner", ADMIN, "Make an image another project's.", "POST /v2/images", f"PATCH {_IMAGE}"),
    rule("deactivate", ADMIN, "Keep everybody from an image's data.", f"POST {_IMAGE}/actions/deactivate"),
    rule("reactivate", ADMIN, "Make an image's data available again.", f"POST {_IMAGE}/actions/reactivate"),
    rule("upload_image", MEMBER, "Upload an image's data.", f"PUT {_IMAGE}/file"),
    rule("download_image", READER, "Download an image's data.", f"GET {_IMAGE}/file"),
    rule(
        "novella:download_deactivated_image", ADMIN, "Download the data of a deactivated image.", f"GET {_IMAGE}/file"
    ),
    rule("get_members", READER, "List with whom an image is shared.", f"GET {_IMAGE}/members"),
    rule("get_member", READER, "Show whether a project has accepted an image.", f"GET {_IMAGE}/members/{{member_id}}"),
    rule("add_member", MEMBER, "Share an image with a project.", f"POST {_IMAGE}/members"),
    rule(
        "modify_member",
        MEMBER,
        "Accept or reject an image that is shared with the project.",
        f"PUT {_IMAGE}/members/{{member_id}}",
    ),
    rule("delete_member", MEMBER, "Share an image with a project no longer.", f"DELETE {_IMAGE}/members/{{member_id}}"),
    rule("novella:get_image_schema", READER, "Read the schemas.", "GET /v2/schemas/{schema_name}"),
    rule("novella:get_import_info", READER, "Read how images can be imported.", "GET /v2/info/import"),
    rule("novella:get_stores_info", READER, "Read where images are kept.", "GET /v2/info/stores"),
    rule("stores_info_detail", ADMIN, "Read how images are kept.", "GET /v2/info/stores/detail"),
    rule("novella:get_usage_info", READER, "Read how much the project's images use.", "GET /v2/info/usage"),
    rule("delete_image_location", ADMIN, "Remove an image from a store.", "DELETE /v2/stores/{store_id}/{image_id}"),
    rule(
        "tasks_api_access",
        ADMIN,
        "List and show tasks, and make an image from a URL by one.",
        "GET /v2/tasks",
        "GET /v2/tasks/{task_id}",
        "POST /v2/tasks",
    ),
    rule("cache_list", ADMIN, "List the images in the cache.", "GET /v2/cache"),
    rule("cache_image", ADMIN, "Put an image into the cache.", "PUT /v2/cache/{image_id}"),
    rule("cache_delete", ADMIN, "Remove images from the cache.", "DELETE /v2/cache", "DELETE /v2/cache/{image_id}"),
    rule("cache_clean", ADMIN, "Clean the cache.", "POST /v2/cache/clean"),
    rule("cache_prune", ADMIN, "Prune the cache.", "POST /v2/cache/prune"),
)
