"""The user's source: functions that were seen, and calls in them."""

import ast
import os
from dataclasses import replace
from pathlib import Path

import pytest

from bottleneck_doctor.launch.masking import mask
from bottleneck_doctor.model.code import FunctionSource, Location, SourceCall
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.source import code
from bottleneck_doctor.source.code import in_short, tree_of
from bottleneck_doctor.source.files import LARGEST_SOURCE
from bottleneck_doctor.source.reader import (
    FUNCTIONS_AT_MOST,
    LETTERS_AT_MOST,
    LONGEST_CALL,
    Site,
    lines_around,
    read_call,
    read_sources,
)
from tests.model.profiles import PROFILE, RUN

SCRIPT = '''\
import torch

class Pole:
    @property
    def state(self):
        """What nobody else need read."""
        token = "hf_abcdefghijklmnopqrst"  # of my own account
        return [
            self.x for _ in range(3)  # three
        ]

def main():
    password = "swordfish"
    login(api_key="hunter2", name="me")
    for step in range(10):
        model.fit(step)

if __name__ == "__main__":
    main()
'''


def seen(file: str, *frames: tuple[str, int], count: int = 10) -> Stack:
    return Stack(1, "trainer", "MainThread", [f"{name} ({file}:{line})" for name, line in frames], count)


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "train.py").write_text(SCRIPT)
    return str(tmp_path / "train.py")


def kept(script: str, *stacks: Stack) -> dict[str, FunctionSource]:
    return {one.function: one for one in read_sources(list(stacks), [], "/", mask)}


def test_a_line_is_quoted_without_its_arguments() -> None:
    for line, short in (
        ("im = im.filter(Median(3)).resize((w, h)).convert('RGB')", "im.filter(...).resize(...)"),
        ("rows += [one[i] * 2 for i in chosen if i not in left]", "[one[i] * 2 for i in cho ..."),
        ("for row in loader(8):\n    pass", "for row in loader(...):"),
        ("plane[x // 64, x % 64] += 1.0", "plane[x // 64, x % 64] + ..."),
        ("yield stack([f(i) for i in rows])[0], y[rows]", ""),
    ):
        assert in_short([FunctionSource("t.py", "f", 7, line)], Location("t.py", 7, "f")) == short


@pytest.mark.parametrize(
    ("line", "calculates"),
    [
        ("idx = idx * 4 + CODE[c]", True),
        ("x -= mean", True),
        ("x = np.log1p(x)", True),
        ("values.append(float(row[3]))", True),
        ("x = torch.stack([self.x[n] for n in ids])", True),
        ("for k in range(len(rows) - 1):\n    x = x * 2", False),
        ("ids = tokenizer.encode(text[start + 1:].lower()).ids[:N]", False),
        ("word = '<' + stem(w) + '>'", False),
        ("path = f'{i:06d}' + ending", False),
        ("x = torch.from_numpy(np.stack([features(i) for i in idx]))", False),
        ("labels = torch.tensor([one['label'] for one in batch])", False),
        ("parts = [series[i:j] for i in starts]", False),
    ],
)
def test_work_on_numbers_is_told_from_work_on_texts_and_files(line: str, calculates: bool) -> None:
    assert code.calculates(ast.parse(line).body[0]) is calculates


def test_functions_are_kept_with_their_lines(script: str) -> None:
    found = kept(script, seen(script, ("<module>", 19), ("main", 16), ("Pole.state", 9)))
    assert {name: one.first for name, one in found.items()} == {"<module>": 18, "main": 12, "state": 4}
    for one in found.values():
        assert tree_of(one).body
        assert len(one.text.splitlines()) in (2, 5, 7)
    assert found["main"].text.splitlines()[4].strip() == "model.fit(step)"


