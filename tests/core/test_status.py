import re

import pytest

from lobal.core.status import status_line
from tests.learner_setting import bumpy, learner


def test_a_run_shows_its_progress_on_the_error_stream(capsys: pytest.CaptureFixture[str]) -> None:
    active = learner()
    active.run(bumpy, sizes=[20, 40], progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    last = shown.err.strip().splitlines()[-1]
    assert re.search(r"labels\s+40/40 .*step 2, validation RMSE [\d.]+: waiting for labels", " ".join(last.split()))


def test_a_run_is_silent_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    learner().run(bumpy, sizes=[20])
    assert capsys.readouterr() == ("", "")
    with status_line(False, 10) as show:
        show(0, "nothing")
    assert capsys.readouterr() == ("", "")
