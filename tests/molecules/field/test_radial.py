import pytest
import torch

from lobal.core import kernels
from lobal.molecules.field.radial import RADIAL_KERNELS, RadialKernel, radial_kernel_named
from tests.molecules.setting import EXACT

every_kernel = pytest.mark.parametrize(("name", "kernel"), RADIAL_KERNELS.items(), ids=RADIAL_KERNELS.keys())


@every_kernel
def test_values_are_those_of_the_kernel_of_that_name(name: str, kernel: RadialKernel) -> None:
    s = torch.linspace(0.0, 30.0, 50, dtype=torch.float64)
    torch.testing.assert_close(kernel(s).value, kernels.kernel_named(name)(s), **EXACT)


@every_kernel
def test_derivatives_are_those_of_automatic_differentiation(name: str, kernel: RadialKernel) -> None:
    s = torch.linspace(0.1, 30.0, 50, dtype=torch.float64)
    first = torch.func.vmap(torch.func.grad(lambda t: kernel(t).value))(s)
    second = torch.func.vmap(torch.func.grad(lambda t: kernel(t).first))(s)
    torch.testing.assert_close(kernel(s).first, first, **EXACT)
    torch.testing.assert_close(kernel(s).second, second, **EXACT)


@every_kernel
def test_all_is_finite_at_zero(name: str, kernel: RadialKernel) -> None:
    value, first, second = kernel(torch.zeros((), dtype=torch.float64))
    torch.testing.assert_close(value, torch.ones_like(value), **EXACT)
    assert first < 0.0 < second
    near = kernel(torch.full((), 1e-12, dtype=torch.float64))
    torch.testing.assert_close(torch.stack([value, first, second]), torch.stack([*near]), rtol=1e-5, atol=0.0)


def test_other_names_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must be one of \['gaussian', 'matern52'\], got 'matern12'"):
        radial_kernel_named("matern12")
