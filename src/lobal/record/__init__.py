"""What is kept on disk: models, campaigns and what happened in them. Nothing is pickled."""

from lobal.record.campaign import Campaign as Campaign
from lobal.record.files import FORMAT_VERSION as FORMAT_VERSION
from lobal.record.files import load_record as load_record
from lobal.record.files import save_record as save_record
from lobal.record.files import write_atomically as write_atomically
from lobal.record.history import History as History
from lobal.record.history import Step as Step
from lobal.record.ledger import Event as Event
from lobal.record.ledger import Ledger as Ledger
from lobal.record.ledger import Observations as Observations