@pytest.mark.parametrize("secret", ["hf_abc", "my own account", "nobody else", "swordfish", "hunter2"])
def test_secrets_comments_and_docstrings_are_not_kept(script: str, secret: str) -> None:
    found = kept(script, seen(script, ("main", 16), ("Pole.state", 9)))
    assert len(found) == 2
    assert not any(secret in one.text for one in found.values())


def test_nothing_is_kept_without_a_mask_or_of_libraries_and_threads_that_wait(
    script: str, tmp_path: Path
) -> None:
    stack = seen(script, ("main", 16))
    assert read_sources([stack], [], "/", None) == []
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "x.py").write_text(SCRIPT)
    assert kept(script, seen(str(library / "x.py"), ("main", 16))) == {}
    waits = Stack(1, "trainer", "Thread-1", stack.frames, 10, running=0)
    assert kept(script, waits) == {}


def test_what_is_kept_has_a_limit(tmp_path: Path) -> None:
    file = tmp_path / "long.py"
    many = "".join(f"def f{place}():\n    return {place}\n" for place in range(60))
    body = "".join(f"    value_{place} = compute_{place}(value_{place})\n" for place in range(2000))
    loop = "    for step in range(10):\n        train(step)\n"
    file.write_text(f"{many}def main():\n{body}{loop}")
    stacks = [seen(str(file), (f"f{place}", 2 * place + 2), count=100 - place) for place in range(60)]
    found = kept(str(file), *stacks)
    assert len(found) == FUNCTIONS_AT_MOST
    assert "f0" in found
    (long,) = kept(str(file), seen(str(file), ("main", 120 + 1 + 2000 + 2))).values()
    assert "train(step)" in long.text
    assert len(long.text) < LETTERS_AT_MOST


def test_a_script_that_changed_meanwhile_is_not_quoted_as_something_else(script: str) -> None:
    assert kept(script, seen(script, ("evaluate", 16))) == {}
    Path(script).write_text("def main(:\n")
    assert kept(script, seen(script, ("main", 1))) == {}


HERE = "<here>"  # ends the call that is meant


def around(script: str, *sources: FunctionSource, began: str = "2020", here: str = "") -> str:
    """The lines around line 16, or why they are not shown; ``here`` is the script's folder."""
    folder = os.path.dirname(script)
    run = replace(RUN, cwd=folder, started_at=f"{began}-01-01T00:00:00Z")
    found = lines_around(
        Location(script, 16), replace(PROFILE, run=run, sources=[*sources]), here or folder, mask
    )
    return found if isinstance(found, str) else f"{found.first}\n{found.text}"


def test_lines_are_shown_if_they_are_those_that_ran_without_secrets_and_other_paths(script: str) -> None:
    Path(script).write_text(
        SCRIPT.replace(".fit(step)", '.fit("/data/x", 6 / 2)  # /home/ann/x, token=hf_abcdefghijklm')
    )
    source = kept(script, seen(script, ("main", 16)))["main"]
    unsure = "it is not sure that the file is still the one that ran"
    body = ["def main():", '    password = "***"', '    login(api_key="***", name="me")']
    body += ["    for step in range(10):", '        model.fit("/data/x", 6 / 2)  # /..., token=***']
    assert around(script, source, here="/").splitlines() == ["12", *body]  # what the profile has, no more
    assert around(script) == around(script, here="/", began="2999") == unsure
    older = around(script, began="2999").splitlines()
    assert (older[0], len(older)) == ("8", 13)
    Path(script).write_text(Path(script).read_text().replace("range(10)", "range(11)"))
    assert around(script, source) == unsure
    os.remove(script)
    assert around(script, source) == "the file cannot be read here"


def called(folder: Path, source: str | bytes, **site: object) -> SourceCall | None:
    """What is read of the call that ends before ``<here>``, as an interpreter of 3.11 would point at it."""
    text = source.decode("latin-1") if isinstance(source, bytes) else source
    before, _, after = text.partition(HERE)
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2].encode())
    data = source.replace(HERE.encode(), b"") if isinstance(source, bytes) else (before + after).encode()
    (folder / "train.py").write_bytes(data)
    names = frozenset("batch_size shuffle num_workers collate_fn sampler".split())
    where = {"line": line, "columns": (line, line, 0, column), "names": names} | site
    return read_call(Site("train.py", **where), str(folder), mask)  # type: ignore[arg-type]


