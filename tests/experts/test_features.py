import pytest
import torch

from lobal.core import kernels
from lobal.core.kernels import WhitenedFeatures, gaussian
from lobal.experts import features as stored_features
from lobal.experts.features import StoredFeatures
from lobal.experts.svgp import nystroem_diagonal

X = torch.rand(23, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
FEATURES = WhitenedFeatures.at(
    X[:6] + 0.01,
    bandwidths=torch.tensor([0.3, 0.6, 1.2]).double(),
    shared_bandwidth=torch.tensor(1.0).double(),
    kernel=gaussian,
)
kept_or_not = pytest.mark.parametrize("cache", [2**30, 0], ids=["kept", "recomputed"])


@kept_or_not
def test_slices_cover_all_rows_in_order(cache: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_features, "CACHE_BYTES", cache)
    monkeypatch.setattr(kernels, "CHUNK_ENTRIES", 5 * 3 * 6)
    slices = list(StoredFeatures(FEATURES, X).slices())
    assert [phi.shape[1] for _, phi in slices] == [5, 5, 5, 5, 3]
    torch.testing.assert_close(torch.cat([phi for _, phi in slices], dim=1), FEATURES(X))
    assert torch.equal(torch.cat([X[rows] for rows, _ in slices]), X)


@kept_or_not
@pytest.mark.parametrize("rows", [slice(3, 9), torch.tensor([7, 0, 7])], ids=["slice", "rows"])
def test_some_rows_have_their_features(cache: int, rows: slice | torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_features, "CACHE_BYTES", cache)
    torch.testing.assert_close(StoredFeatures(FEATURES, X)[rows], FEATURES(X[rows]))


@kept_or_not
def test_explained_is_the_nystroem_diagonal(cache: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_features, "CACHE_BYTES", cache)
    monkeypatch.setattr(kernels, "CHUNK_ENTRIES", 1)
    torch.testing.assert_close(StoredFeatures(FEATURES, X).explained, nystroem_diagonal(FEATURES(X)))


@kept_or_not
def test_features_in_single_precision_are_the_same_rounded(cache: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_features, "CACHE_BYTES", cache)
    stored = StoredFeatures(FEATURES, X)
    for rows in (torch.tensor([7, 0, 7]), torch.tensor([1, 2, 3]), torch.tensor([4])):
        torch.testing.assert_close(stored.in_single_precision(rows), FEATURES(X[rows]).float())
