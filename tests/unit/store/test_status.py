"""Statuses: each outcome of a put has the response code that a RocketMQ broker answers for it."""

import pytest

from mqstore.store.status import PutMessageStatus, ResponseCode


@pytest.mark.parametrize("status", PutMessageStatus)
def test_each_outcome_of_a_put_has_a_response_code(status: PutMessageStatus) -> None:
    """SUCCESS for PUT_OK alone: a client sends again what was answered with any other code."""
    assert (status.response_code is ResponseCode.SUCCESS) == (status is PutMessageStatus.PUT_OK)


@pytest.mark.parametrize("status", PutMessageStatus)
def test_a_status_prints_as_rocketmqs_own(status: PutMessageStatus) -> None:
    """Name and value are one."""
    assert status.value == status.name
