"""Faults in joins of tables: each marked line is an error for mypy and for pyright."""

from __future__ import annotations

import penstock as ps

builder = ps.StreamsBuilder()
orders = builder.table("orders", ps.Consumed.with_(ps.Serdes.string(), ps.Serdes.double()))
people = builder.table("people", ps.Consumed.with_(ps.Serdes.long(), ps.Serdes.string()))

orders.join(people, lambda order: "x", lambda order, name: name)  # error
orders.join(people, lambda order: order.id, lambda order, name: name)  # error
orders.join(people, lambda order: 7, lambda order, name: name + order)  # error
orders.join(people, lambda key, order: key, lambda order, name: name)  # error
orders.left_join(people, lambda key, order: key + 1, lambda order, name: name)  # error
orders.left_join(people, lambda order: 7, lambda order, name: name.upper())  # error
orders.join(people, lambda order: 7, lambda order: order)  # error
orders.join(people, lambda order: 7, lambda order, name: name, ps.Joined.as_("named"))  # error
orders.join(people, lambda order: 7, lambda order, name: name, named="named")  # error
