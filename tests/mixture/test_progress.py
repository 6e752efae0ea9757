import pytest

from lobal import Adam, Analytic
from lobal.mixture.progress import Epoch, progress_display

EPOCH = Epoch(2, kappa=2, rate=0.5, objective=1.0, validation_error=0.25)


def test_each_engine_has_its_own_status_message() -> None:
    assert Analytic().status(EPOCH) == "round 3, leave-one-out RMSE 0.2500"
    assert Adam().status(EPOCH) == "epoch 3, kappa 2, learning rate x 0.5, validation RMSE 0.2500"


@pytest.mark.parametrize("verbose", [True, False])
def test_the_status_is_shown_on_request(verbose: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with progress_display(verbose, Analytic().status) as show:
        show(EPOCH)
    assert ("leave-one-out" in capsys.readouterr().out) == verbose
