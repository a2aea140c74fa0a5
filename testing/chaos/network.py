"""The network between the application and the broker: proxies that its clients connect through, and their troubles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from penstock.kafka.local_broker.node_files import HOST, Listener
from penstock.testing.chaos.proxy import Proxy

Trouble = Callable[[Proxy], object]
"""Does something to a proxy, until it is healed."""


class Network:
    """One proxy for each broker. Troubles overlap: the end of one leaves the others. One thread."""

    def __init__(self, proxies: Sequence[Proxy]) -> None:
        self._proxies = proxies
        self._troubles: list[Trouble] = []

    @property
    def bootstrap_servers(self) -> str:
        """The addresses to which clients connect."""
        return ",".join(f"{HOST}:{proxy.port}" for proxy in self._proxies)

    def begin(self, trouble: Trouble) -> None:
        """Begin ``trouble`` at every proxy."""
        self._troubles.append(trouble)
        for proxy in self._proxies:
            trouble(proxy)

    def end(self, trouble: Trouble) -> None:
        """End ``trouble``; the others last."""
        self._troubles.remove(trouble)
        for proxy in self._proxies:
            proxy.heal()
            for other in self._troubles:
                other(proxy)

    def heal(self) -> None:
        """End all troubles."""
        for trouble in list(self._troubles):
            self.end(trouble)

    def reset(self) -> int:
        """End every connection by RST. Returns their number."""
        return sum(proxy.reset() for proxy in self._proxies)


def listener(port: int, count: int) -> Listener:
    """Returns the brokers' listener for what the proxies pass on; ``port`` is the first of twice ``count`` in a row."""
    return Listener("PROXIED", port, "PLAINTEXT", advertised_port=port + count)


@contextmanager
def network(port: int, count: int, seed: int) -> Iterator[Network]:
    """Runs the proxies before :func:`listener`."""
    with ExitStack() as stack:
        yield Network([stack.enter_context(Proxy(port + n, port + count + n, seed + n)) for n in range(count)])
