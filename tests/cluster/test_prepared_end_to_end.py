"""The prepared applications, found out with the page alone: the slow operator, the hot key, the missing broker."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from penstock.api.kafka_streams import KafkaStreams
from penstock.kafka.local_broker.broker import LocalBroker
from tests.page.chromium import chromium
from tests.page.prepared.hot_key import HOT, HOT_KEY
from tests.page.prepared.missing_broker import MISSING, MISSING_BROKER
from tests.page.prepared.nodes import stop_node_of
from tests.page.prepared.slow_operator import SLOW, SLOW_OPERATOR, with_risk
from tests.page.views import finding, opened, shown
from tests.page.watch import Watch
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.submission


@contextmanager
def page_of(app: KafkaStreams) -> Iterator[Page]:
    """Opens the page of an application. At the end there must be no complaints about it."""
    app.wait_until_running(PATIENCE_S)
    address = app.status().http_address
    assert address is not None
    watch = Watch(address)
    with chromium() as browser, browser.new_context() as context:
        context.set_default_timeout(1000 * PATIENCE_S)
        expect.set_options(timeout=1000 * PATIENCE_S)
        watch.over(context)
        page = context.new_page()
        opened(page, address)
        yield page
    assert watch.unexpected() == []


def follow(page: Page, text: str) -> None:
    """Follows the way that the finding with ``text`` shows."""
    finding(page, text).get_by_role("link").first.click()


def test_the_slow_operator_is_named_with_its_function_its_file_and_its_line(
    broker: str, tmp_path: Path, ray_cluster: None
) -> None:
    line = inspect.getsourcelines(with_risk)[1]
    with SLOW_OPERATOR.running(broker, tmp_path) as app, page_of(app) as page:
        expect(finding(page, f"in {SLOW}")).to_contain_text("tasks are behind by")
        follow(page, f"in {SLOW}")
        panel = shown(page, "topology").get_by_role("complementary")
        expect(panel).to_contain_text(SLOW)
        expect(panel).to_contain_text("with_risk")
        expect(panel).to_contain_text(f"slow_operator.py:{line}")


def test_the_hot_key_is_found_by_the_finding_and_the_counts_of_keys(
    broker: str, tmp_path: Path, ray_cluster: None
) -> None:
    with HOT_KEY.running(broker, tmp_path) as app, page_of(app) as page:
        expect(finding(page, "look at its keys")).to_contain_text("1 of 8 tasks is behind by")
        follow(page, "look at its keys")
        keys = shown(page, "records").locator("p.keys")
        expect(keys).to_contain_text(f'have the key "{HOT}"')


def test_the_missing_broker_is_named_with_the_partitions_and_the_tasks_that_wait_for_it(
    tmp_path: Path, ray_cluster: None
) -> None:
    kafka = LocalBroker(tmp_path / "kafka", port=0, nodes=MISSING_BROKER.brokers)
    with kafka as brokers, MISSING_BROKER.running(brokers.bootstrap_servers, tmp_path / "state") as app:
        [at] = [f"127.0.0.1:{node.address.port}" for node in brokers.nodes if node.address.node_id == MISSING]
        with page_of(app) as page:
            expect(finding(page, "All is well")).to_be_visible()
            stop_node_of(kafka, MISSING)
            away = finding(page, f"Broker {MISSING} ({at}) is away")
            expect(away).to_contain_text("2 of 6 partitions of topic payments have no leader")
            expect(away).to_contain_text("wait")
            expect(page.get_by_test_id("findings").locator(".finding").first).to_contain_text("is away")
            follow(page, "is away")
            panel = shown(page, "topology").get_by_role("complementary")
            expect(panel).to_contain_text(f"{MISSING} ({at})")
            kafka.start()
            expect(away).to_have_count(0)
