"""The command line: one function per command, heavy imports inside, so that `lobal --help` is fast.

Start with `app.py`, which has the options and help texts.

- `app.py`: `lobal demo`, `lobal suggest`, `lobal report`
- `campaign_app.py`: `lobal campaign new`, `ask`, `tell` and so on, `lobal run`; `campaign/`: what these do
- `forcefield_app.py`: `lobal forcefield train`, `evaluate`, `active`, `grow`, `md`
- `demo.py`, `suggestion.py`, `forcefield.py`, `forcefield_active.py`, `forcefield_grow.py`, `forcefield_md.py`: what
  these commands do; `growth_table.py`: the live table of `grow`
- `table_options.py`, `matching.py`: options of commands that read tables, rows of tables found in the pool
- `checks.py`: checks of the arguments, errors without traceback
"""

from lobal.cli.app import app as app
