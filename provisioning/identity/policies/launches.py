"""Leases of servers, launch templates and snippets: pages of the dashboard."""

from provisioning.identity.policies.base import ADMIN, MEMBER, READER, rule

_TEMPLATE = "/launch-templates/{template_id}"

RULES = (
    rule(
        "novella:leases:update",
        MEMBER,
        "Set, extend and remove the lease of a server.",
        "POST /instances/{instance_id}/lease/",
        "POST /instances/{instance_id}/lease/extend/",
    ),
    rule(
        "novella:leases:override",
        ADMIN,
        "Remove a lease that a launch template requires, or make it longer.",
        "POST /instances/{instance_id}/lease/",
    ),
    rule(
        "novella:launch_templates:list",
        READER,
        "List and show the launch templates of the project, and public ones.",
        "GET /launch-templates/",
        f"GET {_TEMPLATE}/",
    ),
    rule(
        "novella:launch_templates:write",
        MEMBER,
        "Create, change and delete launch templates and their versions.",
        "POST /launch-templates/create/",
        f"POST {_TEMPLATE}/edit/",
        f"POST {_TEMPLATE}/versions/create/",
        f"POST {_TEMPLATE}/versions/{{number}}/default/",
        f"POST {_TEMPLATE}/versions/{{number}}/delete/",
        f"POST {_TEMPLATE}/delete/",
    ),
    rule(
        "novella:launch_templates:publicize",
        ADMIN,
        "Create public launch templates, and change them.",
        "POST /launch-templates/create/",
        f"POST {_TEMPLATE}/edit/",
    ),
    rule("novella:snippets:list", READER, "List the snippets of the project.", "GET /snippets/"),
    rule(
        "novella:snippets:write",
        MEMBER,
        "Create, change and delete snippets.",
        "POST /snippets/create/",
        "POST /snippets/{snippet_id}/edit/",
        "POST /snippets/{snippet_id}/delete/",
    ),
)
