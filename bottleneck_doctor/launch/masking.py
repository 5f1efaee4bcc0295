"""Hides what looks like a secret in a command line before it is written down.

By the name of an option (`--wandb_key`, `AccountKey=`, `logger.apiToken`), or by the shape of a value: what
issuers put in front of their tokens, hex or base64 of 32 characters and more, the password in a URL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MASK = "***"
# In a name, whatever stands around it.
SURELY = re.compile(
    r"passw(or)?d|passphrase|passcode|passkey|secret|credential|api[-_]?key|(access|private|account)[-_]?key"
    r"|(auth|access|bearer)[-_]?token|authori[sz]ation|webhook|conn(ection)?[-_]?str(ing)?",
    re.I,
)
# One of its words: the last one, or followed by nothing but one of FORMS.
WORDS = frozenset(
    """
    key keys token tokens pw pwd pass pat otp sig signature cookie cookies dsn sas auth creds jwt bearer
    """.split()
)
FORMS = frozenset("id value string str text plain base64 b64 hex header".split())
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
# Words of names whose values are long hashes or names, and no secret.
LONG = frozenset(
    """
    commit git ref rev revision sha sha1 sha256 hash checksum digest md5 etag uuid run job trial exp
    experiment name tag model arch ckpt checkpoint resume path file dir folder dataset
    """.split()
)
# Values that no secret has, and numbers that no key and, even smaller, no password is.
SWITCH = re.compile(r"true|false|yes|no|on|off|none|null|auto", re.I)
NUMBER = re.compile(r"[-+]?\d{1,6}(\.\d*)?([eE][-+]?\d+)?")
SMALL = re.compile(r"[-+]?\d{1,3}(\.\d*)?")
HEX = re.compile(r"(?=\d*[A-Fa-f])[0-9A-Fa-f]{32,}")
BASE64 = re.compile(r"(?!\.{0,2}/)[\w+/-]{32,}={0,2}", re.ASCII)
CHANGE = re.compile(r"(?<=[a-z])[^a-z]|(?<=[A-Z])[^A-Z]|(?<=\d)\D")  # from one kind of character to another
TYPED = re.compile(
    r"(?=.*[A-Za-z])(?=.*\d)(?=.*[!#$%^&*?@])[^\s/]{8,64}"
)  # a password, and no path or number
NAME = re.compile(r"[\w.+~@/-]+")
LOGINS = ("-u", "--user", "--login")
LOGIN = re.compile(r"([^\s:/]{1,64}):[^\s/]+")
MANY = re.compile(r"(?=[^/.]*\d)(?=[^/.]*[A-Za-z])[^\s/.=-][^\s/.=]{7,}")  # one more of several secrets
SCHEMES, HEADED = re.compile(r"bearer|basic|token", re.I), re.compile(r"authori[sz]ation:$", re.I)
# Every repetition below is bounded or begins at a boundary: arguments can be megabytes long.
SHAPES = [
    (re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*", re.S), MASK),
    (re.compile(r"(https?://(?:hooks\.slack\.com|(?:\w{1,16}\.)?discord(?:app)?\.com/api/webhooks"
                r"|[\w-]{1,64}\.webhook\.office\.com|hooks\.zapier\.com|maker\.ifttt\.com)/)[^\s\"']{8,}"),
     rf"\1{MASK}"),
    (re.compile(r"(\b\w{1,32}://[^/\s:@]{0,256}):[^/\s@]{1,256}@"), rf"\1:{MASK}@"),
    (re.compile(r"(\b\w{1,32}://)(?=[^/\s:@]{0,256}\d)[^/\s:@]{8,256}@"), rf"\1{MASK}@"),
    (re.compile(r"(?<![A-Za-z0-9_-])(hf_|sk-|[sr]k_live_|gh[pousr]_|github_pat_|glpat-|glsa_|xox[abeprs]-|xapp-"
                r"|A[KS]IA|AIza|ya29\.|npm_|pypi-|dop_v1_|dckr_pat_|nvapi-|gsk_|r8_|lsv2_|wandb_v1_|dapi|xai-"
                r"|lin_api_|SG\.|eyJ[\w-]{1,512}\.eyJ)[\w.-]{12,}"), MASK),
    (re.compile(r"\b(bearer|basic)\s+\S+", re.I), rf"\1 {MASK}"),
    (re.compile(r"""(authori[sz]ation["']?\s{0,8}[=:]\s{0,8}["']?)[^"'\s][^"';&]{0,512}""", re.I),
     rf"\1{MASK}"),
]  # fmt: skip
# A name and its value inside a longer text: a shell command, JSON, a header, the end of a URL.
INSIDE = re.compile(
    r"""(?<![\w.-])(?P<name>(?:[\w.-]{1,64}["']?\s{0,8}[=:]|-[\w.-]{1,64}(?=\s{1,8}(?!--[A-Za-z])))\s{0,8})"""
    r"""(?P<value>"[^"]{0,256}"|'[^']{0,256}'|\[[^\]]{0,256}\]|[^\s"',;&?{\[}]{1,64}|["'\[])"""
)
REST = re.compile(r"""(?<=["\[])[^"\]]*|(?<=['])[^']*|[^\s"',;&?{\[}]*""")  # of a value that is longer


