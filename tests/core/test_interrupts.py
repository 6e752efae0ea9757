import signal
import subprocess
import sys
from pathlib import Path

import pytest

import lobal
from lobal.core.interrupts import Uninterrupted, import_whole

MODULE = "import signal\nsignal.raise_signal(signal.SIGINT)\nIS_WHOLE = True\n"


def test_an_interrupt_comes_at_the_end_of_the_outermost_block() -> None:
    reached = []

    def work() -> None:
        with Uninterrupted():
            with Uninterrupted():
                signal.raise_signal(signal.SIGINT)
                reached.append("inner")
            reached.append("outer")
        reached.append("after it")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_module_is_imported_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slowly_imported.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        import_whole("slowly_imported")
    assert sys.modules.pop("slowly_imported").IS_WHOLE


# Presses Ctrl-C in the middle of what torch imports at its first optimiser, and goes on.
GO_ON = """
import signal, sys
from importlib.abc import MetaPathFinder

class Press(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torch._dynamo.trace_rules":
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

{prepare}
sys.meta_path.insert(0, Press())
try:
    {fit}
    print("not interrupted")
except KeyboardInterrupt:
    {fit}
    print("went on")
"""
MIXTURE = """
import numpy as np, lobal
X = np.random.default_rng(0).random((20, 1))
model = lobal.MixtureRegressor(engine=lobal.Adam(max_epochs=2), n_inducing=4, bandwidths=[0.1, 0.5])
"""
FORCE_FIELD = """
import torch
from lobal.molecules.field.anisotropy import _minimised
first = torch.zeros(3, dtype=torch.float64)
arguments = lambda values: values.square().sum(), first, torch.arange(3), first[0]
"""


@pytest.mark.parametrize(
    ("prepare", "fit"),
    [(MIXTURE, "model.fit(X, X[:, 0])"), (FORCE_FIELD, "_minimised(*arguments)")],
    ids=["Adam", "force field"],
)
def test_after_ctrl_c_at_the_first_optimiser_the_process_goes_on(prepare: str, fit: str) -> None:
    program = GO_ON.format(prepare=prepare, fit=fit)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "went on\n", done.stderr


def test_every_file_that_makes_an_optimiser_prepares_for_it() -> None:
    files = {path: path.read_text() for path in Path(lobal.__file__).parent.rglob("*.py")}
    making = {name: text for name, text in files.items() if "= torch.optim." in text}
    assert len(making) >= 4
    assert [name for name, text in making.items() if "prepare_optimisers()\n" not in text] == []
