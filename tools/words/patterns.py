"""The patterns that ``bin/check words`` looks for, each with a replacement; docs/glossary.md explains them."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Pattern:
    """A regular expression, matched without regard to case, and the suggestion shown for each match."""

    expression: re.Pattern[str]
    write: str
    only_docstrings: bool = False


def _pattern(expression: str, write: str, *, only_docstrings: bool = False) -> Pattern:
    return Pattern(re.compile(expression, re.IGNORECASE), write, only_docstrings)


PATTERNS = (
    # Relative clauses as subjects, and pronouns for users.
    _pattern(r"(?:^|[.:;] )(?:what|who|whoever|whose) (?![^.!]*\?)", "begin with the noun: the request, the user"),
    _pattern(r"\bwho(?:m|mso)?ever\b", "the user, the client, the owner"),
    _pattern(r"\b(?:somebody|someone)\b", "a user, another user, an operator"),
    _pattern(r"\b(?:everybody|everyone)\b", "all users, every project, public"),
    _pattern(r"\bnobody(?: else)?\b", "no user, no other process"),
    # Everyday verbs where the field has a term.
    _pattern(r"\b(?:is|are|was|were|be|been|being|gets?) made\b", "created"),
    _pattern(r"\bmade (?:from|for|of|by|in|here|there|with|at)\b", "created from"),
    _pattern(r"\bmak(?:e|es|ing) (?:a|an|one|new|another|its|the)\b", "create, build"),
    _pattern(r"\b(?:leads?|led)\b", "associate, route, point to"),
    _pattern(r"\b(?:lies?|lain)\b", "is stored, is placed"),
    _pattern(r"\bmend(?:s|ed|ing)?\b", "repair, fix, correct"),
    _pattern(r"\b(?:tells?|told|telling)\b", "notify, report, return, show"),
    _pattern(
        r"\b(?:goes?|gone|went|going) (?:too|with (?:it|them)|away|on\b|there|out)", "is deleted, continues, is sent"
    ),
    _pattern(r"\b(?:is|are|was|were|has|have|had) gone\b", "deleted, missing, lost"),
    _pattern(r"\b(?:it|that|which|who) goes\b(?! (?:to|through|from))", "is deleted"),
    _pattern(r"\b(?:is|are|was|were) over\b(?! \d)", "ended, finished, deleted"),
    _pattern(r"\b(?:is|are|was|were|be) said\b", "stated, specified, shown"),
    _pattern(r"\b(?:says?|said|saying) (?:of|about|to)\b", "describe, specify, return"),
    _pattern(r"\blet(?:s|ting)? (?:\w+ )?(?:in|out|through)\b", "allow, authorize, admit"),
    _pattern(r"\b(?:gives?|given|gave|giving) back\b", "release, return"),
    _pattern(r"\b(?:gives?|given|gave|giving) (?:out|away)\b", "allocate"),
    _pattern(
        r"\b(?:takes?|taken|took|taking) (?:(?:an?|the) \w+ |\w+ )?(?:away|off|over|down)\b(?! \d)",
        "remove, detach, accept, record",
    ),
    _pattern(r"\b(?:hands?|handed|handing) (?:(?:an?|the) \w+ |\w+ )?(?:out|over|on)\b", "transfer, pass, issue"),
    _pattern(r"\blet(?:s|ting)? go of\b", "release"),
    _pattern(r"\b(?:do|does|did) not say\b", "does not report"),
    _pattern(r"\b(?:says|said) (?:how|which|what|why|whether|when|where|so)\b", "show, report, specify"),
    _pattern(r"\bin one go\b", "with one request"),
    _pattern(r"\blook(?:s|ed|ing)? after\b", "manage, administer"),
    _pattern(r"\bput(?:s|ting)? (?:aside|right)\b", "keep, save, correct"),
    _pattern(r"\b(?:stands?|stood|standing) (?:in|at|below|there|above|beside|on)\b", "is in, is listed"),
    _pattern(r"\bheal(?:s|ed|ing)?\b", "recover, repair"),
    _pattern(r"\b(?:do|does|did) without\b", "not need, omit"),
    _pattern(r"\bworth (?:nothing|what)\b", "invalid, limited to"),
    _pattern(r"\bsigns? of life\b", "heartbeat"),
    _pattern(r"\b(?:is|are|was|were|be|been|being|or|only) cut off\b", "isolated, interrupted, truncated"),
    _pattern(r"\bheard of\b", "reported, sent a heartbeat"),
    _pattern(r"\bby the records\b", "according to the records"),
    _pattern(r"\bgood for\b", "valid for"),
    _pattern(r"\bfor good\b(?! reason)", "permanently"),
    _pattern(r"\b(?:bring(?:s|ing)?|brought) (?:\w+ ){0,3}back\b", "restore, move back"),
    _pattern(r"\b(?:no|has|have|is|enough) room\b", "space, capacity, an allocation"),
    _pattern(r"\bnot done with\b", "processed, finished"),
    # Word-for-word translations.
    _pattern(r"\b(?:the|an) own\b", "its own"),
    _pattern(r"\bof before\b", "previous"),
    _pattern(r"\banew\b", "again"),
    _pattern(r"(?<!several )(?<!many )(?<!two )(?<!all )\bat once\b", "immediately; at the same time"),
    _pattern(
        r"(?<!is )(?<!are )\bno more\b(?! (?:than|\w+s\b))|\b(?:not any|any|not) more\b(?! (?:than|\w+s\b))",
        "no longer",
    ),
    _pattern(r"\banymore\b", "no longer"),
    _pattern(r"\bmeanwhile\b", "in the meantime, concurrently"),
    _pattern(r"\bfurther\b", "more, other, additional"),
    _pattern(r"(?<!there )\b(?:is|are|was|were) no (?!longer\b|more\b|such\b)\w", "is not a"),
    _pattern(
        r"(?<!what )\b(?:is|are|was|were|be|been) (?:not )?there"
        r"(?: (?:yet|already|any more|twice|for|with|before|now)\b|[.,;:)]|$)",
        "exists, is available",
    ),
    _pattern(r"\bin vain\b", "without effect, fails"),
    _pattern(r"\bone more, one less\b", "attach, detach"),
    _pattern(r"\bthe (?:like|same) of\b", "similar"),
    _pattern(r"\bthe usual one\b", "the default"),
    _pattern(r"\bas delivered\b", "built-in, default"),
    _pattern(r"\bat work\b", "up, running"),
    _pattern(r"\bby the clock\b", "scheduled, periodic"),
    _pattern(r"\bin none\b", "not in any"),
    _pattern(r"\b(?:gets?|got) to know\b", "receive, read"),
    _pattern(r"\b(?:thereof|therein|wherein|whence|thither|hither|whereupon|lest)\b", "a plain conjunction"),
    _pattern(r"^(?:refused|ignored|accepted|kept|missing) (?:is|are)\b", "begin with the subject"),
    _pattern(r"\bordered to\b|\borders? (?:the|its|a|that|another) (?:\w+ )?(?:host|agent)s?\b", "command"),
    _pattern(r"\bwait(?:s|ed|ing)? on for\b", "keep waiting for"),
    # Docstrings: a noun instead of a relative clause or a pronoun.
    _pattern(r"\bwhat\b", "a noun: the result, the data, the obstacle", only_docstrings=True),
    _pattern(r"^(?:those (?:of|that)|the same,|all of them)", "begin with the noun", only_docstrings=True),
    _pattern(r"\bthose of (?:these|them)\b|^returns? those\b", "the servers among these", only_docstrings=True),
    _pattern(r"\braises as\b", "raises the errors of", only_docstrings=True),
    _pattern(r"\bis none of\b", "is not one of", only_docstrings=True),
    _pattern(
        r"\b(?:none|empty|nothing|all) without (?:one|any)\b",
        "None if it has no limit, empty if there is none",
        only_docstrings=True,
    ),
    _pattern(
        r"\b(?:nothing|everything|anything) of (?:it|them|the|an?)\b", "no data of, the parts of", only_docstrings=True
    ),
)
