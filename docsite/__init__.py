"""The documentation site: what MkDocs needs beside ``mkdocs.yml`` and ``docs/``. ``make docs`` builds it.

``hooks.py`` is what MkDocs calls. GitHub reads the same pages, so these modules adapt them: ``github_markdown.py``
(lists and tables), ``repository_links.py`` (links to files outside of ``docs/``). The others make pages from the code.
"""
