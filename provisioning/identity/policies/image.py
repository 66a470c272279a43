"""The Image API and the pages of images; the Compute API's deprecated images check the same rules."""

from provisioning.identity.policies.base import ADMIN, MEMBER, READER, rule

_IMAGE = "/v2/images/{image_id}"

RULES = (
    rule("get_images", READER, "List images."),
    rule("novella:get_images:all_projects", ADMIN, "Show and use the images of all projects.", "GET /v2/images"),
    rule("get_image", READER, "Show an image and its imports."),
    rule("add_image", MEMBER, "Create an image."),
    rule("modify_image", MEMBER, "Update an image and its tags; stage and import its data."),
    rule("delete_image", MEMBER, "Delete an image."),
    rule("publicize_image", ADMIN, "Set an image to public.", "POST /v2/images", f"PATCH {_IMAGE}"),
    rule(
        "communitize_image",
        MEMBER,
        "Set an image to community: all projects can use it by its id.",
        "POST /v2/images",
        f"PATCH {_IMAGE}",
    ),
    rule("novella:set_image_owner", ADMIN, "Set the owner of an image.", "POST /v2/images", f"PATCH {_IMAGE}"),
    rule("deactivate", MEMBER, "Deactivate an image of the project."),
    rule("reactivate", MEMBER, "Reactivate an image of the project."),
    rule("upload_image", MEMBER, "Upload an image's data."),
    rule("download_image", READER, "Download an image's data."),
    rule(
        "novella:download_deactivated_image", ADMIN, "Download the data of a deactivated image.", f"GET {_IMAGE}/file"
    ),
    rule("get_members", READER, "List the members of an image."),
    rule("get_member", READER, "Show a member of an image."),
    rule("add_member", MEMBER, "Share an image with a project."),
    rule("modify_member", MEMBER, "Accept or reject an image that is shared with the project."),
    rule("delete_member", MEMBER, "Remove a member of an image."),
    rule("novella:get_image_schema", READER, "Show the schemas."),
    rule("novella:get_import_info", READER, "Show the import methods."),
    rule("novella:get_stores_info", READER, "List the stores."),
    rule("stores_info_detail", ADMIN, "List the stores with details."),
    rule("novella:get_usage_info", READER, "Show the usage of the project's images."),
    rule("add_image_location", f"rule:service_api or {MEMBER}", "Add a location of an image's data: not supported."),
    rule("fetch_image_location", "rule:service_or_admin", "Show the locations of an image's data."),
    rule("delete_image_location", ADMIN, "Remove an image from a store."),
    rule("tasks_api_access", ADMIN, "List and show tasks, and create an image from a URL by a task."),
    rule("cache_list", ADMIN, "List the images in the cache."),
    rule("cache_image", ADMIN, "Add an image to the cache."),
    rule("cache_delete", ADMIN, "Remove images from the cache."),
    rule("cache_clean", ADMIN, "Clean the cache."),
    rule("cache_prune", ADMIN, "Prune the cache."),
)
