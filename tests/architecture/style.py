"""The rules of ``docs/STYLE.md`` that a program can check: few, and sure. ``make check`` runs them."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.sources import OUTSIDE, PACKAGES, ROOT, python_files

_OPENINGS = re.compile(r"(What|Whether|How|Where|Who|Whom|Whose|Which)\b")
_INSTEAD = {
    r"anew": "again",
    r"seat(s|ed)?": "static member",
    r"who(m)?ever": "the noun, or 'any process that'",
    r"save (for|in|where|that)": "except",
    r"(stands?|standing|stood) still": "is unresponsive, frozen, or does not move",
}
_WORDS = [(re.compile(rf"\b{word}\b", re.IGNORECASE), instead) for word, instead in _INSTEAD.items()]
_HELP = ("help", "description", "summary", "title", "short_help", "response_description")
"""Arguments whose texts users read: of typer, of FastAPI and of fields of pydantic."""
_RIDDLES = [
    (re.compile(r"^So many\b"), "'Number of' or the unit"),
    (re.compile(r"\b(nobody|somebody|someone|anybody)\b", re.IGNORECASE), "the process, the user or 'nothing'"),
]
"""Openings and words that a help text never needs."""
_CYTHON_DOCSTRING = re.compile(r'^\s*r?"""(.*)', re.MULTILINE)
_CODE_IN_MARKDOWN = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)


def problems_of_python(file: Path, text: str, with_strings: bool) -> Iterator[str]:
    """Yields problems of docstrings and comments; ``with_strings``: of help texts and all other strings, too."""
    tree = ast.parse(text)
    docstrings = set(_docstrings(tree))
    for node in docstrings:
        yield from _problems(file, node.lineno, str(node.value), is_docstring=True)
    if with_strings:
        for line, help_text in _help_texts(tree):
            yield from _problems_of_help(file, line, help_text)
    if with_strings:
        for each in ast.walk(tree):
            if isinstance(each, ast.Constant) and isinstance(each.value, str) and each not in docstrings:
                yield from _problems(file, each.lineno, each.value)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from _problems(file, token.start[0], token.string)


def problems_of_cython(file: Path, text: str) -> Iterator[str]:
    """Yields the same for Cython, line by line."""
    for number, line in enumerate(text.splitlines(), start=1):
        opening = _CYTHON_DOCSTRING.match(line)
        yield from _problems(file, number, line if opening is None else opening[1], is_docstring=opening is not None)


def problems_of_document(file: Path, text: str) -> Iterator[str]:
    """Yields the banned words of a page, except those in code."""
    prose = _CODE_IN_MARKDOWN.sub(lambda code: "\n" * code[0].count("\n"), text)
    for number, line in enumerate(prose.splitlines(), start=1):
        yield from _problems(file, number, line)


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yields also those below a constant or a field."""
    for node in ast.walk(tree):
        for body in (getattr(node, name, None) for name in ("body", "orelse")):
            for each in body if isinstance(body, list) else ():
                match each:
                    case ast.Expr(ast.Constant(str()) as text):
                        yield text


def _help_texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yields the texts of arguments such as ``help=``, without the values that an f-string inserts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg in _HELP:
                    yield from _texts_of(keyword.value)


def _texts_of(value: ast.expr) -> Iterator[tuple[int, str]]:
    match value:
        case ast.Constant(str() as text):
            yield value.lineno, text
        case ast.JoinedStr(parts):
            inserted = (part.value if isinstance(part, ast.Constant) else "…" for part in parts)
            yield value.lineno, "".join(map(str, inserted))
        case ast.IfExp(_, one, other):
            yield from _texts_of(one)
            yield from _texts_of(other)


def _problems_of_help(file: Path, line: int, text: str) -> Iterator[str]:
    if opening := _OPENINGS.match(text.lstrip()):
        yield f"{file}:{line}: a help text opens with {opening[0]!r}: begin with a verb or a noun (docs/STYLE.md)"
    for riddle, instead in _RIDDLES:
        if found := riddle.search(text):
            yield f"{file}:{line}: {found[0]!r} in a help text: write {instead} (docs/STYLE.md)"


def _problems(file: Path, line: int, text: str, *, is_docstring: bool = False) -> Iterator[str]:
    if is_docstring and (opening := _OPENINGS.match(text.lstrip())):
        yield f"{file}:{line}: a docstring opens with {opening[0]!r}: begin with a verb or a noun (docs/STYLE.md)"
    for word, instead in _WORDS:
        if found := word.search(text):
            yield f"{file}:{line}: {found[0]!r}: write {instead} (docs/STYLE.md)"


def problems() -> Iterator[str]:
    """Yields the problems of the whole repository."""
    for file in python_files(*PACKAGES, *OUTSIDE):
        yield from problems_of_python(file, (ROOT / file).read_text(), with_strings=file.parts[0] not in OUTSIDE)
    for folder in PACKAGES:
        for suffix in ("pyx", "pyi"):
            for path in sorted((ROOT / folder).rglob(f"*.{suffix}")):
                yield from problems_of_cython(path.relative_to(ROOT), path.read_text())
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]):
        if path.name != "STYLE.md":
            yield from problems_of_document(path.relative_to(ROOT), path.read_text())


if __name__ == "__main__":
    found = list(problems())
    print("\n".join(found) or "The style of all texts is as docs/STYLE.md has it.")
    sys.exit(1 if found else 0)
