import re

import pytest

from lobal.core.status import CampaignStatus, described, status_line
from tests.learner_setting import bumpy, learner


def test_the_line_says_step_error_and_what_is_going_on() -> None:
    status = CampaignStatus(activity="waiting for labels", step=3, labels=90, error=0.12345)
    assert described(status) == "step 3, validation RMSE 0.1235: waiting for labels"
    assert described(status._replace(error=None)) == "step 3: waiting for labels"


def test_a_run_shows_its_progress_on_the_error_stream(capsys: pytest.CaptureFixture[str]) -> None:
    active = learner()
    active.run(bumpy, sizes=[20, 40], progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    last = shown.err.strip().splitlines()[-1]
    assert re.search(r"labels\s+40/40 .*step 2, validation RMSE [\d.]+", " ".join(last.split()))


def test_a_run_is_silent_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    learner().run(bumpy, sizes=[20])
    assert capsys.readouterr() == ("", "")
    with status_line(False, 10) as show:
        show(CampaignStatus(activity="nothing", step=0, labels=0, error=None))
    assert capsys.readouterr() == ("", "")
