"""The user's settings of Spark win, except those that correctness needs."""

from __future__ import annotations

import re

import pytest

from penstock.common.errors import ConfigError
from penstock.pipeline.spark.spark_settings import (
    effective_settings,
    is_local,
    settings_of_lines,
    settings_of_options,
)


def test_a_setting_of_the_user_replaces_penstocks_own() -> None:
    found = effective_settings({"spark.ui.enabled": "true", "spark.executor.memory": "4g"}, None)
    assert found["spark.ui.enabled"] == "true"
    assert found["spark.executor.memory"] == "4g"
    assert found["spark.log.level"] == "FATAL"


@pytest.mark.parametrize("value", ["true", "TRUE"])
def test_a_second_attempt_of_a_running_task_cannot_be_had(value: str) -> None:
    with pytest.raises(ConfigError, match=rf"spark\.speculation={value}: penstock needs false"):
        effective_settings({"spark.speculation": value}, None)
    assert effective_settings({"spark.speculation": "False"}, None)["spark.speculation"] == "false"


def test_on_this_machine_alone_spark_listens_on_loopback_unless_the_user_says_otherwise() -> None:
    found = effective_settings({"spark.local.dir": "/large"}, "/tmp/scratch")
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "127.0.0.1"
    assert found["spark.local.dir"] == "/large"
    assert found["spark.sql.warehouse.dir"] == "/tmp/scratch/warehouse"
    assert "spark.driver.host" not in effective_settings({}, None)


@pytest.mark.parametrize(
    ("master", "local"),
    [("local", True), ("local[*]", True), ("local[2,3]", True), ("local-cluster[2,1,1024]", False),
     ("spark://127.0.0.1:7077", False), ("yarn", False)],
)  # fmt: skip
def test_only_tasks_in_the_drivers_own_java_are_local(master: str, local: bool) -> None:
    assert is_local(master) is local


def test_lines_of_a_defaults_file_are_read_as_spark_reads_them() -> None:
    lines = [
        "# spark.a  comment", "", "spark.master   spark://127.0.0.1:7077", "spark.b=c d", " spark.e : f ", "other g",
        "spark.executor.extraJavaOptions -Da=b -Dc=d",
    ]  # fmt: skip
    assert settings_of_lines(lines) == {
        "spark.master": "spark://127.0.0.1:7077",
        "spark.b": "c d",
        "spark.e": "f",
        "spark.executor.extraJavaOptions": "-Da=b -Dc=d",
    }


def test_an_option_is_a_key_and_a_value() -> None:
    assert settings_of_options(["spark.a=b=c", "spark.d="]) == {"spark.a": "b=c", "spark.d": ""}
    for wrong in ("spark.a", "a=b"):
        with pytest.raises(ConfigError, match=f"--conf {wrong}: a setting of Spark is KEY=VALUE"):
            settings_of_options([wrong])
    with pytest.raises(ConfigError) as refused:
        settings_of_options(["object.store.aws_secret_access_key=hidden"])
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    "key",
    ["kafka.sasl.jaas.config", "kafka.ssl.keystore.key", "kafka.ssl.keystore.certificate.chain",
     "kafka.ssl.key.password", "sasl.password", "ssl.key.pem", "object.store.aws_secret_access_key",
     "spark.hadoop.fs.s3a.access.key",
     "sasl.oauthbearer.client.secret", "spark.authenticate.secret"],
)  # fmt: skip
def test_spark_hides_the_values_of_secrets(key: str) -> None:
    found = effective_settings({}, None)
    for name in ("spark.redaction.regex", "spark.sql.redaction.options.regex"):
        assert re.search(found[name], key)
    assert not re.search(found["spark.redaction.regex"], "spark.executor.memory")