def mask(argv: Sequence[str]) -> list[str]:
    """``--api-key X`` and ``--api-key=X`` lose X; everything else stays."""
    shown: list[str] = []
    name, hidden = "", False  # the option whose values may come, and whether one of them was hidden
    for word in argv:
        key, equals, value = word.partition("=")
        is_value = name and not re.match(r"--[A-Za-z]", word)
        if is_value and (MANY.fullmatch(word) if hidden else _is_secret(name, word)):
            shown.append(MASK)
            hidden = True
            continue
        if len(shown) > 1 and SCHEMES.fullmatch(shown[-1]) and HEADED.search(shown[-2]):
            shown.append(MASK)
        elif equals and NAME.fullmatch(key) and _is_secret(key, value):
            shown.append(f"{key}={MASK}")
        elif LOGIN.fullmatch(value if key in LOGINS else word if name in LOGINS else ""):
            shown.append(LOGIN.sub(rf"\1:{MASK}", word))
        else:
            shown.append(_masked_inside(word))
        is_option = word.startswith("-") or word == "login"
        name, hidden = word if is_option and NAME.fullmatch(word) else "", False
    return shown


def _is_secret(name: str, value: str) -> bool:
    """Whether a value of that name is to be hidden."""
    value = value.strip("\"'")
    words = _words(name)
    if SWITCH.fullmatch(value) or not words:
        return False
    if SURELY.search(name):
        return not SMALL.fullmatch(value)
    if words[-1] == "pin":  # of four digits or more; else memory is pinned
        return value.isdigit() and not SMALL.fullmatch(value)
    if (_is_random(value) and not LONG.intersection(words)) or (name == "-p" and TYPED.fullmatch(value)):
        return True
    while len(words) > 1 and words[-1] in FORMS:
        words = words[:-1]
    is_count = NUMBER.fullmatch(value) or (words[-1].endswith("s") and value.isdigit())
    return words[-1] in WORDS and not is_count and not INNOCENT.intersection(words)


def _words(name: str) -> list[str]:
    """``wandb_key``, ``apiKey`` and ``logger.HF-token`` as their words, in small letters."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return [one.lower() for one in re.split(r"[^A-Za-z0-9]+", spaced) if one]


def _is_random(value: str) -> bool:
    """Whether it is long hex, or base64 without words in it: of random characters two in three neighbours are
    of different kinds, in names there are fewer, or more separators."""
    if not BASE64.fullmatch(value):
        return False
    value = value[:4096].rstrip("=")
    letters = re.sub(r"[\W_]", "", value)
    mixed = all(re.search(kind, letters) for kind in ("[a-z]", "[A-Z]", r"\d"))
    changes = len(CHANGE.findall(letters))
    by_chance = mixed and len(letters) >= 7 / 8 * len(value) and changes >= 0.43 * len(letters)
    return by_chance or HEX.fullmatch(value) is not None


def _masked_inside(word: str) -> str:
    """Passwords in URLs, tokens known by their looks, and named values in a text of several words."""
    for shape, instead in SHAPES:
        word = shape.sub(instead, word)
    shown, done, at = [], 0, 0
    while (found := INSIDE.search(word, at)) is not None:
        named, value = found["name"].rstrip(" \t\"'=:"), found["value"]
        at = found.end("name")  # what the value holds may have a name of its own
        if not value.startswith("//") and _is_secret(named, value):
            shown += [word[done : found.start("value")], MASK]
            is_whole = value[-1] in "\"']" and len(value) > 1
            done = at = found.end() if is_whole else REST.match(word, found.end()).end()  # type: ignore[union-attr]
    return "".join([*shown, word[done:]])
