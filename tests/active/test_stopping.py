from lobal.active.stopping import no_further_gain, target_error
from tests.learner_setting import bumpy, learner


def test_stopping_rules_end_the_run() -> None:
    for rule in (target_error(100.0), no_further_gain(1.1), lambda _: True):
        active = learner()
        active.run(bumpy, sizes=[30, 60, 120], stop=[rule])
        assert len(active.labelled.y) == 30
    active = learner()
    active.run(bumpy, sizes=[30, 60], stop=[target_error(0.0), no_further_gain(0.0)])
    assert len(active.labelled.y) == 60
