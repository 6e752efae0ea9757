"""Presets of the mixture."""

from lobal.core.presets import Presets
from lobal.mixture.adam.engine import Adam

# The paper's mixture. Numbers are those of Sec. 5.1 as far as they do not depend on the units of the inputs. Algorithm
# 2 compares them, as the settings that were given, with those that it finds; ladder, Sigma_E and sigma_G are its own.
PRESETS: Presets = {
    "paper": {
        "engine": Adam(  # joint training, Sec. 4.4, with the softmax gate of Eq. (eq:gateSparse)
            sparsity=2,  # kappa
            penalty=0.5,  # theta_sigma, constant
            gate_scale=10.0,  # lambda_G
            learning_rate=0.01,  # eta_0
            hyperparameter_rate=0.2,  # eta_H
            gate_rate=1.0,  # eta_G
            gate_noise=0.1,  # s_0; eta_s = 1/sqrt(2) under any options
            batch_size=512,  # B
            covariance="zero",  # S = 0, Sec. 4.3
        ),
        "kernel": "gaussian",
        "experts": "sparse",
        "n_inducing": 512,  # m_E; n_0 in Algorithm 2
        "n_gate_inducing": 128,  # m_G; n_0 / 4 in Algorithm 2
        "inducing": "svgd",  # Appendix E; their target density, Eq. (eq:optimizedIPdistribution), is the learner's
        "tuning": "once",  # hyper_init before the loop of Algorithm 1, fixed in it
        "objective": "elbo",
    }
}
