"""A fitted model together with the variables that its inputs are made of: it predicts from raw columns."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lobal.active.frames import UserInput, columns_of
from lobal.active.region import Region
from lobal.active.space_fields import VARIABLES, variables_from_json, variables_to_json
from lobal.core.checks import shown
from lobal.core.files import load_record, save_record
from lobal.core.schema import list_of, read_from, table, text
from lobal.core.variables import Variable
from lobal.mixture.estimator import MixtureRegressor

KIND = "space model"
OUTPUT_FIELDS = list_of(table({"name": text(), "model": table({})}))
FIELDS = table({"kind": text(KIND), "variables": VARIABLES, "outputs": OUTPUT_FIELDS})
ADVICE = "write it with learner.save_model(path); lobal.MixtureRegressor.load reads models of arrays"


@final
class SpaceModel:
    """Models of the outputs over named variables.

    Args:
        variables: the variables, in the order of the models' inputs.
        models: a fitted `MixtureRegressor` for every output, by its name.

    Example:
        >>> import lobal, numpy as np
        >>> space = lobal.SearchSpace([lobal.Real("x", 0.0, 1.0), lobal.Categorical("kind", ["a", "b"])])
        >>> learner = lobal.ActiveLearner(space, seed=0)
        >>> points = learner.ask(20)
        >>> learner.tell(points, np.sin(6 * points["x"]) + (points["kind"] == "b"))
        >>> learner.save_model("model.lobal")  # doctest: +SKIP
        >>> lobal.SpaceModel.load("model.lobal").predict({"x": [0.3], "kind": ["a"]})  # doctest: +SKIP
    """

    def __init__(self, variables: Sequence[Variable], models: Mapping[str, MixtureRegressor]) -> None:
        self.variables, self.models = tuple(variables), dict(models)
        self._region = Region(self.variables, ())
        d = sum(variable.n_inputs for variable in self.variables)
        for name, model in self.models.items():
            if not isinstance(model, MixtureRegressor):
                raise TypeError(f"the model of {name!r} must be a lobal.MixtureRegressor, got {shown(model)}")
            if model.n_features_in_ != d:
                raise ValueError(f"the model of {name!r} must have {d} inputs, got {model.n_features_in_}")
        if not self.models:
            raise ValueError("there must be a model for one output at least, got none")

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return list(self.models)

    def inputs(self, points: UserInput) -> Float[ndarray, "n d"]:
        """The models' inputs of points: a data frame, a dictionary of columns or a list of dictionaries."""
        columns = columns_of(points, self._region.names).columns
        return self._region.inputs(self._region.codes(columns))

    def predict(self, points: UserInput, **options: Any) -> Any:  # noqa: ANN401 - as MixtureRegressor.predict
        """What `MixtureRegressor.predict` returns with these options; of several outputs by their names.

        Args:
            points: raw values, a data frame, a dictionary of columns or a list of dictionaries.
            **options: `return_std`, `return_cov`, `include_noise` and `return_interval` of `MixtureRegressor.predict`.

        Raises:
            ValueError: columns are missing, or values are none of the variables.
        """
        inputs = self.inputs(points)
        found = {name: model.predict(inputs, **options) for name, model in self.models.items()}
        return found if len(found) > 1 else next(iter(found.values()))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write variables and models to one file, without pickle."""
        tensors: dict[str, Tensor] = {}
        outputs: list[dict[str, Any]] = []
        for number, (name, model) in enumerate(self.models.items()):
            parts, fields = model.to_record()
            tensors |= {f"{number}.{key}": tensor for key, tensor in parts.items()}
            outputs.append({"name": name, "model": fields})
        fields = {"kind": KIND, "variables": variables_to_json(self.variables), "outputs": outputs}
        save_record(path, tensors, fields)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, device: str | None = None) -> "SpaceModel":
        """The model that `save` wrote, on the given device.

        Raises:
            ValueError: the file is damaged, no such model, or a newer version of lobal wrote it.
        """
        tensors, fields = load_record(path)
        models = {}
        with read_from(path, "a model with named variables", advice=ADVICE):
            FIELDS(fields, "fields")
            variables = variables_from_json(fields["variables"])
            for number, output in enumerate(fields["outputs"]):
                start = f"{number}."
                parts = {key.removeprefix(start): each for key, each in tensors.items() if key.startswith(start)}
                models[output["name"]] = MixtureRegressor.from_record(parts, output["model"], device=device)
            model = cls(variables, models)
            some = np.array([[each.bounds[0] for each in variables]])
            if not all(np.isfinite(each.predict(model._region.inputs(some))).all() for each in models.values()):
                raise ValueError("its predictions must be numbers, got NaN")
        return model
