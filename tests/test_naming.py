"""Topic names and the descriptors a node proposes for them."""

from __future__ import annotations

import pytest

from overlaymq import ids
from overlaymq.config import Config, TopicConfig
from overlaymq.core.topics import is_consistent
from overlaymq.errors import ConfigError, NotSupported
from overlaymq.ids import Id
from overlaymq.messages import Peer
from overlaymq.runtime.naming import MAX_NAME, proposal, split

ME = Peer(Id(0xABC), "me:1")
MINE = ids.text(ME.id)
YOURS = ids.text(Id(0xDEF))


@pytest.mark.parametrize(
    ("written", "creator", "expected"),
    [
        ("prices", "", ("prices", "")),
        ("prices", YOURS, ("prices", YOURS)),
        (f"prices@{YOURS}", "", ("prices", YOURS)),
        (f"prices@{YOURS.upper()}", "", ("prices", YOURS)),
        (f"prices@{YOURS}", YOURS.upper(), ("prices", YOURS)),
        (f"a@b@{YOURS}", "", ("a@b", YOURS)),
        ("größe/🙂", "", ("größe/🙂", "")),
    ],
)
def test_a_name_may_carry_its_creator(
    written: str, creator: str, expected: tuple[str, str]
) -> None:
    assert split(written, creator) == expected


@pytest.mark.parametrize(
    ("written", "creator", "complaint"),
    [
        ("", "", "expected a name"),
        (f"@{YOURS}", "", "expected a name"),
        ("x" * (MAX_NAME + 1), "", f"at most {MAX_NAME} bytes"),
        ("ü" * (MAX_NAME // 2 + 1), "", f"at most {MAX_NAME} bytes"),
        ("prices.*", "", "exact names"),
        ("prices@", "", "32 hex digits"),
        ("prices@bob", "", "got 'bob'"),
        ("prices", "bob", "got 'bob'"),
        ("prices@0x" + "a" * 30, "", "32 hex digits"),
        ("prices@+" + "a" * 31, "", "32 hex digits"),
        ("prices@" + "a" * 15 + "_" + "a" * 16, "", "32 hex digits"),
        (f"prices@{YOURS}", MINE, "names its creator"),
    ],
)
def test_a_name_that_cannot_be_is_refused_with_the_reason(
    written: str, creator: str, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        split(written, creator)


def test_an_open_topic_belongs_to_nobody_and_lives_at_its_own_id() -> None:
    descriptor = proposal("prices", Config(), ME)
    assert (descriptor.name, descriptor.creator, descriptor.explicit) == ("prices", "", False)
    assert descriptor.id == descriptor.key == ids.topic_id("prices")
    assert is_consistent(descriptor)


def test_an_owned_topic_is_another_topic() -> None:
    owned = proposal(f"prices@{YOURS}", Config(), ME)
    assert owned == proposal("prices", Config(), ME, creator=YOURS.upper())
    assert owned.id != proposal("prices", Config(), ME).id
    assert is_consistent(owned)


def test_a_creator_rooted_topic_lives_at_its_creator() -> None:
    assert proposal("prices", Config(), ME, root="creator", explicit=True).key == ME.id
    assert proposal(f"prices@{MINE}", Config(), ME, root="creator", explicit=True).key == ME.id
    assert proposal(f"prices@{YOURS}", Config(), ME, root="creator").key == Id(0xDEF)
    with pytest.raises(ConfigError, match="root: expected 'topic' or 'creator', got 'moon'"):
        proposal("prices", Config(), ME, root="moon")


def test_only_its_creator_creates_an_owned_topic() -> None:
    assert proposal(f"prices@{MINE}", Config(), ME, explicit=True).explicit
    with pytest.raises(ConfigError, match=f"only node {YOURS} can create it; this is {MINE}"):
        proposal(f"prices@{YOURS}", Config(), ME, explicit=True)


def test_settings_come_from_arguments_then_the_pattern_then_the_defaults() -> None:
    config = Config(
        defaults=TopicConfig(flow="lossy"),
        topics={"prices.*": TopicConfig(reliability="fifo", flow="lossless")},
    )
    matched = proposal("prices.eu", config, ME, flow="patient", reliability=None)
    assert (matched.reliability, matched.flow) == ("fifo", "patient")
    assert proposal("news", config, ME).flow == "lossy"


def test_a_wrong_setting_is_named_with_the_topic() -> None:
    with pytest.raises(ConfigError, match=r"topic 'prices': flow: .* one of lossy, patient"):
        proposal("prices", Config(), ME, flow="fast")
    with pytest.raises(ConfigError, match="`flaw`"):
        proposal("prices", Config(), ME, flaw="lossy")


def test_what_is_not_built_says_so_wherever_it_was_asked_for() -> None:
    with pytest.raises(NotSupported, match=r"replicated.*use 'ordered', 'fifo' or 'best_effort'"):
        proposal("prices", Config(), ME, reliability="replicated")
    config = Config(topics={"p*": TopicConfig(reliability="replicated")})
    with pytest.raises(NotSupported, match="replicated"):
        proposal("prices", config, ME)


def test_ordered_asks_for_a_tree() -> None:
    assert proposal("prices", Config(), ME, reliability="ordered").reliability == "ordered"
    with pytest.raises(ConfigError, match="use strategy='scribe'"):
        proposal("prices", Config(), ME, reliability="ordered", strategy="direct")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"reliability": "ordered"}, "has cycles and no root"),
        ({"flow": "lossless"}, "can close a circle"),
    ],
)
def test_gossip_refuses_what_it_cannot_promise(settings: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        proposal("prices", Config(), ME, strategy="scamp", **settings)  # type: ignore[arg-type]
    assert proposal("prices", Config(), ME, strategy="scamp", reliability="fifo").flow == "patient"
