"""The Image API and the pages of images; the Compute API's deprecated images ask the same rules."""

from provisioning.identity.policies.base import ADMIN, MEMBER, READER, rule

_IMAGE = "/v2/images/{image_id}"

RULES = (
    rule("get_images", READER, "List images."),
    rule("novella:get_images:all_projects", ADMIN, "See and use the images of every project.", "GET /v2/images"),
    rule("get_image", READER, "Show an image and its imports."),
    rule("add_image", MEMBER, "Make an image record."),
    rule("modify_image", MEMBER, "Change an image and its tags, stage and import its data."),
    rule("delete_image", MEMBER, "Delete an image."),
    rule("publicize_image", ADMIN, "Make an image public.", "POST /v2/images", f"PATCH {_IMAGE}"),
    rule(
        "communitize_image",
        MEMBER,
        "Let everybody use an image who knows its id.",
        "POST /v2/images",
        f"PATCH {_IMAGE}",
    ),
    rule("novella:set_image_owner", ADMIN, "Name the owner of an image.", "POST /v2/images", f"PATCH {_IMAGE}"),
    rule("deactivate", MEMBER, "Keep everybody from the data of an image of the project."),
    rule("reactivate", MEMBER, "Make the data of an image of the project available again."),
    rule("upload_image", MEMBER, "Upload an image's data."),
    rule("download_image", READER, "Download an image's data."),
    rule(
        "novella:download_deactivated_image", ADMIN, "Download the data of a deactivated image.", f"GET {_IMAGE}/file"
    ),
    rule("get_members", READER, "List with whom an image is shared."),
    rule("get_member", READER, "Show whether a project has accepted an image."),
    rule("add_member", MEMBER, "Share an image with a project."),
    rule("modify_member", MEMBER, "Accept or reject an image that is shared with the project."),
    rule("delete_member", MEMBER, "Share an image with a project no longer."),
    rule("novella:get_image_schema", READER, "Read the schemas."),
    rule("novella:get_import_info", READER, "Read how images can be imported."),
    rule("novella:get_stores_info", READER, "Read where images are kept."),
    rule("stores_info_detail", ADMIN, "Read how images are kept."),
    rule("novella:get_usage_info", READER, "Read how much the project's images use."),
    rule("add_image_location", f"rule:service_api or {MEMBER}", "Name where an image's data lies: not offered."),
    rule("fetch_image_location", "rule:service_or_admin", "See where an image's data lies."),
    rule("delete_image_location", ADMIN, "Remove an image from a store."),
    rule("tasks_api_access", ADMIN, "List and show tasks, and make an image from a URL by one."),
    rule("cache_list", ADMIN, "List the images in the cache."),
    rule("cache_image", ADMIN, "Put an image into the cache."),
    rule("cache_delete", ADMIN, "Remove images from the cache."),
    rule("cache_clean", ADMIN, "Clean the cache."),
    rule("cache_prune", ADMIN, "Prune the cache."),
)
