"""Statuses of successful responses that differ from the default of the method, and of operations that are only refused.

tests/security/routes.txt has the actual responses of every route; tests/openapi compares them.
"""

import functools
import re

USUAL = {"GET": 200, "POST": 201, "PUT": 200, "PATCH": 200, "DELETE": 204}
_SERVER = r"/compute/v2\.1/servers/\{server_id\}"
_IMAGE = r"/image/v2/images/\{image_id\}"
OTHER: tuple[tuple[str, tuple[int, ...]], ...] = (
    (r"GET /(identity|image|image/v2)", (300,)),
    (r"POST /identity/v2\.0/tokens|POST /identity/v3/(ec2|s3)tokens", (200,)),
    (r"(GET|PUT) .*/(users|groups)/\{\w+\}/roles/\{role_id\}(/inherited_to_projects)?", (204,)),
    (r"(GET|PUT) /identity/v3/groups/\{group_id\}/users/\{user_id\}", (204,)),
    (r"PUT /identity/v3/roles/\{prior_role_id\}/implies/.*", (201,)),
    (r"(GET|PUT) /identity/v3/OS-EP-FILTER/projects/\{project_id\}/endpoints/\{endpoint_id\}", (204,)),
    (r"PUT /identity/v3/OS-EP-FILTER/endpoint_groups/\{endpoint_group_id\}/projects/\{project_id\}", (204,)),
    (r"PUT /identity/v3/regions/\{region_id\}", (201,)),
    (r"GET /identity/v3/projects/\{project_id\}/tags/\{tag\}", (204,)),
    (r"PUT /identity/v3/projects/\{project_id\}/tags/\{tag\}", (201,)),
    (r"GET /network/.*/tags/\{tag\}", (204,)),
    (r"PUT /network/.*/tags/\{tag\}", (201,)),
    (r"POST /identity/v3/users/\{user_id\}/password", (204,)),
    (rf"POST {_SERVER}/action", (202, 200)),
    (rf"POST {_SERVER}/(metadata|remote-consoles|os-interface)", (200,)),
    (rf"DELETE {_SERVER}/os-interface/.*", (202,)),
    (r"POST /compute/v2\.1/os-server-external-events", (200, 207)),
    (r"POST /image/v2/catalogue/\{entry_id\}/add", (202,)),
    (r"POST /(compute/v2\.1|volume/v3)/novella-would-fit", (200,)),
    (rf"(GET|PUT) {_SERVER}/tags/\{{tag\}}", (204, 201)),
    (r"POST /compute/v2\.1/(servers|os-volumes_boot)", (202,)),
    (r"POST /compute/v2\.1/os-volumes_boot/\{server_id\}/action", (202, 200)),
    (r"(POST|DELETE) /compute/v2\.1/os-keypairs.*", (200, 201, 202, 204)),
    (r"POST /compute/v2\.1/(flavors|os-aggregates|os-server-groups)(/.*)?", (200,)),
    (r"DELETE /compute/v2\.1/(flavors|os-quota-sets)/\{\w+\}", (202,)),
    (r"(POST|PUT|DELETE) /compute/v2\.1/os-baremetal-nodes(/.*)?", (501,)),
    (r"GET /compute/v2\.1/os-(baremetal-nodes.*|hosts/\{host_name\}/\w+)", (501,)),
    (r"GET /volume", (300,)),
    (r"PUT /volume/v3/groups/\{\w+\}|POST /volume/v3/(groups|group_snapshots)(/.*)?", (202,)),
    (r"POST /volume/v3/volumes/\{\w+\}/action", (202, 200)),
    (r"POST /volume/v3/attachments/\{\w+\}/action", (204,)),
    (r"POST /volume/v3/((volumes|snapshots)/\{\w+\}/metadata|attachments)", (200,)),
    (r"POST /volume/v3/(volumes|snapshots|os-volume-transfer|volume-transfers)(/.*)?", (202,)),
    (r"DELETE /volume/v3/((volumes|snapshots)/\{\w+\}/metadata/.*|attachments/.*)", (200,)),
    (r"DELETE /volume/v3/(volumes|snapshots|os-volume-transfer|volume-transfers|group_snapshots)/.*", (202,)),
    (r"DELETE /volume/v3/backups/.*|POST /volume/v3/backups/\{\w+\}/action", (202,)),
    (r"POST /volume/v3/workers/cleanup", (501,)),
    (r"POST /volume/v3/(types/\{\w+\}/action|group_types(/.*)?)", (202,)),
    (rf"POST {_IMAGE}/members", (200,)),
    (rf"POST {_IMAGE}/import", (202,)),
    (rf"GET {_IMAGE}/file", (200, 204, 206)),
    (rf"PUT {_IMAGE}/(file|stage|tags/\{{tag\}})|POST {_IMAGE}/actions/\w+", (204,)),
)
"""Method and path, as a pattern → statuses; the first match applies."""


@functools.cache
def statuses_of(method: str, path: str, rule: str = "", declared: int = 0) -> tuple[int, ...]:
    """Return the statuses of successful responses, or 410 or 501 alone for an operation that is always refused.

    ``declared``: the status in the declaration of the operation, if it has one.
    """
    if rule == "novella:removed_apis":
        return (410,)
    operation = f"{method} {path}"
    return next((found for pattern, found in OTHER if re.fullmatch(pattern, operation)), (declared or USUAL[method],))
