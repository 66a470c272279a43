"""``bin/check words``: which sentences it finds, in which texts, and when it fails."""

from __future__ import annotations

from tests.support.tables import each_row
from tools.words.__main__ import in_message, in_passage, in_subject
from tools.words.passages import Passage, passages, plain

BAD = [
    "What is asked about a few networks reads these alone.",
    "Reads the file. Who is signed in sees it.",
    "It belongs to whoever created it.",
    "Nobody else may read it, and somebody must.",
    "Everybody may use it.",
    "The volume is made by the driver.",
    "A disk made from an image.",
    "Make a router for the network.",
    "The address leads nowhere.",
    "The file lies in the pool.",
    "The doctor mends the record.",
    "Tell the host that the port was told.",
    "Its disk goes with it.",
    "The port is gone.",
    "the volume that goes",
    "The action is over.",
    "as was said of the subnet",
    "The rule lets anybody in.",
    "Give the address back: it is given back.",
    "The subnet's addresses are given out.",
    "Take a volume over.",
    "The user hands the volume over.",
    "The guest has let go of the volume.",
    "libvirt does not say the guest's state.",
    "The reason says why the action failed.",
    "A network and a router in one go.",
    "The host is meanwhile down.",
    "An operator looks after the domain.",
    "The file is put aside.",
    "The name stands in the list.",
    "The cloud heals after a while.",
    "Hosts do without a database.",
    "The old key is worth nothing.",
    "No sign of life of the host for an hour.",
    "The host was cut off.",
    "The host was heard of lately.",
    "By the records the server is here.",
    "a token good for an hour",
    "with some of the own roles",
    "the size of before",
    "Read the file anew.",
    "It applies at once.",
    "It is not offered any more.",
    "further roles",
    "The text is no YAML.",
    "Return whether the domain is there.",
    "The retry is in vain.",
    "The usual one",
    "No host is at work.",
    "Refused is an address of another subnet.",
    "The host is ordered to remove it.",
    "Waits on for the report.",
    "The volume is deleted for good.",
    "The host brings its guests back.",
    "The host has no room for the image.",
    "Messages that are not done with are kept.",
    "An own network is created.",
]
BAD_DOCSTRINGS = [
    "Return what the plan needs.",
    "Those of the list.",
    "Removes everything of the guest.",
    "Return those of these servers that exist.",
    "Delete a tag. Raises as ``set_tags``.",
    "The sign is none of =, < and >.",
    "Return the limit; None without one.",
    "Return the rows, or all without any.",
]

GOOD = [
    "Return the requested networks.",
    "Which pool would a new volume be placed in?",
    "There is no router on this network, and there are none elsewhere.",
    "Create a router. Make sure that the port exists.",
    "The request makes several volumes available at the same time.",
    "No more than ten addresses are allocated.",
    "The value is no longer used, and there is no more space.",
    "Takes over 30 seconds ",
    "The import goes through the proxy.",
    "Call `make` and `tell()`; ``what`` is a name.",
]

PYTHON = '''"""Module that lies."""
LIMIT = 3
"""Told to hosts."""
def f(x):
    """Nobody."""
    return f"{x} was told", "told", _("It was told again"), "told anew"  # quoted: Nova
    return f"{x} was told", "told", _("It was told again")
'''
TEMPLATE = """{# told #}<p title="told here">{% translate "It was told" %}<b data-x="told">
{{ told }} is told</b></p><script>told()</script>"""
MARKDOWN = """# Told

A paragraph `told` that
is told.

```
told
```

| told | x |
|---|---|
"""


@each_row("sentence", BAD)
def test_the_dialect_is_found(sentence: str) -> None:
    assert in_passage(Passage("x.md", 1, plain(sentence))), sentence


@each_row("sentence", GOOD)
def test_plain_sentences_are_not_found(sentence: str) -> None:
    assert [str(match) for match in in_passage(Passage("x.md", 1, plain(sentence), is_docstring=True))] == []


@each_row("sentence", BAD_DOCSTRINGS)
def test_docstrings_begin_with_nouns(sentence: str) -> None:
    assert in_passage(Passage("x.py", 1, sentence, is_docstring=True)), sentence
    assert not in_passage(Passage("x.py", 1, sentence)), "messages may have these words"


@each_row(
    ("path", "source", "expected"),
    [
        (
            "portal/api/ec2/a.py",
            PYTHON,
            [(1, True), (3, True), (5, True), (7, False), (7, False)],
        ),
        (
            "templates/a.html",
            TEMPLATE,
            [(1, False), (1, False), (1, False), (2, False)],
        ),
        ("docs/a.md", MARKDOWN, [(1, False), (3, False), (10, False)]),
        ("static/a.js", "told", []),
    ],
)
def test_texts_are_read_where_users_or_engineers_read_them(
    path: str, source: str, expected: list[tuple[int, bool]]
) -> None:
    result = [(passage.line, passage.is_docstring) for passage in passages(path, source) for _ in in_passage(passage)]
    assert sorted(result) == sorted(expected)


@each_row(
    ("subject", "faults"),
    [
        ("network: Create the default group", 0),
        ("portal/api: Reject unknown filters", 0),
        ("Create the default group", 1),
        ("network: create the default group", 1),
        ("network: Create the default group.", 1),
        ("network: Create a group; delete a port", 1),
        ("network: Create the default security group of a project when it is first listed", 1),
        ("network: Mend the group", 1),
        ("network, docs: Create the group", 1),
        ("network: Created the group", 1),
        ("network: Creates the group", 1),
        ("network: Creating the group", 1),
        ("network: The group is created", 1),
        ("network: Bring the interface up", 0),
        ("network: Seed the database", 0),
        ("network: Pass the address on", 0),
        (f"network: Create {'a' * 56}", 0),
        (f"network: Create {'a' * 57}", 1),
    ],
)
def test_subjects_are_an_area_and_one_imperative_sentence(subject: str, faults: int) -> None:
    assert len(in_subject(subject)) == faults


@each_row(
    ("message", "faults"),
    [
        ("network: Create the group\n\nIt is the reason; why.\n", 0),
        ("# a comment\nnetwork: Create the group\n# Please enter the message\n", 0),
        ("network: Create the group\nIt is the reason.\n", 1),
        (f"ec2: Add tags\n{'# ' + '-' * 24} >8 {'-' * 24}\ndiff; one.\n", 0),
        ("Merge branch 'work'", 0),
        ('Revert "network: Refuse a gateway"', 0),
        ("fixup! network: refuse", 0),
        ("", 1),
    ],
)
def test_messages_have_a_subject_and_a_blank_line(message: str, faults: int) -> None:
    assert len(in_message(message)) == faults
