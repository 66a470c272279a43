"""EC2 errors in XML: of the API, and of requests rejected before they reach it."""

import re
from xml.sax.saxutils import escape

SERVICE = "ec2"
CONTENT_TYPE = "text/xml;charset=UTF-8"
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
_CODES = {413: "RequestEntityTooLarge"}
FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot represent."""
_TO_CHANGE = re.compile(f"[&<>\r]|{FORBIDDEN.pattern}")


def fault(code: str, message: str, request_id: str) -> bytes:
    """Return the error document."""
    return (
        f"{HEAD}<Response><Errors><Error><Code>{text(code)}</Code><Message>{text(message)}</Message></Error></Errors>"
        f"<RequestID>{text(request_id)}</RequestID></Response>"
    ).encode()


def of_status(status: int, message: str, request_id: str = "") -> bytes:
    """Return the error document of a request that is rejected with this status before its action is read."""
    return fault(_CODES.get(status, "MalformedQueryString"), message, request_id)


def text(value: object) -> str:
    """Return a value as element text: carriage returns are escaped and characters outside XML are replaced."""
    result = str(value)
    return result if _TO_CHANGE.search(result) is None else escape(FORBIDDEN.sub("\ufffd", result), {"\r": "&#13;"})
