"""The fixtures, as a stranger's tests use them: pytest runs these in a process of its own."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CONFTEST = 'pytest_plugins = ["mqstore.testing"]\n'


@pytest.mark.slow
def test_each_test_has_a_store_of_its_own(pytester: pytest.Pytester) -> None:
    """It is open, and what one test puts the next one does not see."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        """
        import pytest
        from mqstore import Message

        @pytest.mark.parametrize("turn", [1, 2])
        def test_put(mqstore_store, turn):
            assert mqstore_store.put_message(Message("orders", b"42.00")).queue_offset == 0
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)


@pytest.mark.slow
def test_a_server_answers_clients(pytester: pytest.Pytester) -> None:
    """By RocketMQ's protocol; the test looks into the store."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r})
        from support.server.wire_client import WireClient, send_fields
        from mqstore.remoting.request_codes import RequestCode

        def test_send(mqstore_server):
            mqstore_server.store.topics.create("orders", 1)
            with WireClient(mqstore_server.address) as client:
                answer = client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("orders"), b"42.00")
            assert answer.code == 0
            (message,) = mqstore_server.store.get_message("group", "orders", 0, 0).messages
            assert message.body == b"42.00"
            assert (mqstore_server.path / "commitlog").is_dir()
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


@pytest.mark.slow
def test_settings_are_replaced_by_a_fixture(pytester: pytest.Pytester) -> None:
    """Of the same name, as is usual in pytest."""
    pytester.makeconftest(
        CONFTEST
        + """
import pytest
from mqstore import StoreConfig

@pytest.fixture
def mqstore_config():
    return StoreConfig(mapped_file_size_commit_log=131_072, max_message_size=1_000)
"""
    )
    pytester.makepyfile(
        """
        import pytest
        from mqstore import Message
        from mqstore.store.errors import StoreError

        def test_limit(mqstore_store):
            with pytest.raises(StoreError, match="1,?000"):
                mqstore_store.put_message(Message("orders", bytes(2_000)))
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
