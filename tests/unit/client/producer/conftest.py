"""Seconds that stand, and producers over scripted brokers: what the tests of producers share."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mqstore.client.producer.producer import Producer
from mqstore.client.producer.producer_settings import ProducerSettings
from support.clients.answering_broker import AnsweringBroker
from support.manual_clock import ManualClock
from support.manual_seconds import ManualSeconds

MakeProducer = Callable[..., Producer]


@pytest.fixture
def seconds() -> ManualSeconds:
    return ManualSeconds()


@pytest.fixture
def producer_of(clock: ManualClock, seconds: ManualSeconds) -> Iterator[MakeProducer]:
    """Makes started producers of brokers and settings; they are closed at the end."""
    made: list[Producer] = []

    def make(*brokers: AnsweringBroker, kind: type[Producer] = Producer, **settings: Any) -> Producer:
        options = {name: settings.pop(name) for name in ("listener",) if name in settings}
        settings = ProducerSettings(**settings)
        producer = kind(
            brokers,  # type: ignore[arg-type]
            "billing",
            settings,
            clock=clock,
            timer=seconds,
            choice=random.Random(1),
            **options,
        )
        producer.start()
        made.append(producer)
        return producer

    yield make
    for producer in made:
        producer.close()
