"""The services' refusals in people's words: they are written for the APIs, with names of fields and of rules."""

import re
from collections.abc import Mapping

from provisioning.compute.actions.registry import words_of_tasks

_ID = r"[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}"
_PREFIX = re.compile(
    r"(?:Invalid input(?: received)?(?: for (?:field/attribute |query parameters )?[\w:]+)?(?:\. Reason)?[:.] "
    r"|Invalid volume: |Bad \w+ request: |Block Device Mapping is Invalid: )"
)
_POLICY = re.compile(r"Policy doesn't allow \S+ to be performed\.?.*", re.DOTALL)
_BUSY = re.compile(rf"Cannot '\w+' instance {_ID} while it is in (?:task_state|vm_state) (\S+)")
_RECORD = re.compile(rf"\b(image|volume|snapshot|network|subnet|router|port):? {_ID}", re.IGNORECASE)
_NAME = re.compile(r"(?<![\w:/.@=\"'-])[a-z]+(?:_[a-z0-9]+)+(?![\w:/.@=\"'-])")
_SERVER = re.compile(r"(?<!name )(?<!DNS )\b[Ss]erver(s?)\b(?! group)")
"""What the pages call an instance."""
NOT_ALLOWED = "Your roles do not allow this."
WORDS = {
    "flavorRef": "size",
    "imageRef": "image",
    "min_count": "number of instances",
    "max_count": "number of instances",
    "volumeId": "volume",
}
"""Names of the APIs that stand for something with another name on the pages."""


def plain(text: str, labels: Mapping[str, str] | None = None) -> str:
    """Return a refusal without the APIs' prefixes, rules, ids and names of fields.

    ``labels``: name of a field → its label on the page.
    """
    if _POLICY.match(text):
        return NOT_ALLOWED
    if busy := _BUSY.fullmatch(text):
        doing = words_of_tasks.get(busy[1], busy[1]).replace("_", " ").lower()
        doing = "in error" if doing == "error" else doing
        return f"The instance does not allow this now: it is {doing}."
    known = {**WORDS, **(labels or {})}
    text = _PREFIX.sub("", text, count=1)
    text = _RECORD.sub(lambda found: f"the {found[1].lower()}", text)
    for name, label in known.items():
        if "_" in name or any(each.isupper() for each in name):
            text = re.sub(rf"\b{re.escape(name)}\b", _within(label), text)
    text = _SERVER.sub(lambda found: f"{'I' if found[0][0] == 'S' else 'i'}nstance{found[1]}", text)
    text = _NAME.sub(lambda found: found[0].replace("_", " "), text)
    return text[:1].upper() + text[1:]


def _within(label: str) -> str:
    """Write a label within a sentence: in small letters, unless it is a name or an abbreviation."""
    return label if any(each.isupper() for each in label[1:]) else label[:1].lower() + label[1:]
