"""The dispatch: what it serves is what the page says that it serves."""

import re

from mqstore.remoting.request_codes import RequestCode as Code
from mqstore.server.broker_server import BrokerServer
from support.server.wire_client import WireClient
from support.sources import ROOT

PAGE = ROOT / "docs" / "serve.md"
ROW = re.compile(r"^\| (\d+) \| ([A-Z0-9_]+) \|", re.MULTILINE)
OF_A_BROKER = {
    Code.CHECK_TRANSACTION_STATE,
    Code.NOTIFY_CONSUMER_IDS_CHANGED,
    Code.PUSH_REPLY_MESSAGE_TO_CLIENT,
    # Sent by RocketMQ's; here a pull is told.
    Code.RESET_CONSUMER_CLIENT_OFFSET,
}


def test_the_page_lists_what_is_served(served: BrokerServer) -> None:
    """Each code with its name, and no other; and no code is named that nobody serves or sends."""
    listed = {(int(code), name) for code, name in ROW.findall(PAGE.read_text("utf-8"))}
    assert listed == {(code, Code(code).name) for code in served.dispatch.table}
    assert set(Code) == OF_A_BROKER | {Code(code) for code in served.dispatch.table}


def test_requests_are_counted(served: BrokerServer, client: WireClient) -> None:
    """By code; those that nobody serves are not."""
    for code in (Code.GET_BROKER_CLUSTER_INFO, 999, Code.GET_BROKER_CLUSTER_INFO):
        client.ask(code)
    counts = {code: count for code, count in served.dispatch.counts.items() if count}
    assert counts == {Code.GET_BROKER_CLUSTER_INFO: 2}


def test_no_request_without_fields_is_a_bug(client: WireClient) -> None:
    """Whatever the code, an empty request is answered: with success, or with a reason."""
    for code in sorted(Code):
        answer = client.ask(code)
        assert "Error:" not in (answer.remark or ""), (code, answer.remark)
