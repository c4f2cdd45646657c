"""Ctrl-C as a wish: noted once, obeyed at once the second time, and the handlers given back."""

import os
import signal

import pytest

from mqstore.tools.cli.interruption import Interruption, interruptible


def test_the_first_is_a_wish_and_the_second_an_order(capsys: pytest.CaptureFixture[str]) -> None:
    """The first is noted and answered, the second raises KeyboardInterrupt."""
    interruption = Interruption()
    assert not interruption.is_asked()
    interruption.ask()
    assert interruption.is_asked()
    assert "again ends at once" in capsys.readouterr().err
    with pytest.raises(KeyboardInterrupt):
        interruption.ask()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_signals_count_within_the_block_only(number: signal.Signals) -> None:
    """Both signals are noted inside; outside, the handler is what it was."""
    before = signal.getsignal(number)
    with interruptible() as interruption:
        os.kill(os.getpid(), number)
        assert interruption.is_asked()
    assert signal.getsignal(number) is before
