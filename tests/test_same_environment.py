"""The check after each test that it leaves the environment of its process as it was."""

from __future__ import annotations

import os

import pytest

from tests.conftest import set_back


def test_variables_that_a_test_leaves_changed_are_found_and_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = dict(os.environ)
    monkeypatch.setenv("PATH", "/elsewhere")
    monkeypatch.setenv("JAVA_HOME_OF_A_TEST", "/java")
    assert set_back() == {"PATH", "JAVA_HOME_OF_A_TEST"}
    assert dict(os.environ) == before
    assert set_back() == set()
