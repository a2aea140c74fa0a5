"""The examples give the results that the docs show."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import examples
import penstock as ps
from examples import debezium_customers, orders_of_customers, payments_once, ticks, transfers, visits
from tests.examples.transcript import OUTPUTS, Given, Topics, same_as_kept, transcript

strings, longs, json = ps.Serdes.string(), ps.Serdes.long(), ps.Serdes.json

NOON = "12:00"
Played = tuple[list[Given], Topics, Topics]


def ticks_played() -> Played:
    given = [
        Given("ticks", "09:00:00", "ACME", ticks.Tick(140.0, 10)),
        Given("limits", "09:00:01", "ACME", ticks.Limit(100.0, 120.0)),
        Given("ticks", "09:00:02", "ACME", ticks.Tick(119.5, 100)),
        Given("ticks", "09:00:03", "ACME", ticks.Tick(121.0, 20)),
        Given("ticks", "09:00:04", "OTHER", ticks.Tick(3.0, 5)),
        Given("limits", "09:00:05", "ACME", ticks.Limit(100.0, 130.0)),
        Given("ticks", "09:00:06", "ACME", ticks.Tick(121.0, 30)),
        Given("ticks", "09:00:07", "ACME", ticks.Tick(99.0, 70)),
    ]
    inputs: Topics = {"ticks": (strings, json(ticks.Tick)), "limits": (strings, json(ticks.Limit))}
    return given, inputs, {"alerts": (strings, json(ticks.Alert))}


def visits_played() -> Played:
    given = [
        Given("clicks", "10:00", "ada", "/"),
        Given("clicks", "10:12", "ada", "/tea"),
        Given("clicks", "10:15", "bob", "/"),
        Given("clicks", "10:10", "ada", "/coffee"),
        Given("clicks", "11:00", "ada", "/"),
        Given("clicks", "11:36", "eve", "/"),
    ]
    return given, {"clicks": (strings, strings)}, {"visits": (strings, json(visits.FinishedVisit))}


def orders_of_customers_played() -> Played:
    order, customer = orders_of_customers.Order, orders_of_customers.Customer
    given = [
        Given("orders", "08:00", "order-1", order("c-7", 2)),
        Given("customers", "08:01", "c-7", customer("Ada", "London")),
        Given("orders", "08:02", "order-2", order("c-7", 5)),
        Given("customers", "08:03", "c-7", customer("Ada", "Paris")),
        Given("orders", "08:04", "order-1", None),
    ]
    inputs: Topics = {"orders": (strings, json(order)), "customers": (strings, json(customer))}
    return given, inputs, {"orders-of-customers": (strings, json(orders_of_customers.OrderLine))}


def silent_sensors_played() -> Played:
    given = [
        Given("readings", "12:00:00", "cellar", 11.5),
        Given("readings", "12:00:05", "roof", 3.0),
        Given("readings", "12:00:40", "roof", 3.1),
        Given("readings", "12:01:05", "roof", 3.2),
        Given("readings", "12:02:00", "roof", 3.0),
        Given("readings", "12:02:30", "cellar", 11.4),
    ]
    return given, {"readings": (strings, ps.Serdes.double())}, {"silent-sensors": (strings, longs)}


def debezium_customers_played() -> Played:
    key, row, change = debezium_customers.Key, debezium_customers.Customer, debezium_customers.Change
    topic = "shop.public.customers"
    given = [
        Given(topic, NOON, key(1), change("r", row(1, "Ada", "London"))),
        Given(topic, NOON, key(2), change("c", row(2, "Bob", "London"))),
        Given(topic, NOON, key(1), change("u", row(1, "Ada", "Paris"))),
        Given(topic, NOON, key(2), change("d")),
        Given(topic, NOON, key(2), None),
    ]
    return given, {topic: (json(key), json(change))}, {"customers-per-city": (strings, longs)}


def payments_once_played() -> Played:
    payment = payments_once.Payment
    given = [
        Given("payments", "12:00", "ada", payment("r-1", 500)),
        Given("payments", "12:01", "ada", payment("r-1", 500)),
        Given("payments", "12:02", "ada", payment("r-2", 500)),
        Given("payments", "12:03", "bob", payment("r-1", 80)),
        Given("payments", "13:30", "ada", payment("r-1", 500)),
    ]
    payments = strings, json(payment)
    return given, {"payments": payments}, {"payments-once": payments}


def transfers_played() -> Played:
    transfer = transfers.Transfer
    given = [
        Given("transfers", "12:00", "t-1", transfer("bank", "ada", 1000)),
        Given("transfers", "12:01", "t-2", transfer("ada", "bob", 250)),
        Given("transfers", "12:02", "t-3", transfer("bob", "bank", 50)),
    ]
    return given, {"transfers": (strings, json(transfer))}, {"balances": (strings, longs)}


def best_scores_played() -> Played:
    given = [Given("scores", NOON, "chess", score) for score in (1200, 1500, 900, 800, 1600)]
    given.append(Given("scores", NOON, "go", 7))
    return given, {"scores": (strings, longs)}, {"best-scores": (strings, json(list[int]))}


def dead_letters_played() -> Played:
    given = [
        Given("orders", "12:00", "ada", '{"amount":5,"currency":"EUR"}'),
        Given("orders", "12:01", "ada", '{"amount":7,"currency":"XXX"}'),
        Given("orders", "12:02", "bob", "seven euros"),
        Given("orders", "12:03", "ada", '{"amount":1,"currency":"USD"}'),
    ]
    texts = strings, strings
    return given, {"orders": texts}, {"revenue": (strings, longs), "dead-letters": texts}


PLAYED = [
    ticks_played,
    visits_played,
    orders_of_customers_played,
    silent_sensors_played,
    debezium_customers_played,
    payments_once_played,
    transfers_played,
    best_scores_played,
    dead_letters_played,
]


@pytest.mark.parametrize("played", PLAYED, ids=lambda played: played.__name__.removesuffix("_played"))
def test_an_example_gives_the_results_of_its_transcript(played: Any) -> None:
    name = played.__name__.removesuffix("_played")
    assert same_as_kept(name, transcript(import_module(f"examples.{name}").app, *played()))


def test_each_transcript_belongs_to_an_example() -> None:
    programs = {path.stem for path in Path(examples.__path__[0]).glob("*.py")}
    assert {kept.stem for kept in OUTPUTS.glob("*.txt")} <= programs
