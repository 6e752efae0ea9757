"""A campaign in a folder, worked on with tables: the bodies of `lobal campaign` and `lobal run`.

The folder is one of `ActiveLearner`, with its journal, lock and steps, so Python may open it as well. Beside that it
has `tables.json`, which says what the tables of the laboratory look like.

- `desk.py`: that file, and the campaign opened with it
- `begin.py`: a new campaign from a table of candidates or a search space
- `rounds.py`: asking, telling, taking back
- `news.py`: which labels of a table are recorded already
- `doubtful.py`: labels in other units, or that the others contradict
- `views.py`: status, predictions and labels as tables
- `driver.py`: an external program as the source of labels
"""
