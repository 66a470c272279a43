"""The Security Token Service at the address of the EC2 API. Its only action is ``GetCallerIdentity``.

Clients call it first, and compare the account with the owners that EC2 shows. The account is the id of a project.
Source: AWS STS API reference, version 2011-06-15.
"""

from collections.abc import Mapping, Sequence

from portal.api.common.ec2_faults import HEAD, text
from portal.api.ec2.frame import Ec2Error, errors
from provisioning.common.context import RequestContext

SERVICE, VERSION = "sts", "2011-06-15"
_SPACE = f'xmlns="https://sts.amazonaws.com/doc/{VERSION}/"'


def is_requested(pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether the parameters are for this service: ``Version`` has the version of STS, which EC2 never had."""
    return ("Version", VERSION) in pairs


def answer(context: RequestContext, named: Mapping[str, str], request_id: str) -> bytes:
    """Return the response document. Raises Ec2Error InvalidAction for any other action."""
    action = named.get("Action")
    if not action:
        raise errors.missing_parameter("Action")
    if action != "GetCallerIdentity":
        raise Ec2Error("InvalidAction", f"The action {action[:120]} is not offered by this cloud")
    account = context.project_id.hex if context.project_id else ""
    body = "".join(
        f"<{name}>{text(value)}</{name}>"
        for name, value in {
            "Arn": f"arn:aws:iam::{account}:user/{context.user_name}",
            "UserId": context.user_id.hex if context.user_id else "",
            "Account": account,
        }.items()
    )
    return (
        f"{HEAD}<{action}Response {_SPACE}><{action}Result>{body}</{action}Result>"
        f"<ResponseMetadata><RequestId>{text(request_id)}</RequestId></ResponseMetadata></{action}Response>"
    ).encode()


def fault(code: str, message: str, request_id: str) -> bytes:
    """Return the error document in this service's format."""
    return (
        f"{HEAD}<ErrorResponse {_SPACE}><Error><Type>Sender</Type><Code>{text(code)}</Code>"
        f"<Message>{text(message)}</Message></Error><RequestId>{text(request_id)}</RequestId></ErrorResponse>"
    ).encode()
