"""Has a worker changed the harness? Sources as they were, against what they are.

Without a jail a worker could write here, and the next run would execute it. Who has changed a
file cannot be told: an author may have, meanwhile.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """Digests of the Python files and headers of the harness, by path below `root`."""

    root: Path
    digests: dict[str, str]

    @classmethod
    def of(cls, root: Path) -> Fingerprint:
        """As the files are now; some milliseconds."""
        return cls(root=root, digests=_digests(root))

    def changed(self) -> list[str]:
        """What has changed, appeared or gone since."""
        now = _digests(self.root)
        paths = sorted({*self.digests, *now})
        return [path for path in paths if self.digests.get(path) != now.get(path)]


def _digests(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (root / "harness").rglob("*")
        if path.suffix in (".py", ".h") and path.is_file()
    }
