"""Words of tasks: tasks and plans, policies, outcomes, errors, events. Plain records.

Pure. Imports nothing else of ``actors.tasks``. The other rooms import the words from here, whatever file has them.
"""

# ruff: noqa: F403
from actors.tasks.model.answer_text import *
from actors.tasks.model.event_base import *
from actors.tasks.model.executable import *
from actors.tasks.model.live_events import *
from actors.tasks.model.model_call import *
from actors.tasks.model.outcome import *
from actors.tasks.model.policy import *
from actors.tasks.model.report import *
from actors.tasks.model.shared_values import *
from actors.tasks.model.task import *
from actors.tasks.model.task_errors import *
from actors.tasks.model.task_events import *
from actors.tasks.model.usage import *
