"""Force fields from one configuration: simulate, doubt, ask, learn (Appendix "A realistic MD simulation AL scenario").

Start with `growth.py`, the rounds, and `campaign.py`, which begins a campaign or goes on with it.

- `motion.py`: velocities, heat bath, time steps of many walkers at once; `conservation.py`: runs at constant energy
- `start.py`, `start_record.py`: first labels from short trajectories under the true forces, and what is on disk of them
- `region.py`: where a force field may be trusted; `walkers.py`: pools that walkers simulate there
- `workers.py`: calls of an oracle by workers that may hang, fail or die
- `growth.py`, `campaign.py`: the rounds of one learner whose pool is simulated anew in each
- `trajectories.py`: trajectories of a finished force field, which end where they leave what it knows
"""
