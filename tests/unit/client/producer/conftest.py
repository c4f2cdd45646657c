"""Seconds that stand, and producers over scripted brokers: what the tests of producers share."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mqstore.client.producer.producer import Producer
from mqstore.client.producer.producer_config import ProducerConfig
from support.manual_clock import ManualClock
from support.manual_seconds import ManualSeconds
from support.scripted_broker import ScriptedBroker

MakeProducer = Callable[..., Producer]


@pytest.fixture
def seconds() -> ManualSeconds:
    return ManualSeconds()


@pytest.fixture
def producer_of(clock: ManualClock, seconds: ManualSeconds) -> Iterator[MakeProducer]:
    """Makes started producers of brokers and settings; they are closed at the end."""
    made: list[Producer] = []

    def make(*brokers: ScriptedBroker, kind: type[Producer] = Producer, **settings: Any) -> Producer:
        options = {name: settings.pop(name) for name in ("listener",) if name in settings}
        config = ProducerConfig(**settings)
        producer = kind(
            brokers,  # type: ignore[arg-type]
            "billing",
            config,
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
