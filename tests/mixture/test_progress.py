import pytest

from lobal.mixture.progress import Epoch, described, progress_display

EPOCH = Epoch(2, kappa=2, rate=0.5, objective=1.0, validation_error=0.25)


def test_each_engine_is_described_in_its_own_words() -> None:
    assert described(EPOCH, is_adam=False) == "round 3, leave-one-out RMSE 0.2500"
    assert described(EPOCH, is_adam=True) == "epoch 3, kappa 2, learning rate x 0.5, validation RMSE 0.2500"


@pytest.mark.parametrize("wanted", [True, False])
def test_the_line_is_there_if_wanted(wanted: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with progress_display(wanted, 10, is_adam=False) as show:
        show(EPOCH)
    assert ("leave-one-out" in capsys.readouterr().out) == wanted
