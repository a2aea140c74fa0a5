"""The programs of docs/coming-from give what their docstrings say."""

from __future__ import annotations

import penstock as ps
from examples.coming_from import count_views, orders_with_prices, silence, temperature_per_minute

text, number, real = ps.Serdes.string(), ps.Serdes.long(), ps.Serdes.double()


def test_views_are_counted_per_page() -> None:
    with ps.TopologyTestDriver(count_views.app.topology, {"application.id": "views"}) as driver:
        views = driver.create_input_topic("views", text, count_views.views)
        views.pipe_value_list(
            [count_views.View("/", "ada"), count_views.View("/tea", "ada"), count_views.View("/", "bob")]
        )
        counts = driver.create_output_topic("views-per-page", text, number)
        assert counts.read_key_values_to_list() == [("/", 1), ("/tea", 1), ("/", 2)]


def test_a_mean_is_given_once_per_minute() -> None:
    with ps.TopologyTestDriver(temperature_per_minute.topology) as driver:
        readings = driver.create_input_topic("temperatures", text, real)
        for seconds, reading in ((5, 10.0), (50, 20.0), (65, 30.0), (59, 30.0), (71, 30.0)):
            readings.pipe_input("cellar", reading, seconds * 1000)
        assert driver.create_output_topic("means", text, real).read_key_values_to_list() == [("cellar", 20.0)]


def test_an_order_has_the_price_of_its_moment() -> None:
    with ps.TopologyTestDriver(orders_with_prices.topology) as driver:
        prices, orders = (driver.create_input_topic(topic, text, number) for topic in ("prices", "orders"))
        prices.pipe_input("tea", 3, 0)
        orders.pipe_input("tea", 2, 1)
        prices.pipe_input("tea", 4, 2)
        orders.pipe_input("tea", 2, 3)
        orders.pipe_input("milk", 1, 4)
        totals = driver.create_output_topic("totals", text, number).read_key_values_to_list()
        assert totals == [("tea", 6), ("tea", 8)]


def test_a_silent_user_is_reported_once() -> None:
    with ps.TopologyTestDriver(silence.topology) as driver:
        events = driver.create_input_topic("events", text, text)
        for user, seconds in (("ada", 0), ("bob", 30), ("bob", 65), ("bob", 80)):
            events.pipe_input(user, "click", seconds * 1000)
        found = driver.create_output_topic("silent-users", text, text).read_key_values_to_list()
        assert found == [("ada", "silent")]
