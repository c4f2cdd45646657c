"""The names against those that OpenTelemetry's package of semantic conventions has."""

import pytest
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.semconv.attributes import error_attributes

from mqstore.observability.opentelemetry import semantic_names

PUBLISHED = {
    value
    for module in (messaging_attributes, messaging_metrics, error_attributes)
    for value in vars(module).values()
    if isinstance(value, str)
}


@pytest.mark.parametrize("name", semantic_names.__all__)
def test_it_is_published_or_ours(name: str) -> None:
    """Names of ours are told by their beginning, and none of them is one that is published."""
    value = getattr(semantic_names, name)
    if name == "ROCKETMQ":
        assert value == messaging_attributes.MessagingSystemValues.ROCKETMQ.value
    else:
        assert (value in PUBLISHED) != value.startswith("mqstore."), value
