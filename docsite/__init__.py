"""The documentation site: the code that MkDocs needs beside ``mkdocs.yml`` and ``docs/``. ``make docs`` builds it.

MkDocs calls ``hooks.py``. GitHub shows the same pages, so these modules adapt them: ``github_markdown.py`` (lists and
tables), ``repository_links.py`` (links to files outside of ``docs/``). The others make pages from the code.
"""
