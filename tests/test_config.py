"""Configuration: every mistake is named with its key, its source and what was expected."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from overlaymq.config import Config, TopicConfig, convert, load
from overlaymq.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("values", "key", "expected"),
    [
        ({"nope": 1}, "nope", "expected one of node, pastry, link"),
        ({"pastry": {"nope": 1}}, "pastry", "`nope`; expected one of digit_bits, leaf_set_size"),
        ({"node": 3}, "node", "expected `object`"),
        ({"pastry": {"leaf_set_size": "many"}}, "pastry.leaf_set_size", "expected `int`"),
        ({"pastry": {"leaf_set_size": 15}}, "pastry.leaf_set_size", "multiple of 2"),
        ({"pastry": {"leaf_set_size": 0}}, "pastry.leaf_set_size", ">= 2"),
        ({"pastry": {"digit_bits": 3}}, "pastry.digit_bits", "expected one of 1, 2, 4, 8"),
        ({"pastry": {"random_share": 2}}, "pastry.random_share", "<= 1"),
        ({"link": {"grace": float("nan")}}, "link.grace", "> 0"),
        ({"delivery": {"patience": -1}}, "delivery.patience", "> 0"),
        ({"node": {"seeds": "a:1"}}, "node.seeds", "expected `array`"),
        ({"node": {"seeds": ["a:1", 7]}}, "node.seeds[1]", "expected `str`"),
        ({"admin": {"enabled": "maybe"}}, "admin.enabled", "expected `bool`"),
        ({"defaults": {"flow": "fast"}}, "defaults.flow", "one of lossy, patient, lossless"),
        (
            {"topics": {"a": {}, "b.*": {"flow": "fast"}}},
            "topics.'b.*'.flow",
            "'fast'; expected one of lossy, patient, lossless",
        ),
        ({"topics": {"b": {"flaw": "lossy"}}}, "topics.'b'", "`flaw`; expected one of strategy"),
        ({"topics": {"a.*.b": {}}}, "topics", "'a.*.b'"),
    ],
)
def test_an_error_names_the_key_and_what_was_expected(
    values: dict[str, Any], key: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        convert(values, Config, "overlaymq.toml")
    message = str(caught.value)
    assert message.startswith("overlaymq.toml: ")
    assert key in message
    assert expected in message


def written(path: Path, text: str) -> Path:
    file = path / "overlaymq.toml"
    file.write_text(text)
    return file


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml: cannot be read: No such file"):
        load(tmp_path / "missing.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path)


def test_a_file_that_is_not_toml_is_named_with_the_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"overlaymq\.toml: not valid TOML.*line 2"):
        load(written(tmp_path, "[node]\nlisten = \n"))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load(tmp_path / "binary.toml")


@pytest.mark.parametrize(
    "variable", ["OVERLAYMQ_NOPE_KEY", "OVERLAYMQ_PASTRY", "OVERLAYMQ_TOPICS_A", "OVERLAYMQ_"]
)
def test_an_environment_variable_that_is_no_setting_is_named(variable: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"{variable}: not a setting; expected one of")):
        load(environment={variable: "1"})


def test_an_error_says_where_the_value_came_from(tmp_path: Path) -> None:
    good = written(tmp_path, "[pastry]\nleaf_set_size = 8\n")
    wrong = {"OVERLAYMQ_PASTRY_LEAF_SET_SIZE": "x"}
    with pytest.raises(ConfigError, match=r"^environment: pastry\.leaf_set_size"):
        load(good, wrong)
    with pytest.raises(ConfigError, match=r"^OVERLAYMQ_PASTRY_NOPE: .*'nope'.*leaf_set_size"):
        load(good, {"OVERLAYMQ_PASTRY_NOPE": "x"})
    with pytest.raises(ConfigError, match=r"^arguments: node: .*`nope`"):
        load(good, nope=1)
    with pytest.raises(ConfigError, match=r"overlaymq\.toml: node: expected `object`"):
        load(written(tmp_path, "node = 3"), {"OVERLAYMQ_NODE_LISTEN": "a:1"}, listen="b:1")


def test_arguments_beat_the_environment_which_beats_the_file_which_beats_the_defaults(
    tmp_path: Path,
) -> None:
    file = written(
        tmp_path,
        '[node]\nlisten = "file:1"\nadvertise = "file:1"\nkey_file = "file"\n'
        "[pastry]\nleaf_set_size = 8\n",
    )
    environment = {"OVERLAYMQ_NODE_LISTEN": "env:1", "OVERLAYMQ_NODE_ADVERTISE": "env:1"}
    config = load(file, environment, listen="argument:1", advertise=None)
    assert config.node.listen == "argument:1"
    assert config.node.advertise == "env:1"
    assert config.node.key_file == "file"
    assert config.pastry.leaf_set_size == 8
    assert config.pastry.digit_bits == Config().pastry.digit_bits
    assert load() == Config()


def test_environment_variables_are_read_as_the_type_of_their_key() -> None:
    config = load(
        environment={
            "OVERLAYMQ_PASTRY_LEAF_SET_SIZE": "32",
            "OVERLAYMQ_DELIVERY_PATIENCE": "2.5",
            "OVERLAYMQ_ADMIN_ENABLED": "true",
            "OVERLAYMQ_NODE_SEEDS": "a:1, b:2,",
            "OVERLAYMQ_DEFAULTS_FLOW": "lossless",
            "PATH": "/bin",
        }
    )
    assert config.pastry.leaf_set_size == 32
    assert config.delivery.patience == 2.5
    assert config.admin.enabled is True
    assert config.node.seeds == ("a:1", "b:2")
    assert config.defaults.flow == "lossless"


def test_a_topic_gets_the_exact_name_then_the_longest_prefix_then_the_defaults() -> None:
    flows = {"prices": "lossy", "pri*": "patient", "prices*": "lossless", "*": "lossy"}
    config = convert(
        {
            "defaults": {"reliability": "fifo"},
            "topics": {pattern: {"flow": flow} for pattern, flow in flows.items()},
        },
        Config,
        "here",
    )
    assert config.for_topic("prices") is config.topics["prices"]
    assert config.for_topic("prices.eu") is config.topics["prices*"]
    assert config.for_topic("prince") is config.topics["pri*"]
    assert config.for_topic("news") is config.topics["*"]
    only = convert({"defaults": {"flow": "lossy"}, "topics": {"a*": {}}}, Config, "here")
    assert only.for_topic("b") == TopicConfig(flow="lossy")
    assert only.for_topic("a") == TopicConfig()


def test_tracing_is_configured_by_file_environment_and_keyword(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('[trace]\ndirectory = "here"\nrun = "monday"\nsample = 0.5\n')
    config = load(file, {"OVERLAYMQ_TRACE_DIRECTORY": "there", "OVERLAYMQ_TRACE_ROUTES": "true"})
    assert (config.trace.directory, config.trace.run) == ("there", "monday")
    assert (config.trace.sample, config.trace.routes) == (0.5, True)
    assert load().trace.directory == "", "off unless configured"


@pytest.mark.parametrize(
    ("key", "value"), [("run", "../out"), ("run", ".hidden"), ("sample", "0"), ("batch_rows", "0")]
)
def test_a_wrong_trace_setting_is_named(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        load(None, {f"OVERLAYMQ_TRACE_{key.upper()}": value})


def test_questions_about_topics_outlast_the_lease_of_a_dead_owner() -> None:
    """A publisher asked for 10 s, the lease was 10 s, and the topic counted as unavailable."""
    config = Config()
    patience = config.rendezvous.answer_timeout * config.rendezvous.answer_tries
    assert patience >= 2 * config.pastry.lease
