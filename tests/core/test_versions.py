import lobal
from lobal.core.versions import PACKAGES, versions


def test_versions_of_python_lobal_and_what_the_numbers_depend_on() -> None:
    found = versions()
    assert list(found) == ["python", "lobal", *PACKAGES]
    assert found["lobal"] == lobal.__version__