def said(call: SourceCall | None) -> str:
    """The call in short."""
    if call is None:
        return ""
    shown = [f"{one.name}:{one.text}" if one.name else one.text for one in call.arguments]
    return f"{call.function}({' | '.join(shown)})"


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ("loader = DataLoader(ds, 64, True)<here>", "DataLoader(ds | 64 | True)"),
        ("x = f(DataLoader(ds, shuffle=a[1:])<here>, 3)", "DataLoader(ds | shuffle:a[1:])"),
        ("(torch\n  .utils.data\n  .DataLoader(ds)<here>)", "torch.utils.data.DataLoader(ds)"),
        ("DataLoader(\n  ds,  # the photos\n  num_workers=0,\n)<here>", "DataLoader(ds | num_workers:0)"),
        ("s = 'ä漢🙂'; l = DataLoader('漢', batch_size=1)<here>", "DataLoader('漢' | batch_size:1)"),
        ("if a:\r\n  l = DataLoader(\r\n    ds)<here>\r\n", "DataLoader(ds)"),
        ("\ufeffl = DataLoader(ds)<here>", ""),  # the test's column counts the mark; Python's does not
    ],
)  # fmt: skip
def test_the_call_at_a_place_is_read(tmp_path: Path, source: str, read: str) -> None:
    assert said(called(tmp_path, source)) == read


@pytest.mark.parametrize(
    "source",
    [
        "DataLoader(ds, drop_last=True)<here>",  # no such keyword arrived: the file has changed
        f"DataLoader({'x' * LONGEST_CALL})<here>",
        f"l = DataLoader(ds)<here>\n{'#' * LARGEST_SOURCE}",
        b"# coding: utf-16\nl = DataLoader(ds)<here>",
        b"s = '\xff'; l = DataLoader(ds)<here>",
    ],
)
def test_what_is_no_call_of_a_loader_or_no_honest_text_is_left_alone(
    tmp_path: Path, source: str | bytes
) -> None:
    assert called(tmp_path, source) is None


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ("l = DataLoader(ds)", "DataLoader(ds)"),
        ("a, b = DataLoader(x), DataLoader(y)", ""),
        ("l = DataLoader(Photos(), batch_size=2)", "DataLoader(Photos() | batch_size:2)"),
    ],
)
def test_an_older_python_knows_the_line_only(tmp_path: Path, source: str, read: str) -> None:
    assert said(called(tmp_path, source, line=1, columns=())) == read


@pytest.mark.parametrize("secret", ["hf_abcdefghijklmnop", "sk-abcdefghijklmnop", "hunter2", "swordfish"])
def test_secrets_are_not_kept(tmp_path: Path, secret: str) -> None:
    for source in (
        "DataLoader(Photos(token='{}'), batch_size=8)<here>",
        "DataLoader(Photos('https://ann:{}@host/data'))<here>",
        "DataLoader(Photos({{'api_key': '{}', 'size': 'large'}}))<here>",
        "DataLoader(Photos(password=f'{}{{1}}'), *more)<here>",
        "DataLoader(Photos(b'password={}', name='é'), *more)<here>",
        "DataLoader(\n Photos('a'  # {}\n ))<here>",
    ):
        call = called(tmp_path, source.format(secret))
        assert call is not None
        assert secret not in said(call)
        ast.parse(said(call).replace(" | ", ", ").replace("batch_size:", "batch_size=").replace("*:", "*"))


@pytest.mark.parametrize("name", ["absent.py", ".", "<string>", "pipe", "a\0b"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert read_call(Site(name, 1), str(tmp_path), mask) is None
