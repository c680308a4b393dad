"""``python -m sidecar``: the same as the console command."""

from sidecar.cli import main

raise SystemExit(main())
