"""Secrets: which names hold one, and that no text keeps one."""

from __future__ import annotations

import pytest

from expdb.redact import MARK, Redactor, hides_below, is_secret_key, is_secret_variable, is_telling


@pytest.mark.parametrize(
    "name",
    [
        "key", "tracker.key", "TOKEN", "a.b.secret", "password", "passwd", "pwd", "credentials",
        "wandb_api_key", "aws.secret_access_key", "aws_secret_key", "ssh_private_key", "auth_token",
        "hf_token", "hub_token", "slack_bot_token", "db_password", "client_secret", "--api-key",
    ],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret_key(name)
    assert is_secret_key(f"x.{name}")


@pytest.mark.parametrize(
    "name",
    [
        "pad_token", "num_tokens", "sort_key", "model.use_cls_token", "num_memory_tokens", "keys",
        "tokens", "tokenizer", "key.bits", "secretary", "max_token", "monkey", "password_file",
    ],
)  # fmt: skip
def test_names_that_are_none(name: str) -> None:
    assert not is_secret_key(name)


@pytest.mark.parametrize("name", ["MY_TOKEN", "HF_TOKEN_READ", "DB_PASSWORD", "SECRET_1", "TOKEN"])
def test_variables_with_secrets(name: str) -> None:
    assert is_secret_variable(name)


@pytest.mark.parametrize("name", ["PWD", "OLDPWD", "HOME", "TOKENIZERS_PARALLELISM", "KEYBOARD"])
def test_variables_without_secrets(name: str) -> None:
    assert not is_secret_variable(name)


def test_a_section_named_like_a_secret_hides_what_is_below_it_unless_the_name_is_common() -> None:
    assert hides_below("credentials")
    assert hides_below("db_password")
    assert not hides_below("key")
    assert not hides_below("token")
    assert not is_telling("monitor.key", "val/loss")
    assert is_telling("key", "FAKE-KEY-0001")
    assert is_telling("password", "correct horse")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("clone https://u:FAKE-PW@host/x.git", f"clone https://{MARK}@host/x.git"),
        ("proto://u:p@ss@h/x", f"proto://{MARK}@h/x"),
        ("https://ghp_abc@github.com/a/b", f"https://{MARK}@github.com/a/b"),
        ("mail a@b.org, see http://host/a@b", "mail a@b.org, see http://host/a@b"),
        ("+tracker.key=FAKE loop=fast", f"+tracker.key={MARK} loop=fast"),
        ("--api-key='two words' -x", f"--api-key={MARK} -x"),
        ("run pad_token=[PAD] sort_key=a", "run pad_token=[PAD] sort_key=a"),
        ("the token: a word, then the key: another", "the token: a word, then the key: another"),
    ],
)
def test_what_looks_like_a_secret_in_captured_text(text: str, clean: str) -> None:
    assert Redactor().text(text) == clean
    assert Redactor().text(clean) == clean


def test_known_values_go_wherever_they_are_longest_first() -> None:
    redactor = Redactor({"FAKE-KEY-0001", "FAKE-KEY-0001-long", "abc", "true", "test"})
    assert redactor.text("xFAKE-KEY-0001-longx FAKE-KEY-0001y") == f"x{MARK}x {MARK}y"
    # Short ones are replaced as words only, and very short or ordinary ones not at all.
    assert redactor.text("a test of testing, abc is true") == f"a {MARK} of testing, abc is true"


def test_values_of_the_environment() -> None:
    redactor = Redactor(environment={"MY_TOKEN": "abcdefgh", "A_KEY": "adamw", "HOME": "/home/ada"})
    assert redactor.text("x=abcdefgh /home/ada adamw") == f"x={MARK} /home/ada adamw"


def test_a_secret_of_several_lines_is_found_by_each_of_them() -> None:
    body = "MIIEpAIBAAKCAQEAxyz" * 2
    redactor = Redactor({f"-----BEGIN KEY-----\n{body}\n-----END KEY-----"})
    assert body not in redactor.text(f"cannot parse {body}")


def test_the_words_of_a_command() -> None:
    words = ["train.py", "--api-key", "FAKE-1", "--lr", "0.1", "+x.token=FAKE-2", "--password=a b"]
    assert Redactor().command(words) == [
        "train.py",
        "--api-key",
        MARK,
        "--lr",
        "0.1",
        f"+x.token={MARK}",
        f"--password={MARK}",
    ]
