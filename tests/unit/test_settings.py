"""Settings: read once, checked, and silent about secrets."""

from __future__ import annotations

import pytest

from coordinator.domain.errors import SettingsError
from coordinator.domain.urls import redact
from coordinator.settings import Settings, variable

SECRET = "s3cr3t"


def refusal(**env: str) -> str:
    with pytest.raises(SettingsError) as caught:
        Settings.from_env({f"COORDINATOR_{name}": text for name, text in env.items()})
    return str(caught.value)


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = Settings.from_env({"COORDINATOR_LEASE": "", "HOME": "/"})
    assert settings == Settings()
    assert (settings.lease, settings.partitions, settings.queue) == (5.0, 16, "redis://127.0.0.1:6379/0")


def test_every_setting_is_read_from_its_variable() -> None:
    env = {variable(name): str(value) for name, value in Settings().public().items() if value is not None}
    env |= {
        "COORDINATOR_HEARTBEAT": " 0.5 ",
        "COORDINATOR_QUEUE_URL": "unix:///run/q.sock",
        "COORDINATOR_MAX_LOG": "20",
    }
    settings = Settings.from_env(env)
    assert (settings.heartbeat, settings.queue, settings.max_log) == (0.5, "unix:///run/q.sock", 20)


def test_a_variable_that_is_almost_a_setting_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    others = (
        "COORDINATOR_PORT",
        "COORDINATOR_REDIS_PORT",
        "COORDINATOR_SERVICE_HOST",
        "COORDINATOR_TRACEBACK",
        "LEASES",
    )
    Settings.from_env(dict.fromkeys((*others, "COORDINATOR_LEASE", "COORDINATOR_GUARD_TLL"), "6"))
    assert caplog.messages == [
        "COORDINATOR_GUARD_TLL is no setting, and changes nothing; did you mean COORDINATOR_GUARD_TTL?"
    ]


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("LEASE", "soon", "a number of seconds from 0.001 to"),
        ("LEASE", "nan", "a number of seconds"),
        ("LEASE", "inf", "a number of seconds"),
        ("DRAIN", "-1", "a number of seconds"),
        ("SWEEP", "2.5", "a number of seconds from 0.01 to 2"),
        ("PARTITIONS", "16.5", "a whole number from 1 to 256"),
        ("PARTITIONS", "0", "a whole number from 1 to 256"),
        ("NAMESPACE", "a:b", "a name of 1 to 128"),
        ("NAMESPACE", "{a}", "a name of 1 to 128"),
    ],
)
def test_a_bad_value_names_the_variable_its_kind_and_itself(name: str, text: str, kind: str) -> None:
    message = refusal(**{name: text})
    assert message.startswith(f"COORDINATOR_{name} is {kind}")
    assert text in message.rpartition(", not ")[2]


def test_all_bad_values_are_told_at_once() -> None:
    assert refusal(LEASE="x", DRAIN="y").count("\n") == 1


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"LEASE": "1", "HEARTBEAT": "1"}, "COORDINATOR_LEASE (1) has to be more than COORDINATOR_HEARTBEAT (1)"),
        ({"SELF_STOP": "4"}, "COORDINATOR_SELF_STOP (4) has to be more than COORDINATOR_LEASE (5)"),
        ({"RESET_TIMEOUT": "20"}, "COORDINATOR_CANCEL_TIMEOUT + COORDINATOR_PROVIDER_RESET (20)"),
        ({"GUARD_TTL": "90"}, "COORDINATOR_GUARD_TTL (90) has to be at most COORDINATOR_GUARD_HOLD"),
        ({"MAX_BODY": "9", "MAX_INBOX_BYTES": "8"}, "COORDINATOR_MAX_BODY (9) has to be at most"),
    ],
)
def test_values_that_contradict_each_other_are_refused(env: dict[str, str], words: str) -> None:
    assert words in refusal(**env)


def test_values_given_in_python_are_checked_alike() -> None:
    with pytest.raises(SettingsError, match="COORDINATOR_PARTITIONS"):
        Settings(partitions=True)
    with pytest.raises(SettingsError, match="COORDINATOR_LEASE"):
        Settings(lease="5")  # type: ignore[arg-type]
    assert Settings(lease=4).lease == 4


GOOD_URLS = [
    f"redis://me:{SECRET}@localhost:6380/3",
    f"rediss://:{SECRET}@[::1]/0?ssl_cert_reqs=none",
    f"unix://:{SECRET}@/run/redis.sock?db=2",
    f"redis://localhost?password={SECRET}&db=1",
    "embedded:",
    "embedded:/var/lib/coord",
    "embedded:./here",
]
BAD_URLS = [
    f"http://:{SECRET}@localhost",
    SECRET,
    f"redis:{SECRET}",
    f"redis://:{SECRET}",
    f"redis://:{SECRET}/more@localhost:1",
    f"redis://:{SECRET}#x@localhost",
    f"redis://:{SECRET}@localhost:99999",
    f"redis://:{SECRET}@localhost/{SECRET}",
    f"redis://:{SECRET}@localhost?nonsense={SECRET}",
    f"redis://:{SECRET}@",
    "unix://",
    "embedded:/x?y",
    f"redis+sentinel://:{SECRET}@a,b/service",
    f"redis+cluster://:{SECRET}@a",
]


@pytest.mark.parametrize("url", GOOD_URLS)
def test_a_good_url_is_kept_and_shows_no_secret(url: str) -> None:
    settings = Settings(redis_url=url)
    assert settings.redis_url == url
    assert settings.queue == url
    shown = f"{settings!r} {settings} {settings.public()} {list(settings.__rich_repr__())}"
    assert SECRET not in shown
    assert redact(url) in shown


@pytest.mark.parametrize("url", BAD_URLS)
def test_a_bad_url_is_refused_without_being_quoted(url: str) -> None:
    message = refusal(QUEUE_URL=url)
    assert message.startswith("COORDINATOR_QUEUE_URL is a Redis URL, and this one ")
    assert SECRET not in message
    assert SECRET not in redact(url)


@pytest.mark.parametrize(("scheme", "kind"), [("redis+sentinel", "Sentinel"), ("redis+cluster", "Cluster")])
def test_addresses_for_later_say_so(scheme: str, kind: str) -> None:
    assert f"names a {kind}, which this build does not speak to yet" in refusal(REDIS_URL=f"{scheme}://h/0")


def test_the_user_name_stays_visible() -> None:
    assert redact(f"redis://me:{SECRET}@h:1/0") == "redis://me:***@h:1/0"
    assert redact("redis://h:1/0") == "redis://h:1/0"
