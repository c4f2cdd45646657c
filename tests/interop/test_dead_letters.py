"""`mqstore dlq --server` at a broker of Apache RocketMQ: open to all, and one that wants keys and TLS.

Method: a name server and a broker of each version run as published. Our consumer gives a message up there,
and the command is typed as beside `mqstore serve`. What was resent is pulled from its topic. The guarded
broker knows one access key, by the access control of its version, and speaks nothing but TLS, as its name
server.
"""

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from mqstore import Message
from mqstore.broker.broker import PullRequest
from mqstore.client import (
    ConsumeFromWhere,
    ConsumerSettings,
    Credentials,
    Producer,
    PushConsumer,
    RemoteBroker,
)
from support.command_line import json_lines, run
from support.interop.broker import eventually
from support.interop.process import ROCKETMQ_VERSIONS, prepared_versions
from support.interop.real_broker import PATIENT, Guards, real_broker
from support.server.certificates import Certificates

CREDENTIALS = Credentials("billing-tools", "correct-horse-battery")
ACCOUNTS = f"""accounts:
- accessKey: {CREDENTIALS.access_key}
  secretKey: {CREDENTIALS.secret_key}
  admin: true
"""
OF_AUTHENTICATION = "org.apache.rocketmq.auth.authentication.provider"


@pytest.fixture(params=ROCKETMQ_VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """Each version, if `make interop` has made it ready."""
    assert request.param in prepared_versions(), "run these tests with: make interop"
    return str(request.param)


def give_up(broker: RemoteBroker, *keys: str) -> None:
    """Make dead letters of `billing`."""

    def fail(_messages: object, _context: object) -> None:
        raise ValueError("as the test wants it")

    settings = ConsumerSettings(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, max_reconsume_times=1
    )
    with (
        Producer(broker, "producers", PATIENT) as producer,
        PushConsumer(broker, "billing", settings) as consumer,
    ):
        for key in keys:
            producer.send(Message("orders", b"body of " + key.encode(), tags="created", keys=key))
        consumer.subscribe("orders")
        consumer.listener(fail)
        consumer.start()

        def are_dead() -> bool:
            if broker.topic_route("%DLQ%billing") is None:
                return False
            return broker.max_offset("%DLQ%billing", 0) == len(keys)

        eventually(are_dead, "all are dead letters")


def keys_in(broker: RemoteBroker, topic: str) -> list[str]:
    """The keys of what is in a topic, sorted: a broker offers a message a moment after it has stored it."""
    route = broker.topic_route(topic)
    assert route is not None
    answers = [
        broker.pull(PullRequest("test", topic, queue_id, 0, 32, "*"))
        for queue_id in range(route.read_queue_nums)
        if broker.max_offset(topic, queue_id)
    ]
    return sorted(key for answer in answers for message in answer.messages for key in message.keys)


def letters(*place: Any) -> dict[str, dict[str, Any]]:
    """What `list` shows, by key."""
    return {row["keys"][0]: row for row in json_lines(run("dlq", "list", *place, "billing", "--json"))}


def test_dead_letters_are_listed_shown_exported_and_resent_once(version: str, tmp_path: Path) -> None:
    with real_broker(version, tmp_path / "data", "dead-letters") as (running, broker):
        give_up(broker, "o-0", "o-1")
        place = ("--server", running.name_server)
        listed = letters(*place)
        assert {key: row["isResent"] for key, row in listed.items()} == {"o-0": False, "o-1": False}
        chosen = listed["o-1"]["queueOffset"]
        (shown,) = json_lines(run("dlq", "show", *place, "billing", chosen, "--json"))
        assert (shown["keys"], shown["originalTopic"], shown["tags"]) == (["o-1"], "orders", "created")
        assert run("dlq", "export", *place, "billing").stdout.count("\n") == 2
        resend = ("dlq", "resend", *place, "billing", chosen, "--apply")
        (sent,) = json_lines(run(*resend, "--json"))
        assert (sent["toTopic"], sent["isApplied"]) == ("orders", True)
        eventually(lambda: keys_in(broker, "orders") == ["o-0", "o-1", "o-1"], "the copy is in its topic")
        eventually(lambda: letters(*place)["o-1"]["isResent"], "the broker finds the copy by its key")
        again = run(*resend)
        assert again.stderr == f"nothing to send: letter {chosen} was resent before (--again sends again)\n"
        assert keys_in(broker, "orders") == ["o-0", "o-1", "o-1"]


def guards_of(version: str, certificates: Certificates, directory: Path) -> Guards:
    """One key, by the access control of that version; TLS alone."""
    # RocketMQ reads the certificate and an unencrypted PKCS#8 key from two files.
    pem = certificates.server.read_bytes()
    key = load_pem_private_key(pem, None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (directory / "server.key").write_bytes(key)
    (directory / "server.crt").write_bytes(pem[pem.index(b"-----BEGIN CERTIFICATE") :])
    (directory / "tls.properties").write_text(
        "tls.test.mode.enable=false\n"
        f"tls.server.keyPath={directory / 'server.key'}\n"
        f"tls.server.certPath={directory / 'server.crt'}\n"
    )
    java_options = ("-Dtls.server.mode=enforcing", f"-Dtls.config.file={directory / 'tls.properties'}")
    access, secret = CREDENTIALS
    settings = {"aclEnable": "true"}
    conf = {"plain_acl.yml": ACCOUNTS}
    if version == "5.5.0":
        settings = {
            "authenticationEnabled": "true",
            "authenticationProvider": f"{OF_AUTHENTICATION}.DefaultAuthenticationProvider",
            "authenticationMetadataProvider": f"{OF_AUTHENTICATION}.LocalAuthenticationMetadataProvider",
            "initAuthenticationUser": f'{{"username":"{access}","password":"{secret}"}}',
            "innerClientAuthenticationCredentials": f'{{"accessKey":"{access}","secretKey":"{secret}"}}',
        }
        conf = {}
    return Guards(settings, conf, java_options, CREDENTIALS, certificates.trusting())


def test_a_guarded_broker_lets_in_who_has_a_key_and_speaks_tls(version: str, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    keys = tmp_path / "keys.toml"
    keys.write_text(f'{CREDENTIALS.access_key} = "{CREDENTIALS.secret_key}"\n')
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(f'{CREDENTIALS.access_key} = "another-horse-battery"\n')
    (tmp_path / "other").mkdir()
    other_ca = Certificates(tmp_path / "other").ca
    guards = guards_of(version, certificates, tmp_path)
    with real_broker(version, tmp_path / "data", "guarded-letters", guards) as (running, broker):
        give_up(broker, "o-0")
        server = ("--server", running.name_server)
        signed, trusting = ("--access-keys", keys), ("--tls-ca", certificates.ca)
        assert list(letters(*server, *signed, *trusting)) == ["o-0"]
        sent = run("dlq", "resend", *server, *signed, *trusting, "billing", "--all", "--apply")
        assert sent.exit_code == 0, sent.stderr
        eventually(lambda: keys_in(broker, "orders") == ["o-0", "o-0"], "the copy is in its topic")
        for others in (
            signed,
            (*signed, "--tls-ca", other_ca),
            trusting,
            ("--access-keys", wrong, *trusting),
        ):
            refused = run("dlq", "list", *server, *others, "billing")
            assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (1, "", 1), others
