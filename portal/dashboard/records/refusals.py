"""Messages for errors of the networking and volume services, without the ids and prefixes of the APIs."""

import re
from collections.abc import Mapping

from portal.dashboard.frame.forms import Form
from portal.dashboard.graphs import bars
from portal.dashboard.words.plain import SENTENCES, plain
from provisioning.common.errors import NovellaError, OverQuotaError

_ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_PREFIX = re.compile(r"(?:Invalid input for operation|Invalid input for \w+\. Reason|Invalid volume|Bad \w+ request): ")
_ROUTES = re.compile(r"Invalid format for routes: \[.*\], ")
_WHERE = re.compile(rf"Unable to complete operation (?:for|on) \w+ {_ID}[.:] ")
_OF_SUBNET = re.compile(rf" of subnet {_ID}")
_OVERLAP = re.compile(r"^Cidr (\S+) overlaps with cidr (\S+)\.$")
_RECORD = re.compile(rf"\b((?:external )?network|subnet|router|port|volume):? {_ID}", re.IGNORECASE)


def message_of(error: NovellaError, labels: Mapping[str, str] | None = None) -> str:
    """Return the message for an error: advice where it is known, otherwise the error without ids."""
    if isinstance(error, OverQuotaError):
        label = bars.LABELS.get(error.resource, error.resource)
        whose = "Your own quota in this project" if error.of_user else "The project's quota"
        return f"{whose} is exceeded. {label}: {error.used} of {error.limit} used, {error.requested} more requested."
    sentence = SENTENCES.get(type(error))
    if sentence is not None:
        return sentence
    text = _ROUTES.sub("", _PREFIX.sub("", error.message, count=1), count=1)
    text = _OVERLAP.sub(r"\1 overlaps with \2, which is already connected to the router.", _OF_SUBNET.sub("", text))
    text = _RECORD.sub(lambda match: f"this {match[1].lower()}", _WHERE.sub("", text, count=1))
    return plain(text, labels, within=text != error.message)


class RecordForm(Form):
    """Base of the forms of networking and volumes."""

    def message_of(self, error: NovellaError) -> str:
        return message_of(error, self.labels())
