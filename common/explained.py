"""The pages of ``docs/messages``, which the package holds: a section for each log line and each error."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from penstock.common.errors import ApplicationStateError, StreamsError

PAGES = Path(__file__).parent / "messages"
_TO_DO = "**What to do:** "
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
_VARIES = "…"
_NEAREST = 5


@dataclass(frozen=True)
class Explanation:
    """The meaning of one message, and what to do. ``page`` is the file within ``docs/``."""

    message: str
    meaning: str
    what_to_do: str
    page: str

    def explains(self, text: str) -> bool:
        """Returns True if ``text`` is the message, or begins with it and a mark of punctuation follows."""
        parts = map(re.escape, self.message.split(_VARIES))
        found = re.match(".*?".join(parts), text, re.IGNORECASE | re.DOTALL)
        return found is not None and (
            self.message.endswith(".") or re.match(r"\W|$", text[found.end() :], re.DOTALL) is not None
        )


def explanations() -> Iterator[Explanation]:
    """Yields every section of every page."""
    for page in sorted(PAGES.glob("*.md")):
        for section in re.split(r"^## ", page.read_text(), flags=re.MULTILINE)[1:]:
            message, _, text = section.partition("\n")
            meaning, found, what_to_do = text.partition(_TO_DO)
            if found:
                yield Explanation(message, _plain(meaning), _plain(what_to_do), f"messages/{page.name}")


def find(text: str) -> list[Explanation]:
    """Returns the explanations of ``text``: of a message, or of all messages that a line of a log names, in the line's
    order."""
    known = list(explanations())
    # The longest match: `commit refused, tasks dropped` has a section of its own.
    exact = sorted((each for each in known if each.explains(text)), key=lambda each: -len(each.message))
    if exact:
        return exact[:1]
    places: dict[int, Explanation] = {}
    for each in sorted((it for it in known if it.message[0] != _VARIES), key=lambda it: len(it.message)):
        within = re.search(rf"(?<!\w){re.escape(each.message)}(?!\w)", text, re.IGNORECASE)
        if within is not None:
            places[within.start()] = each  # the longest message that begins there
    return [places[place] for place in sorted(places)]


def with_part(text: str) -> list[Explanation]:
    """Returns the explanations of the messages that contain ``text``."""
    return [each for each in explanations() if text.lower() in each.message.lower()]


def nearest(text: str) -> list[str]:
    """Returns messages that resemble ``text``."""
    return difflib.get_close_matches(text, [each.message for each in explanations()], _NEAREST, 0.4)


@lru_cache(maxsize=1000)
def section_of(message: str) -> str | None:
    """Returns the section that explains a line of the log, as page and anchor within ``docs/``; None if there is none,
    as for lines of a user's own."""
    return next((f"{each.page}#{anchor(each.message)}" for each in find(message)), None)


def anchor(heading: str) -> str:
    """Returns the anchor of a heading in the documentation, as Markdown makes it."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def name_of(error: BaseException) -> str | None:
    """Returns the name by which a public error is explained; None for other errors."""
    if isinstance(error, ApplicationStateError) and (causes := find(str(error))):
        return causes[0].message  # the application ended in ERROR: what ended it is of more help
    public = (each for each in type(error).__mro__ if each.__module__ == StreamsError.__module__)
    return next((each.__name__ for each in public), None)


def address() -> str | None:
    """Returns the address of the published documentation: ``Documentation`` in ``[project.urls]`` of
    ``pyproject.toml``."""
    try:
        urls = metadata("penstock-streams").get_all("Project-URL") or []
    except PackageNotFoundError:
        return None
    named = dict(url.split(", ", 1) for url in urls)
    return named.get("Documentation")


def _plain(text: str) -> str:
    """Returns Markdown as text of one line, with the names of the pages to which it links."""

    def shown(link: re.Match[str]) -> str:
        page = link[2].removeprefix("../")
        return link[1] if page == link[1] else f"{link[1]} (docs/{page})"

    return " ".join(_LINK.sub(shown, text).split())
