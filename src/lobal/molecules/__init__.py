"""Force fields: Gaussian processes of energies and forces that know the symmetries of a molecule."""
