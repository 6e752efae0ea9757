"""What is kept of a campaign: events first, everything else follows from them.

- `journal.py`: the file of events, appended and flushed one by one, each with number and check; `lock.py`: one writer
  at a time; `exclusive.py`: one thread at a time, and Ctrl-C that waits until an event is whole.
- `folder.py`: the folder with header, journal and the files of every step; readable after a crash at any instant.
- `steps.py`: what a campaign was begun with, and what every step leaves to the next, as files; earlier formats.
- `ledger.py`: which points were asked for, have labels, or failed; `history.py`: what every step did.
- `pools.py`: candidates that took the place of those before, where a campaign's pool grows.
- `undoing.py`: events that are taken back.
- `state.py`: ledger, history and density together, kept in step with the folder.
"""
