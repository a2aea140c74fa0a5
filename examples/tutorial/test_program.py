"""Step 6: a test of the program, without a broker."""

from datetime import UTC, datetime

import penstock as ps
from examples.tutorial.step_4_join import app, number, text

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


def test_words_count_for_the_theme_that_they_have_at_that_moment() -> None:
    with ps.TopologyTestDriver(app.topology) as driver:
        messages = driver.create_input_topic("messages", text, text)
        themes = driver.create_input_topic("themes", text, text)
        counts = driver.create_output_topic("theme-counts", text, number)

        messages.pipe_input("ada", "tea", NOON)  # has no theme yet
        themes.pipe_input("tea", "drinks", NOON)
        messages.pipe_input("bob", "more tea", NOON)

        assert counts.read_key_values_to_list() == [("drinks", 1)]
        assert driver.get_key_value_store("counts").get("tea") == 2
