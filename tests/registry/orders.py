"""Orders and their prices: what tests of a registry with brokers, Ray and Spark read and write."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Order:
    item: str
    count: int


@dataclass(frozen=True)
class Priced:
    item: str
    cents: int


def price(order: Order) -> Priced:
    return Priced(order.item, 10 * order.count)
