"""The process ends itself with status 0 as soon as it is loaded.

expect: crash
says: status 0
defence: an exit status is no evidence
"""

import os

print('{"status": "pass", "forward_speedup": 100.0}', flush=True)
os._exit(0)


class ModelNew:
    pass
