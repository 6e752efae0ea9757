import pytest

from lobal.cli.table_options import repeated, texts_of


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("p l --pending a b --id i", "p l --pending a --pending b --id i"),
        ("p l --quiet --pending a b --pending c", "p l --quiet --pending a --pending b --pending c"),
        ("p l --id i --pending a b", "p l --id i --pending a --pending b"),
        ("p l --id=i --pending a b", "p l --id=i --pending a --pending b"),
        ("--pending a p l", "--pending a p l"),
        ("p --pending a l", "p --pending a l"),
        ("p l m --id i", "p l m --id i"),
        ("p l --pending a --quiet b", "p l --pending a --quiet b"),
    ],
)
def test_an_option_takes_all_files_after_it_once_the_arguments_are_there(typed: str, meant: str) -> None:
    assert repeated(typed.split(), "--pending", flags=["--quiet"], needed=2) == meant.split()


def test_texts_are_separated_by_commas_or_options() -> None:
    assert texts_of(["cracked, n.a.", "not done"]) == ("cracked", "n.a.", "not done")
    assert texts_of(None) == ()
