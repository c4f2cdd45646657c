"""How many messages of a batch an answer acknowledges: the table of processConsumeResult."""

import pytest

from mqstore.client.consumer.listener import ConsumeContext, ConsumeStatus

SUCCESS, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER


@pytest.mark.parametrize(
    ("status", "ack_index", "acknowledged"),
    [
        (SUCCESS, None, 4),
        (SUCCESS, 1, 2),
        (SUCCESS, 99, 4),
        (SUCCESS, -1, 0),
        (SUCCESS, -5, 0),
        (LATER, None, 0),
        (LATER, 1, 0),
    ],
)
def test_acknowledged_count_of_four(status: ConsumeStatus, ack_index: int | None, acknowledged: int) -> None:
    """RECONSUME_LATER acknowledges none; CONSUME_SUCCESS all up to the ack index, within the batch."""
    context = ConsumeContext("orders", 0)
    if ack_index is not None:
        context.ack_index = ack_index
    assert context.acknowledged_count(status, 4) == acknowledged
