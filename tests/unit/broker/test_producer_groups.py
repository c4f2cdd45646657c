"""The producer groups: whom a broker asks about a transaction."""

from mqstore.broker.producer_groups import ProducerGroups, TransactionCheck
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage


def check_of(name: str) -> TransactionCheck:
    """One that can be told from others."""

    def check(message: StoredMessage, half: PutMessageResult) -> None:
        raise AssertionError(name)

    return check


FIRST, SECOND = check_of("first"), check_of("second")


def test_clients_are_asked_in_turn() -> None:
    """Of their group alone."""
    groups = ProducerGroups()
    groups.register("payments", "a", FIRST)
    groups.register("payments", "b", SECOND)
    groups.register("mailing", "c", check_of("third"))
    chosen = [groups.choose("payments") for _ in range(4)]
    assert chosen in ([FIRST, SECOND] * 2, [SECOND, FIRST] * 2)


def test_who_has_left_is_not_asked() -> None:
    """Nobody is, when all have left."""
    groups = ProducerGroups()
    assert groups.choose("payments") is None
    groups.register("payments", "a", FIRST)
    groups.register("payments", "b", SECOND)
    groups.unregister("payments", "a")
    assert {groups.choose("payments") for _ in range(3)} == {SECOND}
    assert "payments" in groups
    assert repr(groups) == "ProducerGroups({'payments': 1})"
    groups.unregister("payments", "b")
    groups.unregister("payments", "b")
    assert groups.choose("payments") is None
    assert "payments" not in groups


def test_a_client_that_registers_again_is_asked_anew() -> None:
    """It has restarted under its name."""
    groups = ProducerGroups()
    groups.register("payments", "a", FIRST)
    groups.register("payments", "a", SECOND)
    assert groups.choose("payments") is SECOND
