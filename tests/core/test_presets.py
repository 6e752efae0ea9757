from typing import Any

import pytest

from lobal.core.presets import Presets, check_preset, takes_preset

PRESETS: Presets = {"loud": {"volume": 11, "songs": ["one"]}}


@takes_preset(PRESETS)
class Radio:
    """Something with options."""

    def __init__(self, *, preset: str | None = None, volume: int = 3, songs: list[str] | None = None) -> None:
        self.preset, self.volume, self.songs = preset, volume, songs


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (3, None)),
        ({"preset": "loud"}, (11, ["one"])),
        ({"preset": "loud", "volume": 3}, (3, ["one"])),
        ({"preset": "loud", "songs": None}, (11, None)),
    ],
    ids=str,
)
def test_a_preset_gives_the_options_that_are_not_given_beside_it(given: dict[str, Any], expected: tuple) -> None:
    radio = Radio(**given)
    assert (radio.volume, radio.songs, radio.preset) == (*expected, given.get("preset"))


def test_objects_do_not_share_the_values_of_a_preset() -> None:
    radio = Radio(preset="loud")
    assert radio.songs is not None
    radio.songs.append("two")
    assert Radio(preset="loud").songs == ["one"]


@pytest.mark.parametrize("name", ["quiet", 3, ["loud"]])
def test_an_unknown_preset_is_refused_with_those_there_are(name: Any) -> None:
    with pytest.raises(ValueError, match=r"preset must be None or one of \['loud'\], got "):
        check_preset(name, PRESETS)
    assert Radio(preset=name).volume == 3  # until the class checks its options
