"""Hides what looks like a secret in a command line before it is written down.

An option's name tells by its words (`--wandb_key`, `AccountKey=`, `logger.apiToken`), a value by its shape
(what issuers put in front of their tokens, the address of a webhook, the password in a URL).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# In a name, whatever stands around it.
SURELY = re.compile(
    r"passw(or)?d|passphrase|passcode|passkey|secret|credential|api[-_]?key|(access|private|account)[-_]?key"
    r"|(auth|access|bearer)[-_]?token|authori[sz]ation|webhook|conn(ection)?[-_]?str(ing)?",
    re.I,
)
# One of its words: the last one, or followed by nothing but one of FORMS.
WORDS = frozenset(
    "key keys token tokens pwd pass pat sig signature cookie cookies dsn sas auth creds jwt bearer".split()
)
FORMS = frozenset("id value string str text plain base64 b64 hex header pass pwd".split())
# What such words are of where they are no secret: counts and kinds of a model's tokens, columns of data.
INNOCENT = frozenset(
    """
    tokenizer num n max min vocab total target new pad eos bos unk sep cls mask special image patch per
    start end stop first last next class register prompt word sub train eval batch context sequence seq
    sort group primary foreign index label column col dict cache partition join feature features text
    query input output state metric monitor shard lookup data dataset sample img caption audio video field
    json tf natural pos score forward backward two one multi single by hot public
    """.split()
)
# Values that no secret has: numbers, switches, nothing.
PLAIN = re.compile(r"[-+]?\d{1,9}(\.\d*)?([eE][-+]?\d+)?|true|false|yes|no|on|off|none|null|auto", re.I)
# What the issuers' own prefixes give away, whatever stands before it.
ISSUED = re.compile(
    r"(?<![A-Za-z0-9_-])(hf_|sk-|sk_live_|rk_live_|gh[pousr]_|github_pat_|glpat-|glsa_|xox[abeprs]-|xapp-|AKIA|ASIA"
    r"|AIza|ya29\.|npm_|pypi-|dop_v1_|dckr_pat_|nvapi-|gsk_|r8_|lsv2_|wandb_v1_|dapi|xai-|lin_api_|SG\.|eyJ[\w-]{1,512}\.eyJ)[\w.-]{12,}"
)
HOOK = re.compile(
    r"(https?://(?:hooks\.slack\.com|(?:\w{1,16}\.)?discord(?:app)?\.com/api/webhooks|[\w-]{1,64}\.webhook\.office\.com"
    r"|hooks\.zapier\.com|maker\.ifttt\.com)/)[^\s\"']{8,}"
)
PEM = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*", re.S)
# Every repetition below is bounded or begins at a boundary: arguments can be megabytes long.
# A name and its value inside a longer text: a shell command, JSON, a header, the end of a URL.
INSIDE = re.compile(
    r"""(?<![\w.-])(?P<name>(?:[\w.-]{1,64}["']?\s{0,8}[=:]|-[\w.-]{1,64}(?=\s{1,8}(?!--[A-Za-z])))\s{0,8})"""
    r"""(?P<value>"[^"]{0,256}"|'[^']{0,256}'|\[[^\]]{0,256}\]|[^\s"',;&?{\[}]{1,64}|["'\[])"""
)
REST = re.compile(r"""(?<=["\[])[^"\]]*|(?<=['])[^']*|[^\s"',;&?{\[}]*""")  # of a value that is longer
# Its value has several words.
HEADER = re.compile(r"""(authori[sz]ation["']?\s{0,8}[=:]\s{0,8}["']?)[^"'\s][^"';&]{0,512}""", re.I)
SCHEME = re.compile(r"\b(bearer|basic)\s+\S+", re.I)
URL = re.compile(r"(\b\w{1,32}://[^/\s:@]{0,256}):[^/\s@]{1,256}@")
LONG_USER = re.compile(r"(\b\w{1,32}://)(?=[^/\s:@]{0,256}\d)[^/\s:@]{8,256}@")
LOGIN = re.compile(r"[^\s:/]{1,64}:[^\s/]+")  # after curl's -u
MANY = re.compile(r"(?=[^/.]*\d)(?=[^/.]*[A-Za-z])[^\s/.=-][^\s/.=]{7,}")  # one more of several secrets
SCHEMES, HEADED = re.compile(r"bearer|basic|token", re.I), re.compile(r"authori[sz]ation:$", re.I)
MASK = "***"


def mask(argv: Sequence[str]) -> list[str]:
    """``--api-key X`` and ``--api-key=X`` lose X; everything else stays."""
    shown: list[str] = []
    before = ""  # the name whose value may come next
    hidden = False  # the word before was one of its values
    for word in argv:
        name, equals, value = word.partition("=")
        if before and _is_value(word) and not (hidden and not MANY.fullmatch(word)):
            plain = bool(PLAIN.fullmatch(word))
            shown.append(word if plain else MASK)
            hidden = not plain
            continue
        if len(shown) > 1 and SCHEMES.fullmatch(shown[-1]) and HEADED.search(shown[-2]):
            shown.append(MASK)
        elif shown and shown[-1] in ("-u", "--user") and LOGIN.fullmatch(word):
            shown.append(word.partition(":")[0] + ":" + MASK)
        elif equals and _is_name(name) and _is_secret(name, value):
            shown.append(f"{name}={MASK}")
        else:
            shown.append(_masked_inside(word))
        secret = not equals and word.startswith("-") and _is_name(word) and _is_secret(word)
        before, hidden = word if secret else "", False
    return shown


def _is_value(word: str) -> bool:
    """A value may begin with a dash, an option has a name."""
    return not re.match(r"--[A-Za-z]", word)


def _is_name(text: str) -> bool:
    return re.fullmatch(r"[\w.+~@/-]+", text) is not None


def _is_secret(name: str, value: str = "") -> bool:
    """Whether a value of that name is to be hidden."""
    if PLAIN.fullmatch(value.strip("\"'")):
        return False
    if SURELY.search(name):
        return True
    words = _words(name)
    while len(words) > 1 and words[-1] in FORMS - WORDS:
        words = words[:-1]
    return bool(words) and words[-1] in WORDS | {"pass"} and not INNOCENT.intersection(words)


def _words(name: str) -> list[str]:
    """``wandb_key``, ``apiKey`` and ``logger.HF-token`` as their words, in small letters."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return [one.lower() for one in re.split(r"[^A-Za-z0-9]+", spaced) if one]


def _masked_inside(word: str) -> str:
    """Passwords in URLs, tokens known by their looks, and named values in a text of several words."""
    word = HOOK.sub(rf"\1{MASK}", PEM.sub(MASK, word))
    word = LONG_USER.sub(rf"\1{MASK}@", URL.sub(rf"\1:{MASK}@", word))
    word = HEADER.sub(rf"\1{MASK}", SCHEME.sub(rf"\1 {MASK}", ISSUED.sub(MASK, word)))
    shown, told, at = [], 0, 0
    while (found := INSIDE.search(word, at)) is not None:
        if _is_hidden(found):
            shown += [word[told : found.start("value")], MASK]
            told = at = _end(word, found)
        else:  # what it holds may have a name of its own
            at = found.end("name")
    return "".join([*shown, word[told:]])


def _end(word: str, found: re.Match[str]) -> int:
    """Where the value ends: only of one that is to be hidden is it looked for."""
    rest = (
        REST.match(word, found.end())
        if found["value"][-1:] not in "\"']" or len(found["value"]) == 1
        else None
    )
    return rest.end() if rest is not None else found.end()


def _is_hidden(found: re.Match[str]) -> bool:
    named, value = found["name"], found["value"]
    return not value.startswith("//") and _is_secret(named.rstrip(" \t\"'=:"), value)
